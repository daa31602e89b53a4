"""Who has stopped a process decides when it goes on: a tightening lets go on what it has stopped itself, and nothing
that a pause has; a pause and its end wait for a tightening, and another tightening does.

Who stands still because a thread of ours traces it has not been stopped by anybody: its exec is being judged.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pysandbox import PIPE, Cage, Event, Policy, Runtime
from pysandbox.events import UNSTOPPABLE
from pysandbox.live import stopping
from pysandbox.live.processes import descendants, status_of
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


@pytest.mark.parametrize(("state", "pending", "is_so"), [(b"D", signal.SIGSTOP, True), (b"D", signal.SIGTERM, False),
                                                         (b"S", signal.SIGSTOP, False)])  # fmt: skip
def test_who_stops_as_soon_as_it_can_has_been_stopped(
    monkeypatch: pytest.MonkeyPatch, state: bytes, pending: int, is_so: bool
) -> None:
    """A parent in vfork(2) gets the signal of a pause when its child lets it go on."""
    status = {b"State": state + b" (x)", b"ShdPnd": b"%016x" % (1 << (pending - 1)), b"SigPnd": b"0"}
    monkeypatch.setattr(stopping, "status_of", lambda pid: status)
    assert is_stopped(1) is is_so


WATCHED = ("network",)


@contextmanager
def busy_cage(runtime: Runtime | None = None) -> Iterator[tuple[Cage, int]]:
    """And the host's number of what runs in it."""
    with (
        Cage(Policy(), watch=WATCHED, runtime=runtime) as cage,
        cage.spawn(["/bin/sh", "-c", "echo on; while :; do :; done"], stdout=PIPE) as busy,
    ):
        assert busy.stdout is not None and busy.stdout.read(3) == b"on\n"
        (pid,) = descendants(cage.init_pid or -1)
        yield cage, pid
        busy.kill()


def test_the_end_of_a_pause_is_not_forgotten_by_a_tightening_meanwhile() -> None:
    """What it had found stopped stayed so for ever."""
    with busy_cage() as (cage, busy):
        assert cage._live is not None
        ends: list[threading.Thread] = []

        def work(pids: object) -> int:
            if not ends:
                ends.append(threading.Thread(target=cage.resume))
                ends[0].start()
                ends[0].join(0.3)  # at most: it waits for us
            return 0

        cage.pause()
        stopping.while_stopped(cage._live, lambda event: None, work)
        ends[0].join(30)
        assert not ends[0].is_alive()
        await_state(busy, b"R")


def test_a_cage_that_is_paused_meanwhile_stays_so() -> None:
    with busy_cage() as (cage, busy):
        assert cage._live is not None
        pauses = threading.Thread(target=cage.pause)

        def work(pids: object) -> int:
            if pauses.ident is None:
                pauses.start()
                pauses.join(0.3)
            return 0

        stopping.while_stopped(cage._live, lambda event: None, work)
        pauses.join(30)
        time.sleep(0.1)
        if cage._live.cgroup is None:
            assert status_of(busy)[b"State"][:1] == b"T"
        assert stopping.stands_still(cage._live)
        cage.resume()


def test_whoever_is_told_of_a_cage_that_fought_may_tighten_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []

    def tell(event: Event) -> None:
        if event.type == UNSTOPPABLE.name:
            told.append(cage.context.restrict_network([]))

    with busy_cage(Runtime(sink=tell, warm=0)) as (cage, busy):
        still = stopping._still
        monkeypatch.setattr(stopping, "PATIENCE", 0.2)
        monkeypatch.setattr(
            stopping, "_still",
            lambda pid: still(pid) if pid != busy or status_of(pid).get(b"State", b"X")[:1] in b"ZX" else None,
        )  # fmt: skip
        tightens = threading.Thread(target=cage.context.restrict_network, args=([],), daemon=True)
        tightens.start()
        tightens.join(30)
        assert not tightens.is_alive() and told == [0]


def test_a_forked_copy_has_the_lock_for_itself() -> None:
    """Another thread of the original may have held it at the fork, and lets nobody in there."""
    with Cage(Policy(), watch=WATCHED) as cage:
        assert cage._live is not None
        with cage._live.standing_still:
            child = os.fork()
            if not child:
                os._exit(not cage._live.standing_still.acquire(blocking=False))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
