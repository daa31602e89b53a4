"""Who stands still because a thread of ours traces it has not been stopped by anybody: its exec is being judged."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from pysandbox.live.processes import status_of
from pysandbox.live.stopping import is_stopped

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17  # of ptrace(2)
LIBC = ctypes.CDLL(None, use_errno=True)
TRACES = """
import ctypes, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
ptrace = ctypes.CDLL(None).ptrace
assert not ptrace(0x4206, child.pid, None, None) and not ptrace(0x4207, child.pid, None, None)
print(child.pid, flush=True)
sys.stdin.read()
ptrace(17, child.pid, None, None)
child.kill()
child.wait()
"""


@pytest.fixture
def sleeper() -> Iterator[int]:
    child = subprocess.Popen(["sleep", "600"])
    yield child.pid
    child.kill()
    child.wait()


def await_state(pid: int, letter: bytes) -> None:
    for _ in range(500):
        if status_of(pid)[b"State"][:1] == letter:
            return
        time.sleep(0.01)
    raise AssertionError(status_of(pid))


def test_what_a_signal_has_stopped_is_stopped(sleeper: int) -> None:
    assert not is_stopped(sleeper)  # the control
    os.kill(sleeper, signal.SIGSTOP)
    await_state(sleeper, b"T")
    assert is_stopped(sleeper)


def test_what_a_thread_of_ours_traces_is_not(sleeper: int) -> None:
    ptrace = LIBC.ptrace
    assert not ptrace(SEIZE, sleeper, None, None) and not ptrace(INTERRUPT, sleeper, None, None)
    await_state(sleeper, b"t")
    assert not is_stopped(sleeper)
    ptrace(DETACH, sleeper, None, None)


def test_what_another_program_traces_is() -> None:
    command = [sys.executable, "-c", TRACES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as tracer:
        assert tracer.stdout is not None and tracer.stdin is not None
        pid = int(tracer.stdout.readline())
        await_state(pid, b"t")
        assert is_stopped(pid)
        tracer.stdin.close()
