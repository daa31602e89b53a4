"""Claim: in landlock isolation no socket by path, no port, no shared object and no other process's scheduling is had by
naming it: what Landlock does not see, the filter closes.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import ExitStack
from typing import Any

import pytest

import pysandbox
from pysandbox import PIPE, Cage

from .conftest import Ground
from .harness import caged, in_cage, policy, program, token, uncaged, victim

pytestmark = [pytest.mark.guest, pytest.mark.landlock(6)]

SOCKETS = """
    import socket
    def connect(kind, path):
        with socket.socket(socket.AF_UNIX, kind) as mine:
            mine.connect(path)
    def pair(kind, use):
        for mine in socket.socketpair(socket.AF_UNIX, kind):
            use(mine)
    attempt("stream", connect, socket.SOCK_STREAM, STREAM)
    attempt("packets", connect, socket.SOCK_SEQPACKET, PACKETS)
    attempt("datagram", connect, socket.SOCK_DGRAM, DATAGRAM)
    attempt("a pair connected again", pair, socket.SOCK_DGRAM, lambda mine: mine.connect(DATAGRAM))
    attempt("a pair of raw ones", pair, socket.SOCK_RAW, lambda mine: mine.connect(DATAGRAM))
    attempt("a pair that sends", pair, socket.SOCK_DGRAM, lambda mine: mine.sendto(b"x", DATAGRAM))
    attempt("one's own", lambda: socket.socket(socket.AF_UNIX).bind(OWN))
"""
STILL = """
    import socket
    a, b = socket.socketpair()
    attempt("a pair of streams", lambda: (a.sendall(b"word"), b.recv(9))[1])
    attempt("a stream of a pair connected again", a.connect, STREAM)
"""
ALL = (
    "stream", "packets", "datagram", "a pair connected again", "a pair of raw ones", "a pair that sends", "one's own",
)  # fmt: skip


def test_no_socket_of_the_host_is_reached_by_its_path(ground: Ground) -> None:
    names = {"STREAM": socket.SOCK_STREAM, "PACKETS": socket.SOCK_SEQPACKET, "DATAGRAM": socket.SOCK_DGRAM}
    with ExitStack() as stack:
        paths: dict[str, Any] = {}
        for name, kind in names.items():
            listener = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            paths[name] = str(ground.inside / name.lower())
            listener.bind(paths[name])
            listener.listen() if kind != socket.SOCK_DGRAM else None
        control = uncaged(program(SOCKETS, OWN=str(ground.inside / "own"), **paths))
        (ground.inside / "own").unlink()
        attack = program(SOCKETS, STILL, OWN=str(ground.inside / "own"), **paths)
        report = caged(attack, policy("landlock", allow_write=[str(ground.inside)]))

    assert control.differs(dict.fromkeys(ALL)) == {}
    pairs = {"a pair of streams": None, "a stream of a pair connected again": "EISCONN"}
    assert report.differs({**dict.fromkeys(ALL, "EPERM"), **pairs}) == {}
    assert not (ground.inside / "own").exists()


def test_a_grant_that_cannot_be_held_is_refused() -> None:
    with pytest.raises(pysandbox.PolicyError, match=r"io_uring.*full"):
        pysandbox.run(["/bin/true"], policy("landlock", allow_syscalls=("io_uring_setup", "io_uring_enter")))


LISTEN = """
    import socket
    def listen(family):
        mine = socket.socket(family)
        mine.listen()
        return mine.getsockname()[1]
    attempt("listen", listen, socket.AF_INET)
    attempt("listen on both", listen, socket.AF_INET6)
    attempt("bind", lambda: socket.socket().bind(("127.0.0.1", 0)))
"""


def test_no_port_of_the_host_is_taken() -> None:
    assert uncaged(program(LISTEN)).differs(dict.fromkeys(("listen", "listen on both", "bind"))) == {}
    report = caged(program(LISTEN), policy("landlock"))
    assert report.differs({"listen": "EPERM", "listen on both": "EPERM", "bind": "EACCES"}) == {}


SCHEDULING = """
    def affinity(pid):
        os.sched_setaffinity(pid, os.sched_getaffinity(0))
    attempt("nice", os.setpriority, os.PRIO_PROCESS, TARGET, 19)
    attempt("nice of all", os.setpriority, os.PRIO_USER, 0, 19)
    attempt("affinity", affinity, TARGET)
    attempt("policy", os.sched_setscheduler, TARGET, os.SCHED_BATCH, os.sched_param(0))
    attempt("parameters", os.sched_setparam, TARGET, os.sched_param(0))
    attempt("disk", call, "ioprio_set", 1, TARGET, 3 << 13)
"""
OWN = """
    attempt("own nice", os.setpriority, os.PRIO_PROCESS, 0, 19)
    attempt("own affinity", affinity, 0)
    attempt("own policy", os.sched_setscheduler, 0, os.SCHED_BATCH, os.sched_param(0))
    attempt("own disk", call, "ioprio_set", 1, 0, 3 << 13)
