"""csrc/init/walltime.c: SIGTERM when the time is over, SIGKILL a grace period later, whatever the command does."""

from __future__ import annotations

import os
import signal
import time

import pytest

from pysandbox.compile.plan import Plan

from .plans import PYTHON, flat, opened, plan, readable

SOON = 0.05  # seconds; for what ends in the same way however far the command has come
READY = 0.2  # for what the command must have done before
LONG = 1000.0
TERM, KILL = -signal.SIGTERM, -signal.SIGKILL
MODES = pytest.mark.parametrize("wanted", [plan(), flat()], ids=["full", "flat"])

DEAF = "trap '' TERM; while :; do sleep 1000; done"

# What a command does, how long it is given and the grace after that; how it ends.
ENDINGS: dict[str, tuple[str, float | None, float, int, bool]] = {
    "no wall time": ("exit 3", None, 0, 3, False),
    "in time": ("exit 3", LONG, 0, 3, False),
    "too long": ("exec sleep 1000", SOON, LONG, TERM, True),
    "too long, and tidies up": ("trap 'exit 9' TERM; sleep 1000", READY, LONG, 9, True),
    "too long, and will not hear": (DEAF, READY, SOON, KILL, True),
    "too long, without grace": (DEAF, READY, 0, KILL, True),
    "stopped": ("kill -STOP $$", SOON, LONG, TERM, True),
    "stopped, and will not hear": (f"trap '' TERM; kill -STOP $$ & {DEAF}", READY, SOON, KILL, True),
    "stops itself again": ("trap 'kill -STOP $$' TERM; while :; do kill -STOP $$; done", READY, SOON, KILL, True),
}


@pytest.mark.parametrize("oneshot", [False, True], ids=["session", "one-shot"])
@pytest.mark.parametrize("name", ENDINGS)
@MODES
def test_a_command_ends_in_time(wanted: Plan, name: str, oneshot: bool) -> None:
    script, walltime, grace, code, timed_out = ENDINGS[name]
    with opened(wanted) as init:
        command = init.start("/bin/sh", "-c", script, walltime=walltime, grace=grace, oneshot=oneshot)
        command.expect("started")
        record = command.expect("exited")
        assert (os.waitstatus_to_exitcode(record.status), record.timed_out) == (code, timed_out)


def test_the_time_is_kept() -> None:
    began = time.monotonic()
    with opened(plan()) as init:
        command = init.start("/bin/sh", "-c", DEAF, walltime=READY, grace=READY)
        command.expect("started")
        command.expect("exited")
    assert 2 * READY - 0.01 < time.monotonic() - began < 10


@MODES
def test_the_whole_tree_is_ended_and_no_other(wanted: Plan) -> None:
    session, in_session = os.pipe()
    child, in_child = os.pipe()
    orphan, in_orphan = os.pipe()
    with opened(wanted) as init:
        script = "(sleep 1000 5>&- 6>&- &); setsid sleep 1000 4>&- 6>&- & (setsid sleep 1000 4>&- 5>&- &); wait"
        fds = {4: in_session, 5: in_child, 6: in_orphan}
        command = init.start("/bin/sh", "-c", script, fds=fds, walltime=READY, grace=LONG)
        bystander = init.start("/bin/sleep", "1000")
        for fd in fds.values():
            os.close(fd)
        bystander.expect("started")
        command.expect("started")
        assert command.expect("exited").timed_out
        assert readable(session) and os.read(session, 1) == b"", "a child in the session is still there"
        assert readable(child) and os.read(child, 1) == b"", "a child in a session of its own is still there"
        assert not readable(orphan, 0.02), "who left both session and parents is the cage's alone"
        assert not readable(bystander.reports, 0)
    for fd in (session, child, orphan):
        os.close(fd)


# A chain of children, each deaf to SIGTERM, each the leader of a session of its own.
FORKS_AWAY = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(20):
    if os.fork():
        break
    os.setsid()
while True:
    time.sleep(1000)
"""


@MODES
def test_a_tree_that_forks_away_in_sessions_of_its_own_is_ended(wanted: Plan) -> None:
    alive, held = os.pipe()
    with opened(wanted) as init:
        command = init.start(PYTHON, "-Ic", FORKS_AWAY, fds={4: held}, walltime=1.0, grace=SOON)
        os.close(held)
        command.expect("started")
        assert command.expect("exited").timed_out
        assert readable(alive) and os.read(alive, 1) == b""
    os.close(alive)


@MODES
def test_a_one_shot_command_takes_everything_with_it(wanted: Plan) -> None:
    alive, held = os.pipe()
    with opened(wanted) as init:
        script = "setsid sh -c \"trap '' TERM; sleep 1000; sleep 1000\" & wait; sleep 1000"
        command = init.start("/bin/sh", "-c", script, fds={4: held}, walltime=SOON, grace=LONG, oneshot=True)
        os.close(held)
        command.expect("started")
        assert command.expect("exited").timed_out
        assert os.read(alive, 1) == b"" and init.ended()
    os.close(alive)


def test_each_command_has_its_own_time() -> None:
    with opened(plan()) as init:
        began = time.monotonic()
        endless = init.start("/bin/sleep", "1000")
        commands = {each: init.start("/bin/sleep", "1000", walltime=each, grace=LONG) for each in (0.15, 0.05, 0.1)}
        for seconds, command in sorted(commands.items()):
            command.expect("started")
            assert command.expect("exited").timed_out
            assert time.monotonic() - began > seconds - 0.01
        endless.expect("started")
        assert not readable(endless.reports, 0.05)


def test_the_cage_works_on_after_a_wall_time() -> None:
    with opened(plan()) as init:
        command = init.start("/bin/sleep", "1000", walltime=SOON)
        command.expect("started")
        command.expect("exited")
        assert init.run("/bin/true", walltime=LONG).code == 0
