"""A run like one before starts from its kept plan: it does the same, imports next to nothing, knows what is stale."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from _support.kept_runs import COMMAND, LIMIT, PYTHON, Home, story, write_script


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def python(code: str) -> list[str]:
    return ["--", "/usr/bin/python3", "-c", code]


# ---- what it costs -------------------------------------------------------------------------------------------


def test_a_warm_run_starts_no_python(home: Home) -> None:
    assert not home.run("--", "/bin/true").warm  # the control
    assert home.run("--", "/bin/true").warm


# ---- it does the same ----------------------------------------------------------------------------------------

SEEN = (
    "import os; print(os.getcwd(), os.getuid(), sorted(os.environ.items()), os.listdir('/'), "
    "os.listdir('/proc/self/fd'))"
)
SAME: dict[str, list[str]] = {
    "exit code": ["--", "sh", "-c", "exit 42"],
    "signal": ["--", "sh", "-c", "kill -9 $$"],
    "wall time": ["--walltime", "1", "--grace", "0", "--", "sleep", "1000"],
    "timeout": ["--timeout", "0.3", "--", "sleep", "1000"],
    "streams": ["--", "sh", "-c", "echo out; echo err >&2"],
    "standard input": ["--", "cat"],
    "no dashes": ["sh", "-c", "echo $#", "sh", "--", "x"],
    "world": python(SEEN),
    "flags": ["--workdir", "read", "--allow", "/opt", "--env-passthrough", "PSB_WORD", *python(SEEN)],
    "landlock": ["--allow", "/etc", "--run-as", "root", *python(SEEN)],
    "limits": ["--open-files", "77", *python("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))")],
    "a filter": ["--strict", *python("import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)")],
    "a mistake": ["--", "sh", "-c", "kill -SEGV $$", "sh", "/etc/hostname"],
    "a high exit code": ["--", "sh", "-c", "exit 255", "sh", "/etc/hostname"],
    "nothing of ours": ["--", "sh", "-c", "kill -TERM $$", "sh", "/etc/hostname"],
    "syscalls": ["--deny-syscall", "getppid", *python("import os; os.getppid()")],
}


TOLD_BY_PYTHON = ("a filter", "a mistake", "a high exit code")  # why it failed


@pytest.mark.parametrize("path", [".", "./", "out", "./out", "$OUT"])
def test_a_path_as_a_recipe_spells_it_is_granted_and_kept(home: Home, path: str) -> None:
    """The first run asked for it by letters, and failed."""
    (home.project / "out").mkdir()
    (home.project / "own.toml").write_text(f"[filesystem]\nworkdir = 'read'\nallow_write = ['{path}']")
    home.env["OUT"] = str(home.project / "out")
    command = ("-r", "own.toml", "--", "touch", "out/made")
    first = home.run(*command)
    assert (first.code, first.warm) == (0, False), first.stderr
    assert (home.project / "out" / "made").exists()
    if path not in (".", "./"):  # in which the recipe lies, and what it grants
        assert home.until_warm(*command).code == 0


@pytest.mark.parametrize("name", SAME)
def test_both_ways_come_to_the_same_end(home: Home, name: str) -> None:
    cold = home.run_by_python(*SAME[name], input=b"through")
    first, warm = (home.run(*SAME[name], input=b"through") for _ in range(2))
    assert (cold.warm, first.warm) == (False, False)
    assert warm.warm or (warm.told == [PYTHON] and name in TOLD_BY_PYTHON)
    for ran in (first, warm):
        assert (ran.code, ran.stdout) == (cold.code, cold.stdout)
        assert ran.stderr.splitlines()[-1:] == cold.stderr.splitlines()[-1:]


def test_the_kept_plan_is_the_one_that_the_compiler_makes(home: Home) -> None:
    home.run("--allow", "/opt", "--", "/bin/true")
    code = """
import os, sys
from pysandbox._native import ffi, lib
from pysandbox.cli.policy_of import policy_of
from pysandbox.launch.kept import KeptFile
from pysandbox.policy.model import Grant
from pysandbox.runtime.runtime import Runtime
with open(sys.argv[1], "rb") as file:
    kept = file.read()
head = ffi.from_buffer("struct psb_kept *", kept)
def table(name, size):
    section = head.sections[name]
    return kept[section.at : section.at + section.count * size]
