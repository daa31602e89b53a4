"""csrc/init/reap.c: every end is reported as it was, nothing is left, and a signal reaches whom it names."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysandbox.compile.plan import Plan

from .plans import NULL, PATIENCE, PYTHON, ROOT, Command, Init, bare, flat, opened, plan, programs, readable, step

pytestmark = pytest.mark.guest

FULL_AND_FLAT = pytest.mark.parametrize(
    "wanted", [plan(), flat(), flat(scoped=False)], ids=["full", "flat", "unscoped"]
)


@pytest.mark.parametrize("code", [0, 1, 127, 255])
def test_an_exit_code_is_reported(code: int, init: Init) -> None:
    assert init.sh(f"exit {code}").code == code


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL, signal.SIGSEGV, signal.SIGRTMAX])
def test_a_signal_is_reported(number: int, init: Init) -> None:
    assert init.sh(f"kill -{int(number)} $$").code == -number


def test_usage_is_reported(init: Init) -> None:
    hungry = init.python("import os\nx = bytearray(64 << 20)\nwhile os.times().user < 0.1: pass")
    assert hungry.code == 0
    assert hungry.exited.max_rss_kb > 64 << 10
    assert hungry.exited.user_time > 0.09
    idle = init.run("/bin/true")
    assert idle.exited.max_rss_kb < 64 << 10 and idle.exited.user_time < hungry.exited.user_time


def test_stopping_is_no_end(init: Init) -> None:
    command = init.start("/bin/sh", "-c", "kill -STOP $$; exit 5")
    started = command.expect("started")
    status, deadline = Path(f"{init.root}/proc/{started.pid}/status"), time.monotonic() + PATIENCE
    while "State:\tT" not in status.read_text():
        assert time.monotonic() < deadline, "it has not stopped itself"
    assert not readable(command.reports, 0.05)
    init.signal(command, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(command.expect("exited").status) == 5


@FULL_AND_FLAT
def test_orphans_are_collected(wanted: Plan) -> None:
    with opened(wanted) as init:
        init.sh("for i in 1 2 3; do (true & ) ; done")
        parent = "1" if wanted == plan() else str(init.pid)
        left = f"""
import os, time
def zombies():
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{{name}}/stat").read().rpartition(")")[2].split()
        except OSError:
            continue
        if words[:2] == ["Z", "{parent}"]: found.append(name)
    return found
for _ in range(1000):
    if not zombies(): break
    time.sleep(0.001)
print(zombies())
"""
        assert init.python(left).said == "[]\n"


def test_a_command_outlives_the_one_before_it(init: Init) -> None:
    other = init.start("/bin/sleep", "1000")
    other.expect("started")
    assert init.run("/bin/true").code == 0
    assert not readable(other.reports, 0)


def test_what_a_command_leaves_running_lives_until_the_cage_ends() -> None:
    alive, held = os.pipe()
    with opened(plan()) as init:
        command = init.start("/bin/sh", "-c", "(sleep 1000 &) ; exit 0", fds={3: held})
        os.close(held)
        command.expect("started")
        assert command.expect("exited").killed_others == 0
        assert not readable(alive, 0.05)
    assert readable(alive, PATIENCE) and os.read(alive, 1) == b""
    os.close(alive)


# ---- one-shot ------------------------------------------------------------------------------------------------------


@FULL_AND_FLAT
def test_a_one_shot_cage_is_empty_when_its_end_is_reported(wanted: Plan) -> None:
    alive, held = os.pipe()
    script = "sleep 1000 & setsid sleep 1000 & exit 3"
    with opened(wanted) as init:
        command = init.start("/bin/sh", "-c", script, fds={3: held}, oneshot=True)
        os.close(held)
        command.expect("started")
        record = command.expect("exited")
        assert (os.waitstatus_to_exitcode(record.status), record.killed_others) == (3, 2)
        assert os.read(alive, 1) == b"" and init.ended()
    os.close(alive)


def test_a_one_shot_cage_without_company_kills_nobody() -> None:
    with opened(plan()) as init:
        command = init.start("/bin/sh", "-c", "true & wait; exit 3", oneshot=True)
        command.expect("started")
        assert command.expect("exited").killed_others == 0
        assert init.ended()


def test_who_had_ended_already_does_not_count_as_killed() -> None:
    """Children that nobody waited for: dead, but not yet collected, when the command ends."""
    source = """
import os
for _ in range(5):
    pid = os.fork() or os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
