"""A refusal leaves a trace: recorded with `--why`, and told in one line at the end of a command that failed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import pysandbox
from _support.kept_runs import COMMAND
from pysandbox import Cage, Denial, Policy

LIMIT = 60  # seconds after which a test is stuck


@dataclass
class Home:
    """A home directory with something in it, and a project that is the working directory."""

    path: Path

    @property
    def project(self) -> Path:
        return self.path / "project"

    @property
    def secret(self) -> Path:
        return self.path / "secret"

    def pysandbox(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"HOME": str(self.path), "XDG_STATE_HOME": str(self.path / "state")}
        return subprocess.run(
            [sys.executable, "-m", "pysandbox", *arguments], cwd=self.project, env=environment,
            capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def lines(self, *arguments: str) -> list[str]:
        """What a run says of itself."""
        said = self.pysandbox("run", *arguments).stderr.splitlines()
        return [line for line in said if line.startswith("pysandbox:")]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.project.mkdir()
    made.secret.write_text("x")
    return made


def denials(home: Home, *argv: str, **options: object) -> dict[str, Denial]:
    chosen = Policy(why=True, workdir="write", **options)  # type: ignore[arg-type]
    return {each.target: each for each in _run(home, chosen, *argv).denials}


def _run(home: Home, policy: Policy, *argv: str) -> pysandbox.Result:
    with Cage(policy, cwd=str(home.project)) as cage:
        return cage.run(list(argv))


# ---- what is recorded ------------------------------------------------------------------------------------------


def test_a_path_outside_the_view_has_its_line_and_the_line_works(home: Home) -> None:
    found = denials(home, "cat", str(home.secret))[str(home.secret)]
    assert (found.kind, found.rule, found.call, found.errno, found.count) == (
        "file", "filesystem.allow", "openat", 2, 1,
    )  # fmt: skip
    assert str(home.secret) in found.fix
    again = pysandbox.run(["cat", str(home.secret)], policy=Policy(why=True, allow=[str(home.secret)]))
    assert (again.ok, again.denials) == (True, ())


@pytest.mark.parametrize(
    "script", ["echo > new", "mkdir new", "ln -s x new", "rm file", "mv file new", "echo >> file", "chmod 600 file"]
)
def test_a_write_to_a_read_only_view_is_told(home: Home, script: str) -> None:
    (home.project / "file").write_text("x")
    chosen = Policy(why=True, workdir="read")
    found = _run(home, chosen, "sh", "-c", script).denials
    assert {(each.rule, each.errno) for each in found} == {("filesystem.allow_write", 30)}


def test_a_call_that_the_filter_refuses_is_told(home: Home) -> None:
    ask = "import os; os.getpriority(0, 0)"
    found = denials(home, "/usr/bin/python3", "-ISc", ask, deny_syscalls=["getpriority"])["getpriority"]
    assert (found.kind, found.rule, found.errno) == ("syscall", "syscalls.deny_extra", 1)
    assert found.fix == ""  # a denial wins over every grant


def test_what_is_denied_is_told_without_a_line(home: Home) -> None:
    found = denials(home, "cat", "denied", deny=[_made(home.project / "denied")])[f"{home.project}/denied"]
    assert (found.rule, found.errno, found.fix) == ("filesystem.deny", 13, "")


def _made(file: Path) -> str:
    file.write_text("x")
    return str(file)


def test_in_landlock_mode_the_rules_say_it(home: Home) -> None:
    chosen = Policy(isolation="landlock", run_as="self", why=True, workdir="read")
    found = _run(home, chosen, "cat", str(home.secret)).denials
    assert (str(home.secret), "filesystem.allow") in {(each.target, each.rule) for each in found}


def test_a_session_records_and_nothing_is_recorded_without_being_asked(home: Home) -> None:
    for why in (True, False):
        with Cage(Policy(why=why, workdir="write"), cwd=str(home.project)) as cage:
            cage.run(["cat", str(home.secret)])
            result = cage.run(["cat", str(home.secret)])
        assert [each.target for each in result.denials] == [str(home.secret)] * why


def test_a_program_that_fails_nothing_has_no_denials(home: Home) -> None:
    assert denials(home, "sh", "-c", "ls /; cat /etc/passwd; mkdir d; echo > d/f; rm -r d; test -e /nowhere") == {}


def test_the_trail_and_explain_have_it(home: Home) -> None:
    home.pysandbox("run", "--why", "--", "cat", str(home.secret))
    assert str(home.secret) in home.pysandbox("explain", "--last").stdout
    [denial] = json.loads(home.pysandbox("run", "--why", "--json", "--", "cat", str(home.secret)).stdout)["denials"]
    assert (denial["target"], denial["call"], denial["errno"]) == (str(home.secret), "openat", 2)


def test_monitor_says_what_is_refused_of_files(home: Home) -> None:
    said = home.pysandbox("run", "--monitor", "--", "cat", str(home.secret)).stderr
    assert "MONITOR: Was refused, with --monitor as well:" in said
    assert f"file {home.secret}, once (filesystem.allow)" in said


# ---- what is said at the end -----------------------------------------------------------------------------------


def test_a_failed_run_ends_with_one_line_and_its_flag_works(home: Home) -> None:
    [line] = home.lines("--why", "--", "cat", str(home.secret))
    assert line.startswith(
        f"pysandbox: refused: file {home.secret} (openat: ENOENT); to allow it: --allow {home.secret}"
    )
    assert home.lines("--why", "--allow", str(home.secret), "--", "cat", str(home.secret)) == []


def test_without_a_record_an_argument_that_is_not_in_the_view_is_named(home: Home) -> None:
    for _ in range(2):  # the second time from a kept plan, where there is one
        [line] = home.lines("--", "cat", str(home.secret))
        assert line.startswith(f"pysandbox: {home.secret} is not in the sandbox; to allow it: --allow {home.secret}")
    [line] = home.lines("--", "cat", "../secret")
    assert str(home.secret) in line


def test_no_grant_is_advised_for_what_the_user_may_not_read(home: Home) -> None:
    home.secret.chmod(0)
    [line] = home.lines("--", "cat", str(home.secret))
    advised = "; to allow it: --allow" if os.geteuid() == 0 else ", and on the host you may not read it"
    assert line.startswith(f"pysandbox: {home.secret} is not in the sandbox{advised}")


def test_without_a_record_a_variable_that_names_what_is_not_in_the_view_is_named(home: Home) -> None:
    [line] = home.lines("-e", f"GIT_SSL_CAINFO={home.secret}", "--", "false")
    assert line.startswith(f"pysandbox: {home.secret} is not in the sandbox; to allow it: --allow {home.secret}")
    for innocent in (f"HOME={home.secret.parent}", f"A=file:{home.secret}", "B=/nowhere", "C=/usr/bin"):
        assert home.lines("-e", innocent, "--", "false") == []


@pytest.mark.parametrize(
    "argv", [["false"], ["grep", "nobody-at-all", "/etc/passwd"], ["test", "-e", "/nowhere"], ["sh", "-c", "exit 3"],
             ["cat", "nothing"], ["true"], ["ls", "/usr/nothing"]]
)  # fmt: skip
def test_an_ordinary_failure_is_left_alone(home: Home, argv: list[str]) -> None:
    assert home.lines("--", *argv) == []


@pytest.mark.parametrize(
    ("argv", "flag"),
    [
        (["sh", "-c", "exit 6", "https://origin.example/a"], "--host origin.example"),
        (["sh", "-c", "exit 6", "git@origin.example:a/b"], "--host origin.example"),
        (["sh", "-c", "exit 6", "http://192.0.2.1/"], "--allow-ip 192.0.2.1"),
    ],
)
def test_a_host_that_an_argument_names_is_offered_where_there_is_no_network(
    home: Home, argv: list[str], flag: str
) -> None:
    for _ in range(2):  # the second time from a kept plan, where there is one
        assert home.lines("--", *argv) == [f"pysandbox: the sandbox has no network; to allow it: {flag}"]
    assert home.lines("--egress", "none", "--", *argv) == []


CALLS = """
import socket
try: socket.getaddrinfo("origin.example", 443)
except OSError: pass
socket.create_connection(("192.0.2.1", 443), 5)
"""


def test_what_was_called_has_a_name_for_whoever_asks(home: Home) -> None:
    found = denials(home, "/usr/bin/python3", "-c", CALLS)
    assert (found["origin.example"].kind, found["origin.example"].flag) == ("dns", "--host origin.example")
    assert (found["192.0.2.1:443"].kind, found["192.0.2.1:443"].flag) == ("tcp", "--allow-ip 192.0.2.1:443/tcp")


def test_a_program_that_a_shell_lacks_points_at_the_switch(home: Home) -> None:
    [line] = home.lines("--", "sh", "-c", "nosuchprogram")
    assert "pysandbox run --why" in line


def test_a_failure_that_a_shell_swallowed_is_told_all_the_same(home: Home) -> None:
    script = "getent hosts evil.example || true"
    for _ in range(2):  # the second time from a kept plan, where there is one
        [line] = home.lines("--host", "good.example", "--", "sh", "-c", script)
        assert line.startswith(
            "pysandbox: ended with exit code 0, and was refused: dns evil.example; to allow it: --host evil"
        )
        assert home.lines("--host", "good.example", "--", "true") == []
    [line] = home.lines("--why", "--", "sh", "-c", f"cat {home.secret} || true")
    assert f"to allow it: --allow {home.secret}" in line
    assert home.lines("--", "sh", "-c", f"cat {home.secret} || true") == [], "nothing was recorded"


def test_a_debugger_and_a_read_only_repository_have_their_flags(home: Home) -> None:
    tracer = home.project / "strace"
    tracer.write_text("#!/bin/sh\nexit 1\n")
    tracer.chmod(0o755)
    for _ in range(2):  # the second time from a kept plan, where there is one
        [line] = home.lines("--", "./strace", "true")
        assert line.endswith("to allow it: --allow-syscall ptrace")
    assert home.lines("--allow-syscall", "ptrace", "--", "./strace", "true") == []
    subprocess.run(["git", "init", "-q", "repository"], cwd=home.project, check=True)
    inner = home.project / "repository" / "inner"
    inner.mkdir()
    (inner / "file").write_text("x")
    said = subprocess.run(
        [sys.executable, "-m", "pysandbox", "run", "--", "git", "add", "file"], cwd=inner, capture_output=True,
        text=True, env=os.environ | {"HOME": str(home.path)}, timeout=LIMIT, stdin=subprocess.DEVNULL,
    ).stderr.splitlines()[-1]  # fmt: skip
    assert said.endswith(f"to commit, --allow-write {home.project}/repository/.git"), said


def test_the_document_stands_alone(home: Home) -> None:
    assert home.lines("--json", "--", "cat", str(home.secret)) == []


def test_a_file_that_was_denied_is_not_offered(home: Home) -> None:
    denied = _made(home.project / "denied")
    [line] = home.lines("--deny", denied, "--", "cat", "denied")
    assert "--allow" not in line and "filesystem.deny" in line


@pytest.mark.parametrize("deny", ["secret", "kept", "**/secret"])
@pytest.mark.parametrize("why", [[], ["--why"], ["--why", "--isolation", "landlock"], ["--isolation", "landlock"]])
def test_no_line_tells_of_a_grant_that_a_denial_beats(home: Home, deny: str, why: list[str]) -> None:
    """What no grant opens is not told with one: nothing is shown where it lies, so no mount says that it is denied."""
    (home.path / "kept").mkdir()
    secret = home.path / "kept" / "secret"
    home.secret.rename(secret)
    denied = str(home.path / "kept") if deny == "kept" else str(secret) if deny == "secret" else f"{home.path}/{deny}"
    *_, line = home.lines(*why, "--deny", denied, "--allow", str(secret), "--", "cat", str(secret))
    assert "--allow" not in line and "filesystem.deny" in line, line


def test_nor_of_one_that_the_base_denies(home: Home) -> None:
    *_, line = home.lines("--", "cat", "/etc/shadow")
    assert "--allow" not in line and "filesystem.deny" in line, line


def test_a_descriptor_of_the_shell_s_is_told_as_one_also_by_a_kept_run(home: Home) -> None:
    environment = os.environ | {"HOME": str(home.path), "XDG_STATE_HOME": str(home.path / "state")}
    for command in (COMMAND, COMMAND, f"{sys.executable} -m pysandbox"):
        done = subprocess.run(
            ["bash", "-c", f"{command} run -- cat <(echo x) 2>&1; {command} run -- cat < <(echo given)"],
            cwd=home.project, env=environment, capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip
        assert re.search(r"pysandbox: /dev/fd/\d+ is a descriptor of yours, .*standard input", done.stdout), done
        assert done.stdout.endswith("given\n")
