"""Claim: through descriptors 0 to 2 a command writes and reads what it was given, and changes nothing of the host's:
no terminal is read or set, no file is rewritten, no flag and no place in a file is the host's own.
"""

from __future__ import annotations

import fcntl
import os
import pty
import socket
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import pysandbox
from pysandbox import PIPE, Cage

from .harness import policy, program

COMMAND = str(Path(sys.executable).with_name("pysandbox"))

REWRITE = """
    import fcntl
    def again(fd):
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_APPEND)
        os.lseek(fd, 0, 0)
        os.write(fd, b"FORGED")
    for fd in (1, 2):
        for action in (again, lambda fd: os.pwrite(fd, b"FORGED", 0), lambda fd: os.ftruncate(fd, 0),
                       lambda fd: os.posix_fallocate(fd, 0, 1 << 20)):
            try:
                action(fd)
            except OSError:
                pass
"""
FLAGS = """
    import fcntl
    for fd in (0, 1, 2):
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_NONBLOCK | os.O_ASYNC)
"""


def run_with(isolation: str, argv: list[str], **streams: Any) -> None:
    with Cage(policy(isolation)).spawn(argv, **streams) as process:
        process.wait(60)


@pytest.mark.parametrize("appends", [True, False])
def test_what_the_host_wrote_before_stays(isolation: str, tmp_path: Path, appends: bool) -> None:
    log = tmp_path / "log"

    def opened() -> Any:
        log.write_bytes(b"written by the host\n")
        file = open(log, "r+b" if not appends else "ab", buffering=0)  # noqa: SIM115 - closed by each test
        file.seek(0, os.SEEK_END)
        return file

    with opened() as file:
        subprocess.run(program(REWRITE), stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False)
    assert not log.read_bytes().startswith(b"written by the host\n"), "the attack works without a cage"

    with opened() as file:
        run_with(isolation, program(REWRITE), stdout=file, stderr=file)
        flags = fcntl.fcntl(file, fcntl.F_GETFL)
        file.write(b"and after\n")
    assert log.read_bytes().startswith(b"written by the host\n") and log.read_bytes().endswith(b"and after\n")
    assert log.stat().st_size < 200 and bool(flags & os.O_APPEND) == appends


@pytest.mark.parametrize("redirect", [">", ">>"])
def test_what_the_shell_and_the_command_write_comes_in_order(tmp_path: Path, redirect: str) -> None:
    log = tmp_path / "log"
    for _ in range(2):  # the second time from a kept plan
        log.unlink(missing_ok=True)
        once = f"{COMMAND} run --no-audit --workdir none -- sh -c 'echo b; echo c >&2'"
        subprocess.run(["sh", "-c", f"(echo a; {once}; echo d) {redirect} {log} 2>&1"], check=True, timeout=120)
        assert log.read_text() == "a\nb\nc\nd\n"


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_no_flag_reaches_the_host_s_open_file(isolation: str, kind: str) -> None:
    def ends() -> tuple[int, int]:
        if kind == "pipe":
            return os.pipe()
        one, other = socket.socketpair()
        return one.detach(), other.detach()

    def flags(fds: list[int]) -> list[int]:
        return [fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_ASYNC) for fd in fds]

    given = [*ends(), *ends()]  # read, write, read, write
    mine = [given[0], given[3], given[3]]
    try:
        subprocess.run(program(FLAGS), stdin=mine[0], stdout=mine[1], stderr=mine[2], check=True)
        assert all(flags(mine)), "the attack works without a cage"
        for fd in mine:
            fcntl.fcntl(fd, fcntl.F_SETFL, 0)
        if kind == "pipe":
            run_with(isolation, program(FLAGS), stdin=mine[0], stdout=mine[1], stderr=mine[2])
        else:  # a socket that is passed by name is the command's; the host's own output is not
            as_inherited(mine[1], isolation)
        assert flags(mine) == [0, 0, 0]
    finally:
        for fd in given:
            os.close(fd)


def as_inherited(fd: int, isolation: str) -> None:
    """A host whose own stdout and stderr are `fd`."""
    code = f"""
from pysandbox import Cage, Policy
rules = Policy(isolation={isolation!r}, run_as="self")
with Cage(rules).spawn({program(FLAGS)!r}) as process:
    process.wait(60)
"""
    subprocess.run([sys.executable, "-c", code], stdout=fd, stderr=fd, check=True, timeout=120)


# ---- terminals -----------------------------------------------------------------------------------------------

TERMINAL = """
    import termios
    def silent(fd):
        found = termios.tcgetattr(fd)
        found[3] &= ~termios.ECHO
        termios.tcsetattr(fd, termios.TCSANOW, found)
    for fd in (0, 1, 2):
        try:
            os.set_blocking(fd, False)
            heard = os.read(fd, 100)
        except OSError:
            heard = b""
        if b"hunter2" in heard:
            open(FOUND, "w").write("heard")
        try:
            silent(fd)
        except (OSError, termios.error):
            pass
    print("done", flush=True)
"""


