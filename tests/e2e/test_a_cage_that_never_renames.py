"""A copy-on-write cage has no thread of the host before its first rename, and lets go of it with its end."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

from pysandbox import Cage, Policy, Runtime

PYTHON = "/usr/bin/python3"
MANY, PATIENCE = 12, 20.0


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def descriptors() -> int:
    gc.collect()  # a workspace is held for as long as its cage may be asked for it
    return len(os.listdir("/proc/self/fd"))


def comes_to(count: int) -> bool:
    """A loop that ends is waited for by nobody."""
    deadline = time.monotonic() + PATIENCE
    while threads() > count and time.monotonic() < deadline:
        time.sleep(0.01)
    return threads() <= count


def move(cage: Cage, tree: str) -> str:
    program = "import os, sys; os.chdir(sys.argv[1]); os.rename('old', 'new'); print(*os.listdir('.'))"
    return cage.run([PYTHON, "-I", "-S", "-c", program, tree]).check().stdout


def test_cages_that_never_rename_share_one_thread(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old/file").touch()
    policy = Policy(cow=[str(tmp_path)])
    runtime = Runtime(warm=0)
    try:
        with Cage(policy, runtime=runtime) as first:
            first.run(["/bin/true"]).check()
            shared = threads()
            others = [Cage(policy, runtime=runtime).open() for _ in range(MANY)]
            for each in others:
                each.run(["/bin/true"]).check()
            assert threads() == shared, "none has one of its own"
            for each in others[::2]:
                assert move(each, str(tmp_path)) == "new\n"
            woken = threads() - shared
            assert woken >= len(others[::2]), "control: who has called has a loop of its own"
            for each in others:
                each.close()
            assert comes_to(shared + woken - len(others[::2]))
            assert move(first, str(tmp_path)) == "new\n", "and the thread goes on"
    finally:
        runtime.drain()


def test_nothing_is_left_of_them(tmp_path: Path) -> None:
    policy, runtime = Policy(cow=[str(tmp_path)]), Runtime(warm=0)
    try:
        with Cage(policy, runtime=runtime) as kept:
            for _ in range(3):
                Cage(policy, runtime=runtime).run(["/bin/true"]).check()
            runtime.wait_idle()
            before = descriptors(), threads()
            for _ in range(MANY):
                Cage(policy, runtime=runtime).run(["/bin/true"]).check()
            runtime.wait_idle()
            assert (descriptors(), threads()) == before
            kept.run(["/bin/true"]).check()
    finally:
        runtime.drain()
