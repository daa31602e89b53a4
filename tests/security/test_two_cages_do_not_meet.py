"""Claim: two cages of one host see nothing of each other: no process, file, memory, socket or shared object."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack

import pytest

from pysandbox import DEVNULL, PIPE, Cage

from .harness import in_cage, policy, program, token

pytestmark = pytest.mark.guest

STAY = """
    import socket
    open("/tmp/" + WORD, "w").write("mine")
    open("/dev/shm/" + WORD, "w").write("mine")
    path, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    path.bind("/tmp/" + WORD + ".socket"), path.listen()
    abstract.bind("\\0" + WORD), abstract.listen()
    tcp = socket.create_server(("127.0.0.1", 0))
    call("shmget", KEY, 4096, 0o1600)
    say("ready", [os.getpid(), tcp.getsockname()[1]])
    sys.stdin.read()
"""

LOOK = """
    import socket
    def connect(family, address):
        with socket.socket(family) as mine:
            mine.settimeout(10)
            mine.connect(address)
    attempt("file", content, "/tmp/" + WORD)
    attempt("shared memory", content, "/dev/shm/" + WORD)
    attempt("path socket", connect, socket.AF_UNIX, "/tmp/" + WORD + ".socket")
    attempt("abstract socket", connect, socket.AF_UNIX, "\\0" + WORD)
    attempt("tcp", connect, socket.AF_INET, ("127.0.0.1", PORT))
    attempt("segment", call, "shmget", KEY, 0, 0)
    attempt("sees", lambda: [each for each in os.listdir("/proc") if each.isdigit() and int(each) != os.getpid() and
                             WORD in content(f"/proc/{each}/cmdline").decode("latin-1")])
"""


def test_what_one_session_leaves_the_other_does_not_find() -> None:
    word, key = token(), int(token()[4:10], 16) + 1
    with Cage(policy()) as one, Cage(policy()) as other, ExitStack() as stack:
        stays = stack.enter_context(one.spawn(program(STAY, WORD=word, KEY=key), stdin=PIPE, stdout=PIPE))
        assert stays.stdout is not None
        pid, port = json.loads(stays.stdout.readline())["value"]
        look = program(LOOK, WORD=word, KEY=key, PORT=port)

        control, report = in_cage(one, look), in_cage(other, look)

        names = ("file", "shared memory", "path socket", "abstract socket", "tcp", "segment")
        assert {name: control[name].errno for name in names} == dict.fromkeys(names)
        assert str(pid) in control["sees"].value
        absent = {"file": "ENOENT", "shared memory": "ENOENT", "path socket": "ENOENT", "segment": "ENOENT",
                  "abstract socket": "ECONNREFUSED", "tcp": "ECONNREFUSED", "sees": None}  # fmt: skip
        assert report.differs(absent) == {}
        assert report["sees"].value == []
        assert one.id != other.id


TELL = """
    import fcntl
    for fd in (0, 1, 2):
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_APPEND)
        fcntl.fcntl(fd, 10, 37)  # F_SETSIG
"""
HEAR = """
    import fcntl
    for fd in (0, 1, 2):
        heard = fcntl.fcntl(fd, fcntl.F_GETFL) & (os.O_NONBLOCK | os.O_APPEND), fcntl.fcntl(fd, 11)
        RESULT = open("/tmp/heard", "a").write(repr(heard) + "\\n")
"""
UNSET = b"(0, 0)\n" * 3
FULL_SET = b"(3072, 37)\n" * 3


def test_the_null_device_carries_no_flag_from_one_to_the_other() -> None:
    shared = os.open(os.devnull, os.O_RDWR)
    streams = {"stdin": DEVNULL, "stdout": DEVNULL, "stderr": DEVNULL}
    try:
        control = {"stdin": shared, "stdout": shared, "stderr": shared}
        for given, heard in ((control, FULL_SET), (streams, UNSET)):
            with Cage(policy()) as one, Cage(policy()) as other:
                assert one.spawn(program(TELL), **given).wait(60) == 0
                assert other.spawn(program(HEAR), **given).wait(60) == 0
                assert other.files.read("/tmp/heard") == heard
                assert other.spawn(program(TELL), **given).wait(60) == 0
    finally:
        os.close(shared)