policy = policy_of([], command=["/bin/true"], extra={"allow": (Grant("/opt"),)}).policy
prepared = Runtime().prepare(policy, os.getcwd())
fresh = KeptFile(table(lib.PSB_KEPT_KEY, 1))
fresh.plan(prepared.native)
sizes = {lib.PSB_KEPT_PLAN: "plan", lib.PSB_KEPT_MOUNTS: "mount", lib.PSB_KEPT_RULES: "rule"}
same = [table(name, ffi.sizeof(f"struct psb_{of}")) == fresh._tables[name][0] for name, of in sizes.items()]
print(same, table(lib.PSB_KEPT_SETUP, 1) == fresh._tables[lib.PSB_KEPT_SETUP][0])
"""
    (entry,) = home.entries
    done = subprocess.run([sys.executable, "-c", code, str(entry)], cwd=home.project, env=home.env,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT)  # fmt: skip
    assert done.stdout == "[True, True, True] True\n", done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_a_warm_run_lets_the_command_say_goodbye(home: Home, number: int) -> None:
    name = signal.Signals(number).name.removeprefix("SIG")
    script = f"trap 'echo bye; exit 7' {name}; echo ready; [ -e stay ] || exit 0; while :; do sleep 0.05; done"
    home.until_warm("--", "sh", "-c", script)
    (home.project / "stay").touch()
    home.env["PSB_TELL"] = "2"
    command = [COMMAND, "run", "--", "sh", "-c", script]
    with subprocess.Popen(command, cwd=home.project, env=home.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=LIMIT)
    assert (process.returncode, stdout) == (7, b"bye\n")
    assert PYTHON.encode() not in stderr


def test_a_warm_cage_dies_with_us(home: Home) -> None:
    script = "echo ready; [ -e stay ] || exit 0; exec sleep 1000"
    home.until_warm("--", "sh", "-c", script)
    (home.project / "stay").touch()
    command = [COMMAND, "run", "--", "sh", "-c", script]
    with subprocess.Popen(command, cwd=home.project, env=home.env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.kill()
        assert process.stdout.read() == b""  # the command held the other end


def test_a_warm_run_that_lasts_can_be_found_and_killed(home: Home) -> None:
    script = "echo ready; [ -e stay ] || exit 0; exec sleep 1000"
    home.until_warm("--", "sh", "-c", script)
    (home.project / "stay").touch()
    home.env["PSB_TELL"] = "2"
    command = [COMMAND, "run", "--", "sh", "-c", script]
    with subprocess.Popen(command, cwd=home.project, env=home.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        while not (listed := json.loads(home.python("ps", "--json").stdout)):
            assert process.poll() is None
        (cage,) = listed
        assert home.python("kill", cage["id"]).returncode == 0
        _, stderr = process.communicate(timeout=LIMIT)
    assert process.returncode == 128 + signal.SIGTERM
    assert PYTHON.encode() not in stderr
    assert json.loads(home.python("ps", "--json").stdout) == []
    assert home.records()[-1]["data"]["invocation_id"] == cage["id"]


def test_what_cannot_start_is_told_as_ever(home: Home) -> None:
    write_script(home.project / "program", "exit 7")
    assert home.until_warm("--", "./program").code == 7
    (home.project / "program").chmod(0o644)
    ran = home.run("--", "./program")
    assert (ran.code, ran.warm) == (126, False)
    assert b"'./program' cannot be executed" in ran.stderr


# ---- it leaves the same trail --------------------------------------------------------------------------------

ENDS: dict[str, tuple[str, list[str]]] = {
    "exit code": ("subagent.exit", ["--", "sh", "-c", "exit 42"]),
    "signal": ("subagent.exit", ["--", "sh", "-c", "kill -9 $$"]),
    "wall time": ("policy.violation", ["--walltime", "1", "--grace", "0", "--", "sleep", "1000"]),
    "timeout": ("subagent.exit", ["--timeout", "0.3", "--", "sleep", "1000"]),
    "seccomp": ("policy.violation", ["--deny-syscall", "getppid", "--", "sh", "-c", "kill -31 $$"]),
    "recipe": ("subagent.spawn", ["-r", "python", "--max-pids", "1000", "--", "true"]),
    "no limits": ("subagent.spawn", ["--workdir", "read", "--", "true"]),
}


@pytest.mark.parametrize("name", ENDS)
def test_both_ways_leave_the_same_records(home: Home, name: str) -> None:
    expected, arguments = ENDS[name]
    home.run_by_python(*arguments)
    cold = home.records()
    for _ in range(2):
        home.run(*arguments)
    every = home.records()
    assert expected in {record["type"] for record in cold}
    assert story(every[len(cold) :]) == story(cold) * 2
    assert {*every[-1]["data"]} == {*cold[-1]["data"]}
    assert home.python("audit", "verify").returncode == 0


def test_a_warm_run_that_fails_to_start_leaves_that_as_well(home: Home) -> None:
    (home.project / "interpreter").symlink_to("/bin/sh")
    (home.project / "program").write_text(f"#!{home.project}/interpreter\nexit 7\n")
    (home.project / "program").chmod(0o755)
    assert home.until_warm("--", "./program").code == 7
    before = len(home.records())
    (home.project / "interpreter").unlink()
    assert home.run("--", "./program").code == 127
    told = [record for record in home.records()[before:] if record["type"].startswith(("subagent.", "cage."))]
    assert [record["type"] for record in told] == [
        "subagent.spawn",
        "cage.start_failed",
    ] * 3  # warm, with a new plan, by Python
    assert story(told[:2]) == story(told[2:4]) == story(told[4:])


def test_without_an_audit_nothing_is_written_either_way(home: Home) -> None:
    home.until_warm("--no-audit", "--", "true")
    assert not home.audit.exists()
    home.env["PYSANDBOX_AUDIT"] = "off"
    home.until_warm("--", "true")
    assert not home.audit.exists()
    del home.env["PYSANDBOX_AUDIT"]
    assert not home.run("--", "true").warm  # another world: looked at anew
    assert home.audit.exists()


def test_what_cannot_be_recorded_is_not_started(home: Home) -> None:
    home.env["PYSANDBOX_AUDIT"] = str(home.project.parent / "trail" / "events.jsonl")
    arguments = ["--", "sh", "-c", "echo x >> ran"]
    home.until_warm(*arguments)
    ran = (home.project / "ran").read_text()
    (home.project.parent / "trail").chmod(0o755)
    assert home.run(*arguments).code == 125
    assert (home.project / "ran").read_text() == ran


def test_the_start_is_on_the_disk_before_the_command_is_ordered(home: Home) -> None:
    home.until_warm("--", "true")
    told = home.project.parent / "told"
    traced = ["strace", "-f", "-o", str(told), "-e", "trace=sendmsg,fdatasync", COMMAND, "run", "--", "true"]
    assert (
        subprocess.run(traced, cwd=home.project, env=home.env, stdin=subprocess.DEVNULL, timeout=LIMIT).returncode == 0
    )
    lines = told.read_text().splitlines()
    (on_disk,) = (at for at, line in enumerate(lines) if re.search(r"fdatasync.*\) += 0$", line))
    (ordered,) = (at for at, line in enumerate(lines) if "SCM_RIGHTS" in line)
    assert on_disk < ordered


# ---- what is not believed ------------------------------------------------------------------------------------

Change = Callable[[Home], Any]


def overwrite(at: int) -> Change:
    def change(home: Home) -> None:
        (entry,) = home.entries
        content = bytearray(entry.read_bytes())
        content[at] ^= 1
        entry.write_bytes(content)

    return change


def empty(home: Home) -> None:
    home.entries[0].write_bytes(b"")


def cut(home: Home) -> None:
    os.truncate(home.entries[0], 100)


def open_to_all(home: Home) -> None:
    home.cache.chmod(0o755)


def open_entry(home: Home) -> None:
    home.entries[0].chmod(0o644)


def link_directory(home: Home) -> None:
    home.cache.rename(home.cache.parent / "elsewhere")
    home.cache.symlink_to(home.cache.parent / "elsewhere")


def link_parent(home: Home) -> None:
    parent = home.cache.parent
    parent.rename(parent.parent / "elsewhere")
    parent.symlink_to(parent.parent / "elsewhere")


def link_entry(home: Home) -> None:
    (entry,) = home.entries
    entry.rename(entry.parent / "elsewhere")
    entry.symlink_to("elsewhere")


def fifo(home: Home) -> None:
    (entry,) = home.entries
    entry.unlink()
    os.mkfifo(entry)


@pytest.mark.parametrize(
    "spoil",
    [overwrite(0), overwrite(32), overwrite(-1), empty, cut, open_to_all, open_entry, link_directory, link_parent,
     link_entry, fifo],
)  # fmt: skip
def test_an_entry_that_is_not_as_we_left_it_is_as_if_it_were_not_there(home: Home, spoil: Change) -> None:
    home.until_warm("--", "echo", "same")
    spoil(home)
    ran = home.run("--", "echo", "same")
    assert (ran.warm, ran.code, ran.stdout, ran.stderr) == (False, 0, b"same\n", b"")


def test_the_cache_is_ours_alone_and_does_not_grow(home: Home) -> None:
    home.until_warm("--", "true")
    for number in range(80):
        (home.cache / f"old-{number}").touch()
    home.run("--", "echo")
    assert home.cache.stat().st_mode & 0o777 == 0o700
    assert len(home.entries) <= 64
    assert {entry.stat().st_mode & 0o777 for entry in home.entries if not entry.name.startswith("old")} == {0o600}


def test_without_a_home_nothing_is_kept(home: Home) -> None:
    home.env.update(HOME="")
    assert [home.run("--", "true").code for _ in range(2)] == [0, 0]
    assert home.entries == []
