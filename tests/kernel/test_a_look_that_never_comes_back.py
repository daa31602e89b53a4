"""csrc/launcher/permit.c: a look at what a kept plan depends on may never come back, as that at a file whose server is
gone. Until the command is ordered SIGINT, SIGTERM and SIGHUP end the run, and nothing is left or recorded of it."""

from __future__ import annotations

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from _support.kept_runs import COMMAND, LIMIT, Home, is_alive

from .inject import NUMBERS, Held, holding

RECIPE = "hangs.toml"
ARGUMENTS = ["-r", RECIPE, "--", "sh", "-c", "echo x >> ran; [ -e stay ] || exit 0; exec sleep 1000"]
ENDING = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    (made.project / RECIPE).write_text("[process]\nenv = { SAID = 'a' }\n")
    made.until_warm(*ARGUMENTS)
    return made


class Launched:
    """A launcher whose system calls are answered by us: those that are to hang, never."""

    def __init__(self, pid: int, listener: int, hangs: Callable[[Held], bool]) -> None:
        self.pid, self.hung = pid, threading.Event()
        self._listener, self._hangs = listener, hangs
        self._held: list[Held] = []
        self._over, self._end = os.pipe()
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        while True:
            ready, _, _ = select.select([self._listener, self._over], [], [])
            if self._over in ready:
                return
            try:
                call = Held.receive(self._listener)
                if self._hangs(call):
                    self._held.append(call)
                    self.hung.set()
                else:
                    call.go_on()
            except FileNotFoundError:  # it was killed meanwhile
                continue
            except OSError:
                return  # nobody is left

    def release(self) -> None:
        self._hangs = lambda call: False
        for call in self._held:
            call.go_on()

    def init(self) -> int:
        """Its cage-init, which is there as soon as the cage is."""
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            for child in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
                if Path(f"/proc/{child}/comm").read_text() == "cage-init\n":
                    return int(child)
            time.sleep(0.01)
        raise AssertionError("no cage was made")

    def status(self) -> int:
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                self.pid = 0
                return status
            time.sleep(0.01)
        raise AssertionError("it goes on")

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._end)
        self._thread.join()
        os.close(self._over)
        os.close(self._listener)


@contextmanager
def launched(home: Home, calls: list[str], hangs: Callable[[Held], bool]) -> Iterator[Launched]:
    """posix_spawn makes none of these calls in the thread that has the filter."""
    script = ["sh", "-c", 'cd "$0" && exec "$@" </dev/null', str(home.project), COMMAND, "run", *ARGUMENTS]
    normal = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
    pid, listener = holding(calls, lambda: os.posix_spawn("/bin/sh", script, home.env, setsigdef=normal))
    run = Launched(pid, listener, hangs)
    try:
        yield run
    finally:
        run.close()


def is_of_recipe(call: Held) -> bool:
    """The path is the first argument or the second one, after a directory."""
    return any(text_at(call.thread, address).endswith(RECIPE.encode()) for address in call.arguments[:2])


def text_at(thread: int, address: int) -> bytes:
    try:
        with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(4096).partition(b"\0")[0]
    except (OSError, OverflowError):  # no address
        return b""


# By which of them stat(3) looks, is its C library's affair.
LOOKS = [call for call in ("newfstatat", "statx", "stat", "lstat") if call in NUMBERS]


def test_control_a_look_that_comes_back_late_lets_the_command_run(home: Home) -> None:
    ran, known = (home.project / "ran").read_text(), len(home.records())
    with launched(home, LOOKS, is_of_recipe) as run:
        assert run.hung.wait(LIMIT)
        run.init()
        assert (home.project / "ran").read_text() == ran and len(home.records()) == known
        run.release()
        assert os.waitstatus_to_exitcode(run.status()) == 0
    assert (home.project / "ran").read_text() == ran + "x\n"


@ENDING
def test_a_run_that_hangs_is_ended_by_a_signal_and_leaves_nothing(home: Home, number: signal.Signals) -> None:
    ran, trail = (home.project / "ran").read_text(), home.audit.read_bytes()
    with launched(home, LOOKS, is_of_recipe) as run:
        assert run.hung.wait(LIMIT)
        init = run.init()
        os.kill(run.pid, number)
        assert os.waitstatus_to_exitcode(run.status()) == -number
        assert not is_alive(init)
    assert home.audit.read_bytes() == trail
    assert (home.project / "ran").read_text() == ran
    assert home.run(*ARGUMENTS).warm  # what was kept still is


@ENDING
def test_what_is_being_recorded_is_not_given_up(home: Home, number: signal.Signals) -> None:
    """Its start would be in the trail for ever without an end: the command is ordered, and ended by the signal."""
    (home.project / "stay").touch()
    known = len(home.records())
    with launched(home, ["fdatasync"], lambda call: True) as run:
        assert run.hung.wait(LIMIT)
        os.kill(run.pid, number)
        time.sleep(0.2)  # some of its turns
        assert is_alive(run.pid)
        run.release()
        assert os.waitstatus_to_exitcode(run.status()) == 128 + number
    told = [each["type"] for each in home.records()[known:]]
    assert told.count("subagent.spawn") == told.count("subagent.exit") == 1, told
