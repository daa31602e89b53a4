"""csrc/init/main.c: the cage ends with its host, however that goes, and commands start from a clean slate.

"Nobody left" is told by a pipe: everything in the cage holds its write end, so its end-of-file is the end of them all.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from pysandbox.compile.plan import Plan

from .plans import PATIENCE, Init, carry_out, flat, opened, plan, readable

pytestmark = pytest.mark.guest

MODES = pytest.mark.parametrize("wanted", [plan(), flat(), flat(scoped=False)], ids=["full", "flat", "unscoped"])
CROWD = "(setsid sleep 1000 &); (sh -c 'trap \"\" TERM HUP; sleep 1000; sleep 1000' &); exec sleep 1000"


def all_gone(alive: int) -> bool:
    return readable(alive, PATIENCE) and os.read(alive, 1) == b""


@MODES
def test_the_end_of_the_control_socket_is_the_end_of_everything(wanted: Plan) -> None:
    alive, held = os.pipe()
    init = carry_out(wanted)
    try:
        init.start("/bin/sh", "-c", CROWD, fds={3: held}).expect("started")
        os.close(held)
        assert not readable(alive, 0.05)
    finally:
        assert init.close() == 0
    assert all_gone(alive)
    os.close(alive)


def host_that_dies(wanted: Plan, held: int, before: Callable[[Init], None]) -> None:
    """In a process of its own: opens a cage full of processes, does `before`, and is killed."""
    child = os.fork()
    if child == 0:
        try:
            init = carry_out(wanted)
            init.start("/bin/sh", "-c", CROWD, fds={3: held}).expect("started")
            before(init)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.close(held)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@MODES
def test_a_killed_host_takes_the_cage_along(wanted: Plan) -> None:
    alive, held = os.pipe()
    host_that_dies(wanted, held, lambda init: None)
    assert all_gone(alive)
    os.close(alive)


@MODES
def test_a_killed_host_takes_the_cage_along_although_another_holds_the_control_socket(wanted: Plan) -> None:
    """A copy of the socket, in a process that the host forked, keeps it from end-of-file."""
    alive, held = os.pipe()
    ours, theirs = os.pipe()

    def leave_a_copy(init: Init) -> None:
        if os.fork() == 0:
            os.close(held)
            os.write(theirs, b"%d" % os.getpid())
            signal.pause()

    host_that_dies(wanted, held, leave_a_copy)
    assert readable(ours)
    holder = int(os.read(ours, 20))
    try:
        assert all_gone(alive)
    finally:
        os.kill(holder, signal.SIGKILL)
        for fd in (alive, ours, theirs):
            os.close(fd)


def test_killed_from_outside_it_takes_the_cage_along() -> None:
    alive, held = os.pipe()
    with opened(plan()) as init:
        command = init.start("/bin/sh", "-c", CROWD, fds={3: held})
        command.expect("started")
        os.close(held)
        os.kill(init.pid, signal.SIGKILL)
        assert all_gone(alive)
        assert command.nothing_more(), "an end that was not reported is an end-of-file"
    os.close(alive)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE])
@pytest.mark.parametrize("wanted", [plan(), flat()], ids=["full", "flat"])
def test_no_signal_that_can_be_blocked_disturbs_it(number: int, wanted: Plan) -> None:
    with opened(wanted) as init:
        os.kill(init.pid, number)
        assert init.run("/bin/true").code == 0


def test_a_command_ignores_and_blocks_nothing() -> None:
    """Python ignores SIGPIPE and SIGXFSZ, and exec keeps that; cage-init blocks everything."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        with opened(plan()) as init:
            said = init.sh("exec grep -E '^Sig(Blk|Ign)' /proc/self/status").said
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert [int(word, 16) for word in said.split()[1::2]] == [0, 0]


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_command_has_the_host_s_umask(umask: int) -> None:
    before = os.umask(umask)
    try:
        with opened(plan()) as init:
            assert init.sh("umask").said == f"{umask:04o}\n"
    finally:
        os.umask(before)


def test_a_nudge_without_an_order_is_forgotten() -> None:
    with opened(plan()) as init:
        for _ in range(3):
            init.send(b"\4\0\0\0")
        assert init.run("/bin/true").code == 0


@MODES
def test_cage_init_cannot_be_looked_into_by_its_commands(wanted: Plan) -> None:
    with opened(wanted) as init:
        pid = 1 if wanted.namespaces else init.pid
        for tried in (f"os.listdir('/proc/{pid}/fd')", f"open('/proc/{pid}/mem')", f"os.readlink('/proc/{pid}/exe')"):
            assert init.attempt(tried) in ("EACCES", "EPERM"), tried
