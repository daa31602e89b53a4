"""Claim: a program that the list of executables refuses is in the Result's denials, each time, and its event was told
before the Result was made: however soon the one who asked is gone, in every mode, and counted as often as it was tried.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import pysandbox
from pysandbox import Cage, Event
from pysandbox.runtime.runtime import Runtime

from .harness import PYTHON, SLOWNESS, in_cage, policy, program

TIMES = 200 if SLOWNESS == 1 else 20
MODES: dict[str, dict[str, Any]] = {
    "plain": {}, "strict": {"strict": True}, "landlock": {"isolation": "landlock"},
}  # fmt: skip
SH = os.path.realpath("/bin/sh")
ID = os.path.realpath("/usr/bin/id")


@pytest.mark.parametrize("mode", MODES)
def test_every_run_tells_what_it_was_refused(mode: str) -> None:
    events: list[Event] = []
    runtime = Runtime(sink=events.append)
    rules = policy(allow_execve=["/bin/sh"], **MODES[mode])
    for number in range(1, TIMES + 1):
        result = Cage(rules, runtime=runtime).run(["sh", "-c", "id; true"])
        assert [(each.target, each.count) for each in result.denials] == [(ID, 1)], number
        assert result.denials[0].fix == f'[[also]]\nprocess.allow_execve = ["{ID}"]'
        assert sum(each.type == "cage.denied" for each in events) == number
    runtime.drain()


def test_each_attempt_counts_once_in_a_session() -> None:
    with Cage(policy(allow_execve=["/bin/sh"])) as cage:
        for _ in range(100):
            result = cage.run(["sh", "-c", "id; true"])
            assert [(each.target, each.count) for each in result.denials] == [(ID, 1)]
        assert sum(each.count for each in cage.denials) == 100
        result = cage.run(["sh", "-c", "i=0; while [ $i -lt 50 ]; do /usr/bin/id; i=$((i+1)); done"])
        assert [each.count for each in result.denials] == [50]
        assert sum(each.count for each in cage.denials) == 150


WAYS = """
    def in_child(call_it):
        if os.fork() == 0:
            try: call_it()
            except PermissionError: pass
            os._exit(0)
        os.wait()
    os.symlink("/usr/bin/id", "/tmp/link"); os.chdir("/usr")
    held, beside = os.open("/usr/bin/id", os.O_PATH | os.O_CLOEXEC), os.open("/usr/bin", os.O_PATH)
    for path in ("/tmp/link", "bin/id", "/usr/lib/../bin/./id", f"/proc/self/fd/{held}", f"/dev/fd/{held}"):
        in_child(lambda: os.execv(path, ["x"]))
    argv, env = (ctypes.c_char_p * 2)(b"x", None), (ctypes.c_char_p * 1)(None)
    for flags, at, path in ((0x1000, held, b""), (0, beside, b"id")):
        in_child(lambda: libc.syscall(NR["execveat"], at, path, argv, env, flags))
    attempt("done", lambda: None)
"""


def test_every_way_to_name_it_is_recorded() -> None:
    rules = policy(allow_execve=[os.path.realpath(PYTHON)], allow_syscalls=["execveat"])
    with Cage(rules) as cage:
        report = in_cage(cage, program(WAYS))
    assert report["done"].errno is None and report.result is not None
    assert [(each.target, each.count) for each in report.result.denials] == [(ID, 7)]


def test_what_runs_nothing_is_no_refusal(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    rules = policy(allow_execve=["/bin/sh"], allow=[str(tmp_path)])
    result = pysandbox.run(["sh", "-c", f"nothing-there; {tmp_path}/d/none; true"], rules)
    assert result.denials == ()