os._exit(4)
"""
    with opened(plan()) as init:
        command = init.start(PYTHON, "-I", "-S", "-c", source, oneshot=True)
        command.expect("started")
        record = command.expect("exited")
        assert (os.waitstatus_to_exitcode(record.status), record.killed_others) == (4, 0)


def test_a_command_beside_a_one_shot_one_ends_with_it(init: Init) -> None:
    other = init.start("/bin/sleep", "1000")
    other.expect("started")
    command = init.start("/bin/true", oneshot=True)
    command.expect("started")
    assert command.expect("exited").killed_others == 1
    assert other.nothing_more()


# ---- signals -------------------------------------------------------------------------------------------------------

WATCH = """
import os, signal
{leave}
def tell(number, frame):
    os.write(3, b"%d" % number)
    os._exit(0)
signal.signal(signal.SIGUSR1, tell)
os.write(3, b"!")
while True: signal.pause()
"""


class Listener:
    """A process in the cage that says "!" when it listens, and the number of the signal that ends it."""

    def __init__(self) -> None:
        self.read, self.write = os.pipe()

    def said(self) -> str:
        assert readable(self.read)
        return os.read(self.read, 9).decode()

    def close(self) -> None:
        os.close(self.read)
        os.close(self.write)


@pytest.fixture
def listeners() -> Iterator[list[Listener]]:
    made = [Listener() for _ in range(3)]
    yield made
    for listener in made:
        listener.close()


def listen(init: Init, listener: Listener, *, leave: str = "") -> Command:
    command = init.start(PYTHON, "-I", "-S", "-c", WATCH.format(leave=leave), fds={3: listener.write})
    command.expect("started")
    assert listener.said() == "!"
    return command


# A command whose child listens: in its session, or in one of its own, which is still below it.
CHILD = "import os\nif os.fork():\n    os.wait()\n    os._exit(0)\n"
AWAY = CHILD + "os.setsid()\n"
NAMED = CHILD + "open('/proc/self/comm', 'w').write(') R 1 1 1 (')\n"


@FULL_AND_FLAT
@pytest.mark.parametrize(
    ("leave", "scope", "reached"),
    [
        ("", "one", True),
        ("", "session", True),
        (CHILD, "one", False),
        (CHILD, "session", True),
        (NAMED, "session", True),
        (AWAY, "session", True),
        (AWAY, "all", True),
        (CHILD, "all", True),
    ],
    ids=["one", "session", "child one", "child session", "odd name session", "away session", "away all", "child all"],
)
def test_a_signal_reaches_whom_its_scope_names(
    wanted: Plan, leave: str, scope: str, reached: bool, listeners: list[Listener]
) -> None:
    with opened(wanted) as init:
        command = listen(init, listeners[0], leave=leave)
        listen(init, listeners[1])
        init.signal(None if scope == "all" else command, signal.SIGUSR1, scope)
        if reached:
            assert listeners[0].said() == "10"
        else:
            assert not readable(listeners[0].read, 0.05)
        if scope == "all":
            assert listeners[1].said() == "10"
        else:
            assert not readable(listeners[1].read, 0.02), "another command has been hit"


def test_without_proc_a_session_is_signalled_by_its_group(listeners: list[Listener]) -> None:
    with opened(bare(ROOT, *programs(), NULL, step("DIR", "/tmp"))) as init:
        command = listen(init, listeners[0], leave=CHILD)
        init.signal(command, signal.SIGUSR1, "session")
        assert listeners[0].said() == "10"


@pytest.mark.parametrize("scope", ["one", "session"])
def test_a_command_that_has_ended_is_not_signalled(scope: str, init: Init) -> None:
    """Its session may live on: the name is that of the command, which has ended."""
    alive, held = os.pipe()
    init.sh("sleep 1000 &", fds={7: held})
    os.close(held)
    init.signal(init.commands[-1], signal.SIGKILL, scope)
    assert init.run("/bin/true").code == 0
    assert not readable(alive, 0.02)
    os.close(alive)


@pytest.mark.parametrize("scope", ["one", "session", "all"])
def test_cage_init_itself_is_never_hit(scope: str, init: Init) -> None:
    command = init.start("/bin/sleep", "1000")
    command.expect("started")
    init.signal(None if scope == "all" else command, signal.SIGKILL, scope)
    assert os.waitstatus_to_exitcode(command.expect("exited").status) == -signal.SIGKILL
    assert init.run("/bin/true").code == 0


def test_unscoped_a_signal_to_all_reaches_the_commands_and_not_the_host(listeners: list[Listener]) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, frame: heard.append(number))
    try:
        with opened(flat(scoped=False)) as init:
            listen(init, listeners[0])
            init.signal(None, signal.SIGUSR1, "all")
            assert listeners[0].said() == "10"
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert heard == []
