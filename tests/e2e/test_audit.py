"""What a run leaves in the audit trail, by the API and by the command line, and what the trail tells of it later."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pysandbox import AsyncCage, AuditLog, Cage, Policy, Runtime
from pysandbox.audit.read import AuditRecord, records, verify
from pysandbox.denial import Denial
from pysandbox.errors import AuditError, PolicyError, StartError
from pysandbox.events import TYPES, Event
from pysandbox.result import Result, outcome

MODULE = [sys.executable, "-m", "pysandbox"]


class Trail:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = AuditLog(path)
        self.seen: list[Event] = []
        self.runtime = Runtime(audit=self.log, sink=self.seen.append, warm=0)

    def cage(self, policy: Policy | None = None, **options: Any) -> Cage:
        return Cage(policy, runtime=self.runtime, **options)

    def records(self, type: str = "") -> list[AuditRecord]:
        return [each for each in records(str(self.path)) if type in ("", each.type)]


@pytest.fixture
def trail(tmp_path: Path) -> Iterator[Trail]:
    trail = Trail(tmp_path / "audit" / "events.jsonl")
    yield trail
    trail.runtime.end_sessions()
    trail.runtime.drain()
    trail.log.close()


def test_a_limit_that_was_hit_is_told_with_its_value(trail: Trail) -> None:
    policy = Policy(walltime_sec=1, grace_sec=0, memory_mb=256)
    trail.cage(policy).run(["sleep", "60"])
    (spawn,), (violation,) = trail.records("subagent.spawn"), trail.records("policy.violation")
    assert (violation.data["limit"], violation.data["value"]) == ("walltime", 1)
    assert spawn.data["enforcement"]["memory_mb"] in ("cgroup", "watchdog")


def test_a_run_is_recorded_from_its_start_to_its_end(trail: Trail) -> None:
    policy = Policy(walltime_sec=30, allow=["/etc/hostname"], env=[("TOKEN", "secret")])
    trail.cage(policy, labels={"project_id": "p", "recipes": ["mine"]}).run(["sh", "-c", "exit 3"])
    (spawn,), (ended,) = trail.records("subagent.spawn"), trail.records("subagent.exit")
    assert spawn.data["argv"] == ["sh", "-c", "exit 3"]
    assert spawn.data["cage_summary"] == (
        f"cage[sh@{spawn.invocation[:6]}] fs=ro:/etc/hostname net=none state=ephemeral mem=none walltime=30s"
    )
    assert (spawn.data["project_id"], spawn.data["recipes"], spawn.data["cwd"]) == ("p", ["mine"], "/")
    assert (spawn.data["grants"]["read"], spawn.data["limits"]["walltime_sec"]) == (["/etc/hostname"], 30)
    assert len(spawn.data["effective_cage_hash"]) == 64
    assert ended.invocation == spawn.invocation
    assert (ended.data["command"], ended.data["exit_code"], ended.data["reason"]) == (1, 3, "exited")
    assert ended.data["duration_ms"] >= 0
    assert ended.data["max_rss_kb"] > 0
    assert "secret" not in trail.path.read_text()
    assert verify(str(trail.path)).ok


def test_every_event_is_one_that_is_declared_with_its_fields(trail: Trail) -> None:
    with trail.cage(session="s") as cage:
        cage.run(["true"])
        cage.spawn(["sleep", "60"])
    trail.cage(Policy(caged=False)).run(["true"])
    with pytest.raises(PolicyError):
        trail.cage(Policy(allow=["/no/such/thing"])).run(["true"])
    with pytest.raises(StartError):
        trail.cage().spawn(["no-such-program"])
    for event in trail.seen:
        assert set(event.data) <= set(TYPES[event.type].fields), event
    assert [each.type for each in trail.records()] == [event.type for event in trail.seen]


def test_equal_cages_have_an_equal_hash(trail: Trail) -> None:
    for policy in (Policy(), Policy(), Policy(tmp_mb=7)):
        trail.cage(policy).run(["true"])
    first, second, other = (each.data["effective_cage_hash"] for each in trail.records("subagent.spawn"))
    assert first == second != other


def test_a_command_that_never_ran_has_an_end_all_the_same(trail: Trail) -> None:
    with pytest.raises(StartError):
        trail.cage().spawn(["no-such-program"])
    (failed,) = trail.records("cage.start_failed")
    assert (failed.data["step"], failed.data["errno"], failed.data["path"]) == ("exec", 2, "no-such-program")


def test_commands_of_a_session_are_told_apart_and_its_end_is_named(trail: Trail) -> None:
    with trail.cage(session="night") as cage:
        cage.spawn(["sleep", "60"])
        cage.run(["true"])
    assert [each.data["command"] for each in trail.records("subagent.spawn")] == [1, 2]
    assert {each.data["session_id"] for each in trail.records("subagent.spawn")} == {"night"}
    (killed,) = trail.records("subagent.killed")
    assert (killed.data["command"], killed.data["reason"]) == (1, "session_ended")


def test_an_uncaged_run_says_why_and_for_whom(trail: Trail) -> None:
    labels = {"subagent_name": "deployer", "project_id": "p", "session_id": "s", "invocation_id": "01HX"}
    trail.cage(Policy(caged=False), labels=labels).run(["true"])
    (found,) = trail.records("subagent.spawn.uncaged")
    assert {name: found.data[name] for name in (*labels, "reason")} == {**labels, "reason": "dsl_disabled"}
    assert found.data["cage_summary"] == "cage[deployer@01HX] disabled"


def test_the_caller_s_invocation_id_is_the_cage_s(trail: Trail) -> None:
    trail.cage(labels={"invocation_id": "01HXAA"}).run(["true"])
    assert {each.invocation for each in trail.records() if each.type.startswith("subagent.")} == {"01HXAA"}
    with pytest.raises(PolicyError):
        trail.cage(Policy(allow=["/no/such"]), labels={"invocation_id": "01HXBB"}).run(["true"])
    (error,) = trail.records("sandbox.compile_error")
    assert (error.invocation, error.data["error_code"]) == ("01HXBB", "SandboxPathMissing")


def test_a_label_that_no_event_has_is_refused() -> None:
    with pytest.raises(ValueError, match="project_id"):
        Cage(labels={"projekt": "p"})


def test_the_wall_time_is_named_as_what_ended_it(trail: Trail) -> None:
    trail.cage(Policy(walltime_sec=1, grace_sec=0)).run(["sleep", "60"])
    assert [each.data["reason"] for each in trail.records("subagent.killed")] == ["walltime_exceeded"]


def test_the_record_is_durable_when_spawn_returns(trail: Trail, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[list[str]] = []
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append([each.type for each in trail.records()]))
    with trail.cage().spawn(["sleep", "60"]):
        assert len(synced) == 1
        assert synced[0][-1] == "subagent.spawn"


def test_what_cannot_be_recorded_does_not_go_on(trail: Trail, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", full)
    with pytest.raises(AuditError, match="to the disk"):
        trail.cage(Policy(allow_write=[str(tmp_path)])).spawn(["sleep", "60"])
    assert trail.records("subagent.killed")[0].data["reason"] == "cancelled"


def test_asyncio_is_recorded_too(trail: Trail) -> None:
    async def main() -> None:
        async with AsyncCage(runtime=trail.runtime) as cage:
            await cage.run(["true"])

    asyncio.run(main())
    assert [each.type for each in trail.records() if each.type.startswith("subagent.")] == [
        "subagent.spawn", "subagent.exit",
    ]  # fmt: skip


def test_hosts_that_share_a_stream_share_a_chain(trail: Trail) -> None:
    body = (
        "import sys; from pysandbox import *\n"
        "rt = Runtime(audit=AuditLog(sys.argv[1]), warm=0)\n"
        "for _ in range(5): Cage(runtime=rt).run(['true'])\n"
    )
    hosts = [subprocess.Popen([sys.executable, "-c", body, str(trail.path)]) for _ in range(3)]
    assert [each.wait(60) for each in hosts] == [0, 0, 0]
    verdict = verify(str(trail.path))
    assert verdict.ok
    assert len(trail.records("subagent.exit")) == 15
    assert len({each.pid for each in trail.records()}) == 3


def test_a_forked_copy_writes_on_by_itself(trail: Trail) -> None:
    trail.log.append("cage.note", {"key": "parent"})
    child = os.fork()
    if child == 0:
        try:
            trail.log.append("cage.note", {"key": "child"}, durable=True)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    trail.log.append("cage.note", {"key": "parent"})
    assert [each.data["key"] for each in trail.records()] == ["parent", "child", "parent"]
    assert verify(str(trail.path)).ok


# ---- the command line ------------------------------------------------------------------------------------------


class Shell:
    """The command line with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.work, self.state = folder / "work", folder / "state"
        self.work.mkdir()
        self.state.mkdir()
        self.env = {**os.environ, "XDG_STATE_HOME": str(self.state), "NO_COLOR": "1"}
        self.env.pop("PYSANDBOX_AUDIT", None)

    @property
    def stream(self) -> Path:
        return self.state / "pysandbox" / "audit" / "events.jsonl"

    def __call__(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*MODULE, *arguments], cwd=self.work, env=self.env | env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_run_leaves_a_record_that_the_commands_tell(shell: Shell) -> None:
    (shell.work / "mine.toml").write_text("[resources]\nwalltime_sec = 50\n")
    assert shell("run", "-r", "./mine.toml", "--", "sh", "-c", "exit 7").returncode == 7
    assert stat.S_IMODE(shell.stream.parent.stat().st_mode) == 0o700
    listed = shell("audit", "list")
    assert "exit 7" in listed.stdout
    assert "sh -c exit 7" in listed.stdout
    (run,) = [json.loads(line) for line in shell("audit", "list", "--json").stdout.splitlines()]
    assert run["recipes"] == ["./mine.toml"]
    shown = shell("audit", "show", "--last", "--json").stdout.splitlines()
    assert [json.loads(line)["type"] for line in shown] == ["subagent.spawn", "subagent.exit"]
    assert "subagent.exit" in shell("audit", "show", run["id"][-5:]).stdout
    told = shell("explain", "--last")
    assert "Ended: exited, exit code 7" in told.stdout
    assert json.loads(shell("explain", "--last", "--json").stdout)["id"] == run["id"]


