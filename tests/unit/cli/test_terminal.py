"""The relay between a terminal and a cage's pty, with both terminals in the hands of the test."""

from __future__ import annotations

import os
import pty
import select
import signal
import termios
from collections.abc import Iterator
from typing import Any

import pytest

from pysandbox.cli.attend import Attendance, Signals
from pysandbox.cli.terminal import RawMode, TerminalRelay


class Command:
    """The other side of the cage's pty, and the process that would be there."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self.end_read, self.end_write = os.pipe()
        self.terminated = False

    def fileno(self) -> int:
        return self.end_read

    def end(self) -> None:
        if self.end_write >= 0:
            os.close(self.end_write)
            self.end_write = -1

    def signal(self, number: int) -> None:
        self.terminated = True
        self.end()

    def blame(self, reason: str, seconds: float | None = None) -> None:
        pass

    def close(self) -> None:
        self.end()
        for fd in (self.end_read, self.master, self.slave):
            if fd >= 0:
                os.close(fd)


@pytest.fixture
def command() -> Iterator[Command]:
    command = Command()
    attributes = termios.tcgetattr(command.slave)
    attributes[3] &= ~termios.ECHO  # so that what comes out is what the command wrote
    termios.tcsetattr(command.slave, termios.TCSANOW, attributes)
    yield command
    command.close()


@pytest.fixture
def user() -> Iterator[tuple[int, int]]:
    """(what the user types into and looks at, the terminal that we hold), without anybody's line editing."""
    master, slave = pty.openpty()
    yield master, slave
    os.close(master)
    os.close(slave)


@pytest.fixture
def attendance(command: Command) -> Iterator[Attendance]:
    with Signals() as signals:
        process: Any = command
        yield Attendance(process, signals, grace=3600)


def on_input(command: Command, attendance: Attendance, answer: bytes) -> list[bytes]:
    """When the command reads something, it writes `answer` and ends. What it read."""
    seen: list[bytes] = []

    def read(events: int) -> None:
        seen.append(os.read(command.slave, 4096))
        attendance.forget(command.slave)
        os.write(command.slave, answer)
        command.end()

    attendance.watch(command.slave, select.POLLIN, read)
    return seen


def test_keys_reach_the_command_and_its_answer_the_screen(
    command: Command, attendance: Attendance, user: tuple[int, int]
) -> None:
    master, slave = user
    with RawMode(slave):
        relay = TerminalRelay(attendance, RawMode(slave), command.master, keyboard=slave, screen=slave)
        seen = on_input(command, attendance, b"welcome")
        os.write(master, b"hello\n")
        attendance.until_end()
        relay.drain()
    assert seen == [b"hello\n"]
    assert os.read(master, 4096) == b"welcome"


def test_a_control_key_is_a_byte_for_the_cage_and_no_signal_for_us(
    command: Command, attendance: Attendance, user: tuple[int, int]
) -> None:
    master, slave = user
    attributes = termios.tcgetattr(command.slave)
    attributes[3] &= ~(termios.ISIG | termios.ICANON)
    termios.tcsetattr(command.slave, termios.TCSANOW, attributes)
    with RawMode(slave):
        TerminalRelay(attendance, RawMode(slave), command.master, keyboard=slave, screen=slave)
        seen = on_input(command, attendance, b"")
        os.write(master, b"\x03")
        attendance.until_end()
    assert seen == [b"\x03"]
    assert attendance.cause is None


def test_the_end_of_a_piped_input_is_the_end_of_file_for_the_command(command: Command, attendance: Attendance) -> None:
    read, write = os.pipe()
    os.write(write, b"x\n")
    os.close(write)
    screen = os.open(os.devnull, os.O_WRONLY)
    seen: list[bytes] = []

    def take(events: int) -> None:
        seen.append(os.read(command.slave, 4096))
        if not seen[-1]:
            attendance.forget(command.slave)
            command.end()

    attendance.watch(command.slave, select.POLLIN, take)
    TerminalRelay(attendance, RawMode(read), command.master, keyboard=read, screen=screen)
    attendance.until_end()
    os.close(read)
    os.close(screen)
    assert seen == [b"x\n", b""]


def test_the_size_of_the_screen_is_the_size_of_the_pty_and_follows_it(
    command: Command, attendance: Attendance, user: tuple[int, int]
) -> None:
    master, slave = user
    termios.tcsetwinsize(master, (10, 20))
    TerminalRelay(attendance, RawMode(slave), command.master, keyboard=slave, screen=slave)
    assert termios.tcgetwinsize(command.slave) == (10, 20)
    termios.tcsetwinsize(master, (30, 40))
    os.kill(os.getpid(), signal.SIGWINCH)
    os.kill(os.getpid(), signal.SIGTERM)  # ends the watch; what came first is seen first
    attendance.until_end()
    assert termios.tcgetwinsize(command.slave) == (30, 40)


def test_a_screen_that_has_gone_ends_the_command(command: Command, attendance: Attendance) -> None:
    read, write = os.pipe()
    os.close(read)
    keyboard, held = os.pipe()
    TerminalRelay(attendance, RawMode(keyboard), command.master, keyboard=keyboard, screen=write)
    os.write(command.slave, b"anybody?")
    attendance.until_end()
    for fd in (write, keyboard, held):
        os.close(fd)
    assert (attendance.cause, command.terminated) == (141, True)


def test_a_command_that_closes_its_terminal_is_still_waited_for(
    command: Command, attendance: Attendance, user: tuple[int, int]
) -> None:
    _, slave = user
    TerminalRelay(attendance, RawMode(slave), command.master, keyboard=slave, screen=slave)
    os.close(command.slave)
    command.slave = -1
    clock, tick = os.pipe()
    os.write(tick, b"x")
    rounds: list[int] = []

    def count(events: int) -> None:
        rounds.append(events)
        if len(rounds) == 3:
            attendance.forget(clock)
            command.end()

    attendance.watch(clock, select.POLLIN, count)
    attendance.until_end()
    os.close(clock)
    os.close(tick)
    assert len(rounds) == 3
    assert attendance.cause is None


def test_the_terminal_is_put_back_whatever_happens(user: tuple[int, int]) -> None:
    _, slave = user
    before = termios.tcgetattr(slave)
    with pytest.raises(RuntimeError), RawMode(slave):
        assert not termios.tcgetattr(slave)[3] & termios.ICANON
        raise RuntimeError
    assert termios.tcgetattr(slave) == before


def test_raw_mode_leaves_what_is_no_terminal_alone() -> None:
    read, write = os.pipe()
    with RawMode(read):
        pass
    os.close(read)
    os.close(write)
