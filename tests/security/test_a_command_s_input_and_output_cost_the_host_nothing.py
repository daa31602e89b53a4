"""Claim: a command changes nothing of the file that it reads from, neither what is in it nor its mode, times or place,
and one that fills a terminal which nobody reads is ended and waited for like any other.
"""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pysandbox import PIPE, Cage

from .harness import policy, program

COMMAND = str(Path(sys.executable).with_name("pysandbox"))
WORDS = b"hello world\n"

CHANGE = """
    import fcntl
    for action in (lambda: os.write(0, b"FORGED"), lambda: os.fchmod(0, 0o777), lambda: os.utime(0, (1, 1)),
                   lambda: fcntl.fcntl(0, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND), lambda: os.lseek(0, 3, 0),
                   lambda: os.ftruncate(0, 1), lambda: os.setxattr(0, "user.forged", b"1")):
        try:
            action()
        except OSError:
            pass
"""


def state(path: Path, fd: int) -> tuple[object, ...]:
    found = os.fstat(fd)
    flags = fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_APPEND)
    return path.read_bytes(), found.st_mode & 0o7777, int(found.st_mtime), flags, os.lseek(fd, 0, os.SEEK_CUR)


@pytest.mark.parametrize("mode", ["rb", "r+b"])
@pytest.mark.parametrize("entrance", ["spawn", "command line", "kept plan"])
def test_the_file_that_is_read_stays_as_it_is(isolation: str, tmp_path: Path, mode: str, entrance: str) -> None:
    path = tmp_path / "input"

    def attacked(argv: list[str], times: int = 1, *, spawned: bool = False) -> bool:
        path.write_bytes(WORDS)
        path.chmod(0o600)
        with open(path, mode, buffering=0) as file:
            file.seek(2)
            before = state(path, file.fileno())
            for _ in range(times):
                if spawned:
                    with Cage(policy(isolation)).spawn(argv, stdin=file) as process:
                        process.wait(60)
                else:
                    subprocess.run(argv, stdin=file, check=False, timeout=120)
            return state(path, file.fileno()) != before

    assert attacked(program(CHANGE)), "the attack works without a cage"
    caged = program(CHANGE)
    if entrance != "spawn":
        caged = [COMMAND, "run", "--no-audit", "--isolation", isolation, "--", *caged]
    assert not attacked(caged, 2 if entrance == "kept plan" else 1, spawned=entrance == "spawn")


def test_a_file_is_read_from_its_place_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(bytes(1_000_000) + WORDS)
    with open(path, "rb", buffering=0) as file:
        file.seek(10)
        with Cage(policy()).spawn(["/bin/cat"], stdin=file, stdout=PIPE) as process:
            out, _ = process.communicate()
        assert out == path.read_bytes()[10:]
        line = f"{COMMAND} run --no-audit --workdir none -- wc -c < {path}"
        for _ in range(2):
            assert subprocess.check_output(["sh", "-c", line], timeout=120).strip() == b"1000012"


def test_who_reads_a_part_ends_in_peace(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(bytes(5_000_000))
    with open(path, "rb") as file, Cage(policy()).spawn(["/bin/true"], stdin=file) as process:
        assert process.wait(60) == 0


def fill(terminal: int) -> None:
    os.set_blocking(terminal, False)
    try:
        while os.write(terminal, b"x" * 1000):
            pass
    except BlockingIOError:
        os.set_blocking(terminal, True)


@pytest.mark.parametrize("ended", ["by itself", "killed", "closed"])
def test_a_terminal_that_nobody_reads_holds_up_nobody(ended: str) -> None:
    master, slave = pty.openpty()
    try:
        with subprocess.Popen(["/usr/bin/yes"], stdout=slave) as direct:
            direct.kill()
            assert direct.wait(10) == -9, "it ends without a cage"
        command = "echo end" if ended == "by itself" else "exec yes"
        process = Cage(policy()).spawn(["/bin/sh", "-c", command], stdout=slave)
        time.sleep(0.5)
        began = time.monotonic()
        if ended == "killed":
            process.kill()
        if ended != "closed":
            assert process.wait(30) == (-9 if ended == "killed" else 0)
        process.close()
        assert time.monotonic() - began < 20
    finally:
        os.close(master)
        os.close(slave)


def test_what_a_terminal_takes_late_is_not_lost() -> None:
    master, slave = pty.openpty()
    fill(slave)
    try:
        with Cage(policy()).spawn(["/bin/sh", "-c", "head -c 3000 /dev/zero; echo end"], stdout=slave) as process:
            assert process.wait(60) == 0
        seen = b""
        while b"end" not in seen:
            seen += os.read(master, 65536)
        assert seen.count(b"\0") == 3000
    finally:
        os.close(master)
        os.close(slave)