@contextmanager
def terminal() -> Iterator[tuple[int, int]]:
    master, slave = pty.openpty()
    try:
        yield master, slave
    finally:
        os.close(master)
        os.close(slave)


def play(argv: list[str], *, piped: bool) -> tuple[bool, bool, bytes]:
    """Runs it at a terminal where a password is being typed: (the echo is on, the terminal blocks, what it showed)."""
    with terminal() as (master, slave):
        os.write(master, b"hunter2\n")
        out: Any = subprocess.PIPE if piped else slave
        done = subprocess.run(argv, stdin=slave, stdout=out, stderr=slave, timeout=120, start_new_session=True)
        echo = bool(termios.tcgetattr(slave)[3] & termios.ECHO)
        blocks = not fcntl.fcntl(slave, fcntl.F_GETFL) & os.O_NONBLOCK
        os.set_blocking(master, False)
        shown = os.read(master, 65536)
        return echo, blocks, shown + (done.stdout or b"")


def test_control_a_terminal_that_is_handed_over_is_read_and_set(tmp_path: Path) -> None:
    found = tmp_path / "found"
    echo, blocks, _ = play(program(TERMINAL, FOUND=str(found)), piped=True)
    assert found.exists() and not echo and not blocks


@pytest.mark.parametrize("piped", [True, False])
@pytest.mark.parametrize("entrance", ["spawn", "session", "command line", "kept plan"])
def test_no_terminal_of_the_host_is_read_or_set(isolation: str, tmp_path: Path, entrance: str, piped: bool) -> None:
    found = tmp_path / "out" / "found"
    found.parent.mkdir()
    guest = program(TERMINAL, FOUND=str(found))
    if entrance in ("spawn", "session"):
        opened = "Cage(rules).open()" if entrance == "session" else "Cage(rules)"
        code = f"""
from pysandbox import Cage, Policy
rules = Policy(isolation={isolation!r}, run_as="self", allow_write=[{str(found.parent)!r}])
cage = {opened}
with cage.spawn({guest!r}) as process:
    process.wait(60)
cage.close()
"""
        argv = [sys.executable, "-c", code]
    else:
        flags = ["--no-audit", "--no-pty", "--isolation", isolation, "--allow-write", str(found.parent)]
        argv = [COMMAND, "run", *flags, "--", *guest]
        if entrance == "kept plan":
            play(argv, piped=piped)
    echo, blocks, shown = play(argv, piped=piped)
    assert b"done" in shown and echo and blocks and not found.exists()


def test_a_terminal_to_read_from_is_refused_by_name() -> None:
    with terminal() as (_, slave), pytest.raises(ValueError, match="pty=True"):
        Cage(policy()).spawn(["/bin/true"], stdin=slave)


def test_what_goes_to_a_terminal_arrives_there_unchanged() -> None:
    with terminal() as (master, slave):
        attributes = termios.tcgetattr(slave)
        attributes[1] &= ~termios.OPOST
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        code = "import sys; print(sys.stdout.isatty()); print('e', file=sys.stderr); print('last')"
        with Cage(policy()).spawn(["/usr/bin/python3", "-c", code], stdout=slave, stderr=slave) as process:
            assert process.wait(60) == 0
        os.set_blocking(master, False)
        assert os.read(master, 1000) == b"True\ne\nlast\n"


# ---- what passing on must not change ---------------------------------------------------------------------------


def test_all_of_a_flood_has_arrived_when_the_command_has_ended(tmp_path: Path) -> None:
    with open(tmp_path / "out", "wb") as file:
        spawned = Cage(policy()).spawn(["/bin/sh", "-c", "head -c 5000000 /dev/zero; echo end >&2"],
                                       stdout=file, stderr=PIPE)  # fmt: skip
        file.close()  # as with Popen: the caller's copy may go
        with spawned as process:
            assert process.wait(60) == 0
            assert process.stderr is not None and process.stderr.read() == b"end\n"
    assert (tmp_path / "out").stat().st_size == 5_000_000


def test_a_reader_that_has_gone_ends_the_writer() -> None:
    read, write = os.pipe()
    os.close(read)
    with Cage(policy()).spawn(["/usr/bin/yes"], stdout=write) as process:
        os.close(write)
        assert process.wait(60) == -13


def test_a_full_disk_is_no_hang() -> None:
    with open("/dev/full", "wb") as full:
        result = pysandbox.run(["/bin/echo", "x"], policy(), stdout=full)
    assert result.exit_code != 0
