"""Claim: a descriptor given to a cage is worth what it was opened for: no path through /proc, /dev/fd or a
directory adds rights.
"""

from __future__ import annotations

import os

import pytest

import pysandbox

from .conftest import Ground
from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.guest

ATTACK = """
    for way in (f"/proc/self/fd/{FD}", f"/dev/fd/{FD}", f"/proc/thread-self/fd/{FD}", f"/proc/{os.getpid()}/fd/{FD}"):
        attempt(way[:12] + " write", os.open, way, os.O_WRONLY)
        attempt(way[:12] + " truncate", os.open, way, os.O_RDONLY | os.O_TRUNC)
    attempt("truncate", os.truncate, f"/proc/self/fd/{FD}", 0)
    attempt("link", os.link, f"/proc/self/fd/{FD}", INSIDE + "/linked", follow_symlinks=True)
    attempt("link of the descriptor", call, "linkat", FD, "", -100, INSIDE + "/linked", 0x1000)
    attempt("by its name", overwrite, os.readlink(f"/proc/self/fd/{FD}"))
    attempt("write", os.write, FD, b"x")
    attempt("set flags", lambda: __import__("fcntl").fcntl(FD, 4, os.O_RDWR | os.O_APPEND))
    attempt("write after", os.write, FD, b"x")
"""

STDIO = """
    attempt("stdin for writing", os.open, "/dev/stdin", os.O_WRONLY)
    attempt("stdin truncated", os.open, "/proc/self/fd/0", os.O_RDONLY | os.O_TRUNC)
    attempt("stdout for reading", os.open, "/dev/stdout", os.O_RDONLY)
    attempt("stdout truncated", os.open, "/proc/self/fd/1", os.O_WRONLY | os.O_TRUNC)
    attempt("stderr for reading", os.open, "/dev/stderr", os.O_RDONLY)
    attempt("stdin read", lambda: os.read(0, 4096).decode())
"""

DIRECTORY = """
    attempt("read beside", os.open, "secret", os.O_RDONLY, dir_fd=FD)
    attempt("write beside", os.open, "secret", os.O_WRONLY, dir_fd=FD)
    attempt("create", os.open, "new", os.O_CREAT | os.O_WRONLY, dir_fd=FD)
    attempt("read above", os.open, "../inside/plain", os.O_RDONLY, dir_fd=FD)
    attempt("chmod", os.chmod, "secret", 0o777, dir_fd=FD)
    attempt("utime", os.utime, "secret", (0, 0), dir_fd=FD)
    attempt("unlink", os.unlink, "../inside/plain", dir_fd=FD)
    attempt("fchdir and read", lambda: (os.fchdir(FD), content("secret")))
"""


def test_a_passed_read_only_file_stays_read_only(ground: Ground, isolation: str) -> None:
    fd = os.open(ground.secret, os.O_RDONLY)
    try:
        attack = program(ATTACK, FD=fd, INSIDE=str(ground.inside))
        report = caged(attack, policy(isolation, allow_write=[str(ground.inside)]), pass_fds=(fd,))
    finally:
        os.close(fd)

    reopened = {name: "EACCES" for name in report.attempts if name.startswith(("/proc", "/dev"))}
    refused = {
        **reopened, "truncate": ("EACCES", "EPERM"), "link": ("EXDEV", "EACCES"),
        "link of the descriptor": ("ENOENT", "EXDEV", "EPERM"), "by its name": ("ENOENT", "EACCES"),
        "write": "EBADF", "set flags": (None, "EPERM"), "write after": "EBADF",
    }  # fmt: skip
    assert len(reopened) >= 6 and report.differs(refused) == {}
    assert ground.unharmed


def test_uncaged_the_same_file_can_be_reopened_for_writing(ground: Ground) -> None:
    fd = os.open(ground.secret, os.O_RDONLY)
    try:
        report = uncaged(program(ATTACK, FD=fd, INSIDE=str(ground.inside)), pass_fds=(fd,))
    finally:
        os.close(fd)

    assert report["/proc/self/f write"].errno is None and report["truncate"].errno is None
    assert ground.secret.read_text() != ground.word


def test_stdio_files_cannot_be_reopened(ground: Ground, isolation: str) -> None:
    log = ground.outside.parent / "log"
    log.write_text("what was there before\n")
    with ground.secret.open("rb") as source, log.open("ab") as sink:
        pysandbox.run(program(STDIO), policy=policy(isolation), stdin=source, stdout=sink, stderr=sink)

    said = log.read_text()
    assert said.startswith("what was there before\n"), "the log was not truncated"
    assert f'"{ground.word}"' in said, "the control: what was given can be read"
    names = ("stdin for writing", "stdin truncated", "stdout for reading", "stderr for reading")
    for name in names:  # a pipe of the command's own stands there
        assert f'{{"try": "{name}"' in said and said.count("what was there before") == 1, name
    assert ground.unharmed


def test_a_passed_directory_leads_nowhere(ground: Ground, isolation: str) -> None:
    """Refusing to pass a directory at all is as good: its entries lie outside every mount and rule of the cage."""
    mode = ground.secret.stat()
    fd = os.open(ground.outside, os.O_RDONLY | os.O_DIRECTORY)
    try:
        report = caged(program(DIRECTORY, FD=fd), policy(isolation), pass_fds=(fd,))
    except (pysandbox.CageError, ValueError) as error:
        assert "director" in str(error)
    else:
        assert {
            name: each.errno for name, each in report.attempts.items() if each.errno not in ("EACCES", "EPERM")
        } == {}
        assert len(report.attempts) == 8
    finally:
        os.close(fd)

    assert ground.unharmed
    assert (ground.secret.stat().st_mode, ground.secret.stat().st_mtime) == (mode.st_mode, mode.st_mtime)
    assert (ground.inside / "plain").exists()


def test_uncaged_a_directory_leads_everywhere(ground: Ground) -> None:
    fd = os.open(ground.outside, os.O_RDONLY | os.O_DIRECTORY)
    try:
        report = uncaged(program(DIRECTORY, FD=fd), pass_fds=(fd,))
    finally:
        os.close(fd)

    assert {name: each.errno for name, each in report.attempts.items()} == dict.fromkeys(report.attempts)