def test_verify_tells_and_its_exit_code_does(shell: Shell) -> None:
    shell("run", "--", "true")
    good = shell("audit", "verify")
    assert (good.returncode, "The chain holds." in good.stdout) == (0, True)
    last = good.stdout.partition("last hash: ")[2].split()[0]
    assert shell("audit", "verify", "--expect", last).returncode == 0
    assert shell("audit", "verify", "--expect", "0" * 64).returncode == 1
    shell.stream.write_bytes(shell.stream.read_bytes().replace(b'"exit_code":0', b'"exit_code":1'))
    bad = shell("audit", "verify")
    assert (bad.returncode, "THE CHAIN IS BROKEN." in bad.stdout) == (1, True)
    assert json.loads(shell("audit", "verify", "--json").stdout)["ok"] is False


def test_the_audit_can_be_left_out_or_put_elsewhere(shell: Shell, tmp_path: Path) -> None:
    shell("run", "--no-audit", "--", "true")
    shell("run", "--", "true", PYSANDBOX_AUDIT="off")
    assert not shell.stream.exists()
    elsewhere = tmp_path / "elsewhere" / "log"
    shell("run", "--", "true", PYSANDBOX_AUDIT=str(elsewhere))
    assert verify(str(elsewhere)).records > 0
    assert "true" in shell("audit", "list", "--path", str(elsewhere)).stdout