"""


def test_no_process_of_the_host_is_scheduled_otherwise() -> None:
    without_user = SCHEDULING.replace('attempt("nice of all"', '0 and attempt("nice of all"')
    with victim() as target:
        control = uncaged(program(without_user, TARGET=target.pid))
        before = os.getpriority(os.PRIO_PROCESS, target.pid)
        report = caged(program(SCHEDULING, OWN, TARGET=target.pid), policy("landlock"))
        assert os.getpriority(os.PRIO_PROCESS, target.pid) == before

    assert {each.errno for each in control.attempts.values()} == {None}
    refused = dict.fromkeys(("nice", "nice of all", "affinity", "policy", "parameters", "disk"), "EPERM")
    assert report.differs({**refused, **dict.fromkeys(("own nice", "own affinity", "own policy", "own disk"))}) == {}


OBJECTS = """
    libc.inotify_init.restype = ctypes.c_int
    attempt("segment", call, "shmget", KEY, 4096, 0o1600)
    attempt("semaphore", call, "semget", KEY, 1, 0o1600)
    attempt("queue", call, "msgget", KEY, 0o1600)
    attempt("named queue", call, "mq_open", WORD, os.O_RDWR | os.O_CREAT, 0o600, 0)
    attempt("watch", call, "inotify_add_watch", libc.inotify_init(), OUTSIDE, 0x100)
    attempt("owner", os.chown, PLAIN, os.getuid(), os.getgid())
    attempt("owner of a link", os.lchown, PLAIN, os.getuid(), os.getgid())
    attempt("attribute", os.setxattr, PLAIN, "user.x", b"1")
    attempt("attribute of a link", os.setxattr, PLAIN, "user.x", b"1", follow_symlinks=False)
    attempt("attribute away", os.removexattr, PLAIN, "user.x")
"""
CLEAN = """
    call("shmctl", call("shmget", KEY, 0, 0), 0, 0)
    call("semctl", call("semget", KEY, 0, 0), 0, 0, 0)
    call("msgctl", call("msgget", KEY, 0), 0, 0)
    call("mq_unlink", WORD)
"""
NAMED = (
    "segment", "semaphore", "queue", "named queue", "watch", "owner", "owner of a link", "attribute",
    "attribute of a link", "attribute away",
)  # fmt: skip


def test_no_object_and_no_file_is_changed_by_its_name(ground: Ground) -> None:
    word = token()
    names = {"KEY": int(word[4:10], 16) + 1, "WORD": word, "OUTSIDE": str(ground.outside)}
    control = uncaged(program(OBJECTS, CLEAN, PLAIN=str(ground.secret), **names))
    attack = program(OBJECTS, PLAIN=str(ground.secret), **names)
    report = caged(attack, policy("landlock", allow=[str(ground.inside)]))

    assert {name: control[name].errno for name in NAMED} in (
        dict.fromkeys(NAMED), {**dict.fromkeys(NAMED), **dict.fromkeys(NAMED[7:], "EOPNOTSUPP")},
    )  # fmt: skip
    owner = dict.fromkeys(("owner", "owner of a link"), "EPERM")
    assert report.differs({**dict.fromkeys(NAMED, "ENOSYS"), **owner}) == {}
    assert ground.unharmed


def test_what_is_asked_for_is_opened_and_said(ground: Ground) -> None:
    attack = program('attempt("watch", call, "inotify_add_watch", ctypes.CDLL(None).inotify_init(), INSIDE, 0x100)',
                     INSIDE=str(ground.inside))  # fmt: skip
    rules = policy("landlock", allow=[str(ground.inside)], allow_syscalls=("inotify_add_watch",))
    report = caged(attack, rules)
    assert report["watch"].errno is None and report.result is not None
    assert any("inotify" in note.message for note in report.result.notes)


LEAVE = """
    import tempfile
    place = tempfile.mkdtemp()
    open(place + "/file", "w").write("mine")
    say("place", place)
    sys.stdin.read()
"""
FIND = """
    attempt("its file", content, PLACE + "/file")
    attempt("its names", os.listdir, PLACE)
    attempt("its directory", os.mkdir, PLACE + "/new" + str(os.getpid()))
"""


def test_another_cage_s_own_directory_stays_its_own() -> None:
    with (
        Cage(policy("landlock")) as one,
        Cage(policy("landlock")) as other,
        one.spawn(program(LEAVE), stdin=PIPE, stdout=PIPE) as stays,
    ):
        assert stays.stdout is not None
        place = json.loads(stays.stdout.readline())["value"]
        control, report = (in_cage(each, program(FIND, PLACE=place)) for each in (one, other))
    assert control.differs(dict.fromkeys(("its file", "its names", "its directory"))) == {}
    assert report.differs(dict.fromkeys(("its file", "its names", "its directory"), "EACCES")) == {}


def test_strict_refuses_what_stays_open() -> None:
    with pytest.raises(pysandbox.UnsupportedError, match="leaves open"):
        pysandbox.run(["/bin/true"], policy("landlock", strict=True))
