"""csrc/host/spawn/passage.c: whatever fails on the way from a host that is root to a cage that is not, says where."""

from __future__ import annotations

import errno
import os
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from pysandbox._native import lib

from .inject import ERRNO, HOLD, KILL, NEW_LISTENER, Held, answering, install, under
from .plans import opened, plan, step, why_not

pytestmark = pytest.mark.root
UNROOTED = replace(plan(), unrooted=True)
# (the call that fails, with these arguments, then the step, what it was about)
FAILS = (
    ("prctl", {0: 28}, "outside", "securebits"),  # PR_SET_SECUREBITS
    ("setgroups", {}, "outside", "setgroups"),
    ("setresgid", {}, "outside", "setresgid"),
    ("setresuid", {}, "outside", "setresuid"),
    ("clone", {}, "clone", None),
)


def test_it_starts() -> None:
    with opened(UNROOTED) as init:
        assert init.attempt("os.getuid()") == str(UNROOTED.inside_uid if UNROOTED.inside_uid >= 0 else os.getuid())


@pytest.mark.parametrize(("call", "arguments", "where", "path"), FAILS, ids=[row[3] or row[2] for row in FAILS])
def test_a_call_that_fails_says_where(call: str, arguments: dict[int, int], where: str, path: str | None) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    assert under(answering(ERRNO | errno.EIO, call, arguments), lambda: why_not(UNROOTED)) == (where, "EIO", path)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_what_must_be_mapped_and_cannot_is_an_error_and_what_need_not_is_bound(tmp_path: Path) -> None:
    must = replace(plan(step("BIND", "/granted", source=str(tmp_path), must_map=True)), unrooted=True)
    need = replace(plan(step("BIND", "/granted", source="/sys")), unrooted=True)
    assert why_not(replace(must, mounts=(*must.mounts, replace(need.mounts[-1], must_map=True, target="/s")))) == (
        "idmap", "EINVAL", "/sys",
    )  # fmt: skip
    for wanted in (must, need):
        with opened(wanted) as init:
            assert "[" in init.attempt("os.listdir('/granted')")


def test_a_source_that_has_changed_is_told_as_ever(tmp_path: Path) -> None:
    gone = step("BIND", "/granted", source=str(tmp_path / "gone"))
    other = replace(step("BIND", "/granted", source=str(tmp_path)), ino=1)
    assert why_not(replace(plan(gone), unrooted=True)) == ("source", "ENOENT", f"{tmp_path}/gone")
    assert why_not(replace(plan(other), unrooted=True)) == ("source_changed", "ESTALE", str(tmp_path))


@pytest.mark.parametrize("call", ["setresuid", "pivot_root"])
def test_a_child_that_is_killed_leaves_nothing(call: str) -> None:
    step_, number, _ = under(answering(KILL, call, {}), lambda: why_not(UNROOTED))
    assert (step_, number) in {("clone", "ESRCH"), ("init_exec", "ESRCH")}


PATIENCE = 20  # seconds for what takes a part of a millisecond


def forked_copy() -> tuple[int, int]:
    """A copy of this process that does nothing, and what to close so that it ends."""
    waits, ends = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a process that has threads
        copy = os.fork()
    if not copy:
        os.close(ends)
        os.read(waits, 1)
        os._exit(0)
    os.close(waits)
    return copy, ends


def test_the_swap_waits_for_no_copy_of_the_host_that_is_forked_meanwhile() -> None:
    listener: list[int] = []
    made: list[int] = []
    is_ready = threading.Event()

    def make() -> None:
        maps = answering(HOLD, "openat", {2: os.O_WRONLY | os.O_CLOEXEC})
        listener.append(install(maps, NEW_LISTENER))
        is_ready.set()
        made.append(lib.psb_make_idmap())

    thread = threading.Thread(target=make)
    thread.start()
    is_ready.wait()
    first = Held.receive(listener[0])
    copy, ends = forked_copy()
    first.go_on()
    Held.receive(listener[0]).go_on()
    thread.join(PATIENCE)
    has_ended = not thread.is_alive()
    os.close(ends)
    os.waitpid(copy, 0)
    thread.join()
    for fd in (*made, *listener):
        os.close(fd)
    assert has_ended and made[0] >= 0


WALL = 0x40000000  # __WALL
MAPS = {2: os.O_WRONLY | os.O_CLOEXEC}  # how a map is opened


@pytest.mark.parametrize(("call", "arguments"), [("pipe2", {}), ("clone", {}), ("openat", MAPS), ("write", {})])
def test_a_swap_that_cannot_be_made_is_an_error_and_leaves_nothing(call: str, arguments: dict[int, int]) -> None:
    before = sorted(os.listdir("/proc/self/fd"))
    assert under(answering(ERRNO | errno.EIO, call, arguments), lib.psb_make_idmap) == -errno.EIO
    assert sorted(os.listdir("/proc/self/fd")) == before
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG | WALL)


def test_a_swap_is_no_other_program_s_and_leaves_nothing_but_itself() -> None:
    before = set(os.listdir("/proc/self/fd"))
    made = lib.psb_make_idmap()
    try:
        assert set(os.listdir("/proc/self/fd")) - before == {str(made)} and not os.get_inheritable(made)
        with pytest.raises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG | WALL)
    finally:
        os.close(made)
