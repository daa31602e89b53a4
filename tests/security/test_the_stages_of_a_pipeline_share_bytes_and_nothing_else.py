"""Claim: a stage of a pipeline gets the bytes that the one before it writes, and no other part of what that one was
granted; nothing goes the other way.

The stage that has the network cannot read the files of the one that has the data, and that one cannot use the network;
neither can see the other's processes or descriptors, open the other end of the pipe between them, or speak backwards.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pysandbox import Cage

from .harness import policy, program, read_report

SPEAK = """
    attempt("what the other writes", lambda: os.read(0, 100).decode())
    attempt("its data", lambda: open(SECRET).read())
    def others():
        for each in os.listdir("/proc"):
            if each.isdigit() and int(each) != os.getpid():
                try:
                    with open("/proc/%s/cmdline" % each, "rb") as file:
                        if b"LISTENS" in file.read():
                            return each
                except OSError:  # it is over
                    pass
        raise ProcessLookupError(errno.ESRCH, "none")
    attempt("its processes", others)
    attempt("a descriptor along", lambda: __import__("socket").socket(fileno=os.dup(0)).recvmsg(1, 100))
    os.write(os.open("/proc/self/fd/0", os.O_WRONLY | os.O_NONBLOCK), b"a command")
"""
LISTEN = """
    import fcntl, socket, struct, termios, time
    LISTENS = True
    back = os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK)
    os.write(1, open(SECRET, "rb").read())
    for _ in range(300):  # else it would read what it wrote; without cages nobody may have asked for that yet
        time.sleep(0.01)
        if not struct.unpack("i", fcntl.ioctl(back, termios.FIONREAD, bytes(4)))[0]:
            break
    def hear():
        end = time.monotonic() + 2
        while time.monotonic() < end:
            try:
                if b"command" in os.read(back, 4096):
                    return "heard"
            except BlockingIOError:
                pass
            time.sleep(0.05)
        raise TimeoutError(110, "nobody spoke")
    heard = hear if WAITS else lambda: 0
    time.sleep(0 if WAITS else 1)
    os.dup2(2, 1)
    attempt("hear", heard)
    attempt("the network", lambda: socket.create_connection(("127.0.0.1", PORT), 2).recv(100).decode())
"""


@pytest.fixture
def server() -> Iterator[int]:
    """Says a word to whoever connects."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with peer:
                        peer.sendall(b"reached")

        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret.csv"
    path.write_text("the data")
    return path


def test_control_without_cages_each_reaches_what_is_the_other_s(secret: Path, server: int) -> None:
    read, write = os.pipe()
    first, second = (program(each, SECRET=str(secret), PORT=server, WAITS=True) for each in (LISTEN, SPEAK))
    with (
        subprocess.Popen(second, stdin=read, stdout=subprocess.PIPE, text=True) as speaker,
        subprocess.Popen(first, stdin=read, stdout=write, stderr=subprocess.PIPE, text=True) as listener,
    ):
        os.close(write)
        spoken, heard = speaker.communicate(timeout=60)[0], listener.communicate(timeout=60)[1]
        os.close(read)
    said = read_report(0, spoken, "")
    assert not said.differs({
        "what the other writes": None, "its data": None, "its processes": None, "a descriptor along": "ENOTSOCK",
    })  # fmt: skip
    assert not read_report(0, heard, "").differs({"hear": None, "the network": None})


@pytest.mark.parametrize("isolation", ["full", "landlock"])
def test_each_has_what_its_own_policy_grants_and_the_bytes_of_the_one_before(
    isolation: str, secret: Path, server: int
) -> None:
    itself = ["/proc"] if isolation == "landlock" else []
    data, net = Cage(policy(isolation, allow=[str(secret), *itself])), Cage(policy(isolation, allow=itself))
    first, second = (program(each, SECRET=str(secret), PORT=server, WAITS=True) for each in (LISTEN, SPEAK))
    result = (data.cmd(first) | net.cmd(second)).run(timeout=60, grace=10)
    spoken, heard = read_report(0, result.stdout, result[1].stderr), read_report(0, result[0].stderr, "")
    assert spoken["what the other writes"].value == "the data"
    assert spoken["its data"].errno in ("ENOENT", "EACCES")
    assert spoken["its processes"].errno == "ESRCH" or isolation == "landlock"  # whose /proc is the host's
    assert spoken["a descriptor along"].errno == "ENOTSOCK"
    assert not heard.differs({"hear": "ETIMEDOUT", "the network": ("ECONNREFUSED", "EPERM", "EACCES", "ENETUNREACH")})
