"""csrc/init/fork.c and exec.c: a start that is held up holds up nothing but the starts after it.

What a caged process can bring about (it may stop whatever it sees) is brought about here by a filter that holds one
call of the starting child until the test lets go.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from pysandbox.compile.plan import Plan

from .inject import NUMBERS, Held, holding
from .plans import Command, Init, carry_out, flat, plan, readable, refusal

pytestmark = pytest.mark.guest

HELD = ("setsid", "execve")  # a command's first call and its last; the setup of the cage makes neither
MODES = pytest.mark.parametrize("wanted", [plan(), flat()], ids=["full", "flat"])
calls = pytest.mark.parametrize("call", HELD)


@dataclass
class Stuck:
    """A cage whose first command is being started and does not get any further."""

    init: Init
    command: Command
    listener: int

    def let_go(self) -> None:
        os.close(self.listener)
        self.listener = -1


def stuck(call: str, wanted: Plan, **options: Any) -> Stuck:
    init, listener = holding([call], lambda: carry_out(wanted))
    command = init.start("/bin/true", **options)
    assert readable(listener), "nothing was held"
    return Stuck(init, command, listener)


def children(init: Init) -> list[int]:
    with open(f"/proc/{init.pid}/task/{init.pid}/children", encoding="utf-8") as file:
        return [int(pid) for pid in file.read().split()]


def is_dead(pid: int) -> bool:
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"


@pytest.fixture
def held(call: str, wanted: Plan) -> Iterator[Stuck]:
    cage = stuck(call, wanted)
    yield cage
    if cage.listener >= 0:
        os.close(cage.listener)
    cage.init.close()


@MODES
@calls
def test_the_end_of_the_control_socket_is_heard(call: str, wanted: Plan) -> None:
    cage = stuck(call, wanted)
    try:
        cage.init.close()
    finally:
        cage.let_go()


@MODES
@calls
def test_it_goes_on_when_it_can_and_the_next_follows(held: Stuck, call: str, wanted: Plan) -> None:
    other = held.init.start("/nowhere/else", cwd="/nowhere")
    assert not readable(held.command.reports, 0.02) and not readable(other.reports, 0.02)
    held.let_go()  # the held call fails now, and so will the same call of the next
    error = held.command.expect("failed").error
    assert error is not None and error.step == {"execve": "exec"}.get(call, call)
    assert held.command.nothing_more()
    other.expect("failed")


@MODES
@pytest.mark.parametrize("oneshot", [False, True], ids=["session", "one-shot"])
@calls
def test_its_wall_time_runs(call: str, wanted: Plan, oneshot: bool) -> None:
    cage = stuck(call, wanted, walltime=0.05, grace=0.05, oneshot=oneshot)
    try:
        cage.command.expect("started")
        record = cage.command.expect("exited")
        assert record.timed_out
        assert -os.waitstatus_to_exitcode(record.status) in (signal.SIGTERM, signal.SIGKILL)
    finally:
        cage.let_go()
        cage.init.close()


@MODES
@pytest.mark.parametrize("call", ["setsid"])
def test_one_that_is_killed_was_started_and_ended(held: Stuck, call: str, wanted: Plan) -> None:
    """Somebody in the cage may kill it; in the host it is a child of cage-init's."""
    (child,) = children(held.init)
    os.kill(child, signal.SIGKILL)
    held.command.expect("started")
    assert os.waitstatus_to_exitcode(held.command.expect("exited").status) == -signal.SIGKILL


def test_a_start_that_fails_while_another_command_is_collected_has_failed() -> None:
    """cage-init has just looked at the start, which goes on, and is about to collect whoever has ended; meanwhile the
    start fails and the child ends, so that it is among them."""
    init, listener = holding(["setsid", "wait4"], lambda: carry_out(plan()))
    read, write = os.pipe()
    try:
        other = init.start("/bin/cat", fds={0: read, 1: 2, 2: 2})
        Held.receive(listener).go_on()
        other.expect("started")
        failing = init.start("/bin/true")
        late = Held.receive(listener)
        before = set(children(init))
        os.close(write)  # the other command ends
        collecting = Held.receive(listener)
        assert (late.number, collecting.number) == (NUMBERS["setsid"], NUMBERS["wait4"])
        late.fail(errno.EIO)
        while not all(is_dead(pid) for pid in before):
            time.sleep(0.001)
        collecting.go_on()
        while not (readable(failing.reports, 0) and readable(other.reports, 0)):
            if readable(listener, 0.01):
                Held.receive(listener).go_on()
        other.expect("exited")
        error = failing.expect("failed").error
        assert error is not None and refusal(error) == ("setsid", "EIO", None)
        assert failing.nothing_more()
    finally:
        os.kill(init.pid, signal.SIGKILL)  # whose own end would be held as well
        os.close(listener)
        os.close(read)
        init.close()