def test_a_place_that_was_asked_for_must_work_and_the_default_one_need_not(shell: Shell, tmp_path: Path) -> None:
    (shell.state / "pysandbox").write_text("a file where a directory should be")
    done = shell("run", "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "this run is not recorded" in done.stderr
    asked = shell("run", "--", "true", PYSANDBOX_AUDIT=str(shell.state / "pysandbox" / "x"))
    assert asked.returncode == 125


def test_the_types_of_event_are_listed_from_their_declarations(shell: Shell) -> None:
    listed = shell("audit", "--list").stdout
    assert all(f"{name}\n" in listed for name in TYPES)
    assert [json.loads(line)["name"] for line in shell("audit", "--list", "--json").stdout.splitlines()] == list(TYPES)


def test_follow_tells_what_is_written_meanwhile(shell: Shell) -> None:
    shell("run", "--", "true")
    command = [*MODULE, "audit", "show", "--follow", "--json"]
    with subprocess.Popen(command, env=shell.env, stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        line = ""
        while not line:  # a record that was written before it looked is not told: write until one is
            shell("run", "--", "echo", "followed")
            os.set_blocking(follower.stdout.fileno(), False)
            line = follower.stdout.readline()
        os.set_blocking(follower.stdout.fileno(), True)
        follower.send_signal(signal.SIGINT)
        follower.communicate(timeout=30)
    assert json.loads(line)["seq"] > 2
    assert follower.returncode == 0


def test_names_in_a_record_cannot_command_the_terminal(shell: Shell) -> None:
    shell("run", "--", "true", "\x1b[2J\x07")
    for command in (("audit", "list"), ("audit", "show", "--last"), ("explain", "--last")):
        assert "\x1b" not in shell(*command).stdout


@pytest.mark.parametrize("arguments", [
    ("audit",), ("audit", "shw"), ("audit", "show"), ("audit", "--lst"), ("explain", "--last", "--", "ls"),
    ("explain", "--html", "a", "--apply", "b"),
])  # fmt: skip
def test_wrong_usage_is_told(shell: Shell, arguments: tuple[str, ...]) -> None:
    done = shell(*arguments)
    assert done.returncode == 125
    assert done.stderr.startswith("pysandbox: error: ")


def test_a_run_that_is_not_there_is_told(shell: Shell) -> None:
    assert "holds no run" in shell("explain", "--last").stderr
    assert "holds no run" in shell("audit", "show", "--last").stderr
    assert shell("audit", "list").stdout == "Nothing has run.\n"


def test_the_end_of_a_command_carries_its_denials() -> None:
    denial = Denial("open", "/a", "filesystem.allow", 'allow = ["/a"]')
    told = outcome(Result(("x",), 1, "exited", denials=(denial,)))
    (kept,) = told["denials"]  # type: ignore[misc]
    assert (kept["kind"], kept["target"], kept["rule"], kept["fix"]) == tuple(asdict(denial).values())[:4]
    assert "denials" not in outcome(Result(("x",), 1, "exited"))
