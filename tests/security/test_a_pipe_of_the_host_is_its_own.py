"""Claim: a command that is given the host's pipe as stdin, stdout or stderr reads and writes it in that one direction.

What others write into the host's stdout pipe it does not read, into the pipe that it reads from it writes nothing, be
the next reader the host's shell or another cage; and what it did not read is there for whoever reads next.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import pysandbox
from pysandbox import Cage

from .harness import policy, program

COMMAND = str(Path(sys.executable).with_name("pysandbox"))
BACK = """
    def other_end(fd, flags):
        try:
            return os.open("/proc/self/fd/%d" % fd, flags | os.O_NONBLOCK)
        except OSError:  # a socket
            return fd
    back = other_end(0, os.O_WRONLY)
    attempt("write back", lambda: [os.write(back, b"\\necho injected\\n") for _ in range(3)])
    attempt("read what others write", lambda: os.read(other_end(1, os.O_RDONLY), 1000).decode())
    attempt("chmod", lambda: [os.fchmod(fd, 0o644) for fd in (0, 1)])
"""
SECRET = b"of another writer\n"


@contextmanager
def two_pipes(kind: str = "pipe") -> Iterator[list[int]]:
    """read, write, read, write: the first for stdin, the second for stdout. Not to be waited for."""
    if kind == "pipe":
        ends = [*os.pipe(), *os.pipe()]
    else:
        ends = [each.detach() for each in (*socket.socketpair(), *socket.socketpair())]
    for fd in (ends[0], ends[2]):
        os.set_blocking(fd, False)
    try:
        yield ends
    finally:
        for fd in ends:
            os.close(fd)


def read_now(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return b""


def test_control_without_a_cage_the_other_end_is_opened() -> None:
    with two_pipes() as (stdin, _, out, stdout):
        os.write(stdout, SECRET)
        subprocess.run(program(BACK), stdin=stdin, stdout=stdout, check=True, timeout=60)
        assert b"injected" in read_now(stdin)
        said = read_now(out)
        assert SECRET.strip() in said and not said.startswith(SECRET)  # it was taken out, and told


@pytest.mark.parametrize("isolation", ["full", "landlock"])
@pytest.mark.parametrize("entrance", ["spawn", "session"])
def test_nothing_goes_the_other_way(isolation: str, entrance: str) -> None:
    rules = policy(isolation, run_as="self", allow=["/proc"] if isolation == "landlock" else [])
    with two_pipes() as (stdin, feed, out, stdout):
        os.write(stdout, SECRET)
        os.write(feed, b"for later\n")
        before = [os.fstat(fd).st_mode for fd in (stdin, stdout)]
        with Cage(rules) as cage:
            if entrance == "session":
                cage.run(["/bin/true"])
            with cage.spawn(program(BACK), stdin=stdin, stdout=stdout) as process:
                assert process.wait(60) == 0
        said = read_now(out)
        assert said.startswith(SECRET) and said.count(SECRET.strip()) == 1 and b"write back" in said
        assert read_now(stdin) == b"for later\n"
        assert [os.fstat(fd).st_mode for fd in (stdin, stdout)] == before


@pytest.mark.parametrize("kept", [False, True])
def test_the_shell_that_reads_its_script_from_a_pipe_runs_no_line_of_a_command(tmp_path: Path, kept: bool) -> None:
    attack = tmp_path / "attack.py"
    attack.write_text(program(BACK)[-1])
    caged = f"{COMMAND} run --no-audit --workdir read -- "

    def said(prefix: str) -> list[str]:
        script = f"echo first\n{prefix}/usr/bin/python3 -I -S {attack}\necho last\n"
        bash = subprocess.Popen(["bash", "-s"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        out, _ = bash.communicate(script, timeout=120)
        return [line for line in out.splitlines() if not line.startswith('{"try"')]

    if kept:
        said(caged)
    assert said(caged) == ["first", "last"]
    assert "injected" in said("")


LISTEN = """
    import select
    back = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
    os.dup2(2, 1)
    os.read(0, 1)  # until the other has spoken
    attempt("hear", lambda: os.read(back, 100).decode())
"""
SPEAK = """
    attempt("speak", lambda: os.write(os.open("/proc/self/fd/0", os.O_WRONLY | os.O_NONBLOCK), b"secret"))
"""


@pytest.mark.parametrize("caged", [False, True])
def test_a_cage_tells_nothing_to_the_one_whose_output_it_reads(caged: bool) -> None:
    def start(attack: str, stdin: int, stdout: int) -> Any:
        if caged:
            return Cage(policy()).spawn(program(attack), stdin=stdin, stdout=stdout, stderr=pysandbox.PIPE)
        return subprocess.Popen(program(attack), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)

    with two_pipes() as (wait, go, middle, into), two_pipes() as (_, _unused, _also, out):
        os.set_blocking(wait, True)
        with start(LISTEN, wait, into) as listener, start(SPEAK, middle, out) as speaker:
            assert speaker.wait(60) == 0
            os.write(go, b"x")
            assert listener.wait(60) == 0
            assert (b"secret" in listener.stderr.read()) != caged


@pytest.mark.parametrize("entrance", ["command line", "kept plan"])
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_what_a_command_did_not_read_is_left_to_the_next(tmp_path: Path, kind: str, entrance: str) -> None:
    run = f"{COMMAND} run --no-audit --workdir none -- "
    script = f"read x; {run}sh -c 'read y; echo $y'; {run}true; echo; cat"
    for _ in range(2 if entrance == "kept plan" else 1):
        with two_pipes(kind) as (stdin, feed, _, _unused):
            os.set_blocking(stdin, True)
            os.write(feed, b"a\nb\nc\n" + b"d" * 30000)
            os.dup2(stdin, feed)  # the last writer goes
            done = subprocess.run(["sh", "-c", script], cwd=tmp_path, stdin=stdin, capture_output=True, timeout=120)
        assert done.stdout == b"b\n\nc\n" + b"d" * 30000, done.stderr


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 65536, 65537, 3_000_000])
def test_all_of_a_flood_is_read_and_written(size: int) -> None:
    with two_pipes() as (stdin, feed, out, stdout):
        script = f"head -c {size} /dev/zero"
        with (
            subprocess.Popen(["sh", "-c", script], stdout=feed) as source,
            Cage(policy()).spawn(["/usr/bin/wc", "-c"], stdin=stdin, stdout=stdout) as process,
        ):
            assert source.wait(60) == 0
            os.dup2(stdin, feed)  # the last writer goes
            assert process.wait(60) == 0
        assert int(read_now(out)) == size


def test_a_pipe_is_read_where_nothing_else_is_the_host_s() -> None:
    with two_pipes() as (stdin, feed, _, _unused):
        os.write(feed, b"one line\n")
        done = Cage(policy()).run(["/usr/bin/head", "-n", "1"], stdin=stdin, timeout=60)
        assert (done.reason, done.stdout) == ("exited", "one line\n")
