"""Claim: no name that a program chooses keeps the watchdog from seeing its memory, and a watchdog that fails for any
reason ends the cages it watches, says so, and watches those that come after.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pysandbox import Cage, Event, Policy, Result, Runtime
from pysandbox.live import watchdog
from pysandbox.live.tree import ProcessTree
from pysandbox.probe import cgroups

from .harness import PYTHON, wait_until

LIMIT_MB = 64
PATIENCE = 30

# 40 MiB in a file of the cage and mapped from there: counted twice, so each mapping is looked at, by its name.
MAPPED = """
import mmap, os, sys, threading, time
name = os.fsencode(sys.argv[1]) if len(sys.argv) > 1 else b"plain"
with open(b"/tmp/" + name, "w+b") as file:
    file.truncate(40 << 20)
    area = mmap.mmap(file.fileno(), 40 << 20)
for i in range(0, 40 << 20, 4096):
    area[i] = 1
"""
HOG = """
time.sleep(0.5)
kept = []
for _ in range(8):
    if os.fork() == 0:
        kept = bytearray(b"x" * (50 << 20))
        time.sleep(60)
time.sleep(20)
print("lives")
"""
NAMED = """
import ctypes, threading
def named(comm):
    ctypes.CDLL(None).prctl(15, comm, 0, 0, 0)
    time.sleep(60)
for comm in (b") R 1 1", b"a\\nb) S", b"(((", b"\\xff\\xfe\\r", b""):
    threading.Thread(target=named, args=(comm,), daemon=True).start()
"""
LEADERLESS = """
import ctypes, threading
def hog():
    time.sleep(0.5)
    kept = bytearray(b"x" * (400 << 20))
    time.sleep(20)
    os.write(1, b"lives")
    os._exit(0)
threading.Thread(target=hog).start()
ctypes.CDLL(None).pthread_exit(None)
"""
NAMES = [
    "plain", "a\r\rb", "a\x0b\x0bb", "a\x0c\x0cb", "a\x1c\x1d\x1eb", "a\x85\x85b", "a\u2028b", "a\nb", "a\\012b", " ",
    "\t", "\udcff\udcfe", "x" * 255, "\r" * 99, "Pss: 99999999 kB", "a\rPss: -1 kB\rAnonymous: 9999999 kB\rb", "[heap]",
]  # fmt: skip


def run(source: str, *arguments: str, runtime: Runtime | None = None, **options: Any) -> Result:
    policy = Policy(memory_mb=LIMIT_MB, **options)
    return Cage(policy, runtime=runtime or Runtime(warm=0)).run(
        [PYTHON, "-I", "-S", "-c", source, *arguments], timeout=PATIENCE
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_file_may_have_any_name(name: str) -> None:
    harmless = run(MAPPED + "time.sleep(0.5); print('done')", name)
    assert (harmless.reason, harmless.stdout) == ("exited", "done\n"), "the control: 40 MiB are counted once"

    assert run(MAPPED + HOG, name).reason == "oom"


def test_threads_may_have_any_name() -> None:
    assert run(MAPPED + NAMED + HOG).reason == "oom"


def test_a_process_whose_first_thread_has_ended_is_seen() -> None:
    assert run(MAPPED + LEADERLESS).reason == "oom"


@pytest.fixture
def watched() -> Iterator[tuple[Runtime, list[Event]]]:
    if "memory" in cgroups.find_cgroup().controllers:
        pytest.skip("the kernel's controller counts here: there is no watchdog to fail")
    events: list[Event] = []
    runtime = Runtime(sink=events.append, warm=0)
    yield runtime, events
    runtime.drain()


class Whatever(BaseException):
    pass


FAILURES = [IndexError("x"), ValueError("x"), OSError(errno.EIO, "x"), MemoryError(), RecursionError(), SystemExit(1),
            KeyboardInterrupt(), Whatever(), OSError(errno.EMFILE, "x")]  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
@pytest.mark.parametrize("where", ["look", "thread"])
def test_a_watchdog_that_fails_ends_its_cages_and_watches_the_next(
    watched: tuple[Runtime, list[Event]], monkeypatch: pytest.MonkeyPatch, failure: BaseException, where: str
) -> None:
    runtime, events = watched
    with Cage(Policy(memory_mb=LIMIT_MB), runtime=runtime) as cage:
        running = cage.spawn(["/bin/sleep", "60"])

        def fail(*arguments: object) -> Any:
            raise failure

        with monkeypatch.context() as patched:
            patched.setattr(*((ProcessTree, "memory") if where == "look" else (watchdog, "_check")), fail)
            if where == "thread":  # as if the failure came between two looks
                seen = watchdog.Watch.check
                patched.setattr(
                    watchdog, "_check", lambda watch: seen(watch, time.monotonic()) if watch.doomed else fail()
                )
            assert running.wait(PATIENCE) == -9
        result = running.result()
        running.close()
    assert result.reason == "cancelled"
    assert any(type(failure).__name__ in note.message for note in result.notes)
    assert "watchdog" in [event.data["limit"] for event in events if event.type == "policy.violation"]

    assert run(MAPPED + HOG, runtime=runtime).reason == "oom", "the next cage of the same program is watched"


def test_a_short_shortage_is_waited_out(watched: tuple[Runtime, list[Event]], monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, _ = watched
    seen, failed = ProcessTree.memory, threading.Event()

    def fail_twice(tree: ProcessTree, limit: int, *more: Any) -> int | None:
        if not failed.is_set():
            failed.set()
            raise OSError(errno.EMFILE, "Too many open files")
        return seen(tree, limit, *more)

    with Cage(Policy(memory_mb=LIMIT_MB), runtime=runtime) as cage:
        monkeypatch.setattr(ProcessTree, "memory", fail_twice)
        assert cage.run(["/bin/sleep", "0.3"]).ok and failed.is_set()
        assert cage.run(["/bin/true"]).ok


def test_a_cage_that_ends_while_it_is_looked_at_is_not_condemned(watched: tuple[Runtime, list[Event]]) -> None:
    runtime, events = watched
    for _ in range(5):
        assert run("import os; [os.fork() or os._exit(0) for _ in range(30)]", runtime=runtime).reason == "exited"
    assert wait_until(lambda: not [event for event in events if event.type == "policy.violation"], 1)
