"""Claim: a caged process cannot push bytes into the terminal it was given, also with garbage in the upper half of
the request.
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from pathlib import Path

import pytest

from pysandbox import Cage, Process

from .harness import Report, policy, program, read_report

pytestmark = pytest.mark.guest

ATTACK = """
    TIOCSTI, TIOCLINUX, TIOCGWINSZ = 0x5412, 0x541C, 0x5413
    byte, size = ctypes.create_string_buffer(b"x"), ctypes.create_string_buffer(8)
    attempt("TIOCGWINSZ", call, "ioctl", 0, TIOCGWINSZ, size)
    attempt("TIOCSTI", call, "ioctl", 0, TIOCSTI, byte)
    attempt("TIOCLINUX", call, "ioctl", 0, TIOCLINUX, byte)
    attempt("TIOCSTI with upper bits", call, "ioctl", 0, TIOCSTI | 0xDEAD << 32, byte)
    attempt("TIOCLINUX with upper bits", call, "ioctl", 0, TIOCLINUX | 1 << 63, byte)
    attempt("TIOCSTI on /dev/tty", lambda: call("ioctl", os.open("/dev/tty", os.O_RDWR), TIOCSTI, byte))
    say("end")
"""

TAKE_TERMINAL = 'call("ioctl", 0, 0x540E, 0)'  # TIOCSCTTY: TIOCSTI asks for a controlling terminal

REFUSED = {
    "TIOCGWINSZ": None, "TIOCSTI": "EPERM", "TIOCLINUX": "EPERM", "TIOCSTI with upper bits": "EPERM",
    "TIOCLINUX with upper bits": "EPERM", "TIOCSTI on /dev/tty": ("EPERM", "ENXIO", "ENOENT", "EACCES"), "end": None,
}  # fmt: skip


def said_on(fd: int, within: float = 20.0) -> str:
    """What the attack wrote to its terminal, up to its last line."""
    said, deadline = b"", time.monotonic() + within
    while b'"end"' not in said and time.monotonic() < deadline and select.select([fd], [], [], within)[0]:
        try:
            said += os.read(fd, 4096)
        except OSError:  # EIO: the other side is closed
            break
    return said.decode().replace("\r", "")


def report_of(process: Process) -> Report:
    assert process.pty_fd is not None
    said = said_on(process.pty_fd)
    return read_report(process.wait(timeout=20), said, said)


def test_no_byte_is_injected(isolation: str) -> None:
    with Cage(policy(isolation)).spawn(program(ATTACK), pty=True) as process:
        report = report_of(process)

    assert report.differs(REFUSED) == {}


def test_uncaged_the_kernel_takes_the_byte() -> None:
    """Or answers EIO itself, where dev.tty.legacy_tiocsti is off; TIOCLINUX reaches the driver, which is no console."""
    switch = Path("/proc/sys/dev/tty/legacy_tiocsti")
    answer = None if not switch.exists() or switch.read_text().strip() == "1" else "EIO"
    ours, theirs = pty.openpty()
    attack = program(TAKE_TERMINAL, ATTACK)
    try:
        process = subprocess.Popen(attack, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
        said = said_on(ours)
        report = read_report(process.wait(timeout=20), said, said)
    finally:
        os.close(ours)
        os.close(theirs)

    assert report["TIOCSTI"].errno == report["TIOCSTI with upper bits"].errno == answer
    assert report["TIOCLINUX"].errno == report["TIOCLINUX with upper bits"].errno == "ENOTTY"
