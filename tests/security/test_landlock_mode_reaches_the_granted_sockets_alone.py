"""Claim: in landlock isolation a unix socket is reached where it was granted, as the very file that was granted: by no
other path, name, kind, link or descriptor, and no cage reaches what another one was given.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

import pysandbox
from pysandbox import Cage

from .conftest import Ground
from .harness import PATIENCE, caged, in_cage, policy, program, token, uncaged, wait_until

pytestmark = [pytest.mark.guest, pytest.mark.landlock(6)]


@contextmanager
def listening(*paths: str, kind: int = socket.SOCK_STREAM) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        made = [stack.enter_context(socket.socket(socket.AF_UNIX, kind)) for _ in paths]
        for each, path in zip(made, paths, strict=True):
            each.bind(path)
            if kind != socket.SOCK_DGRAM:
                each.listen(64)
            each.setblocking(False)
        yield made


def heard(listener: socket.socket) -> int:
    """How many have come."""
    count = 0
    while True:
        try:
            listener.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


CONNECT = """
    import socket
    def connect(path, kind=socket.SOCK_STREAM):
        with socket.socket(socket.AF_UNIX, kind) as mine:
            mine.connect(path)
"""
GRANTED = """
    attempt("its path", connect, GRANTED)
    os.symlink(GRANTED, INSIDE + "/link")
    attempt("a link to it", connect, INSIDE + "/link")
    os.chdir(INSIDE)
    attempt("a relative path", connect, "../granted")
    a, b = socket.socketpair()
    attempt("a pair", lambda: (a.sendall(b"word"), b.recv(9))[1])
    attempt("descriptors over a pair", lambda: len(socket.send_fds(a, [b"x"], [0]) and socket.recv_fds(b, 9, 1)[1]))
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(GRANTED)
    attempt("a pidfd of the peer", peer.getsockopt, socket.SOL_SOCKET, 77, 4)
    attempt("pidfds of senders", peer.setsockopt, socket.SOL_SOCKET, 76, 1)
"""
OTHERS = """
    attempt("its neighbour", connect, OTHER)
    os.symlink(OTHER, INSIDE + "/leads")
    attempt("a link to the neighbour", connect, INSIDE + "/leads")
    place = os.open(OTHER, os.O_PATH)
    attempt("a descriptor's name", connect, f"/proc/self/fd/{place}")
    attempt("a directory's name", connect, f"/proc/self/fd/{os.open(INSIDE, os.O_PATH)}/../other")
    attempt("its parent's root", connect, f"/proc/{os.getppid()}/root{OTHER}")
    attempt("an abstract name", connect, "\\0" + NAME)
    attempt("packets", connect, PACKETS, socket.SOCK_SEQPACKET)
    attempt("a datagram socket", connect, DATAGRAM, socket.SOCK_DGRAM)
    attempt("one by its raw kind", connect, DATAGRAM, socket.SOCK_RAW)
    attempt("sent from a pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", DATAGRAM))
    attempt("a name of one's own", lambda: socket.socket(socket.AF_UNIX).bind(INSIDE + "/own"))
    attempt("an abstract one", lambda: socket.socket(socket.AF_UNIX).bind("\\0" + NAME + "o"))
    attempt("any name", lambda: socket.socket(socket.AF_UNIX).bind(""))
    def listen():
        mine = socket.socket(socket.AF_UNIX)
        mine.bind(INSIDE + "/listens")
        mine.listen()
    attempt("listening", listen)
    attempt("a port", lambda: socket.socket().bind(("127.0.0.1", 0)))
"""
REACHED = ("its path", "a link to it", "a relative path", "a pair", "descriptors over a pair")
CLOSED = dict.fromkeys(
    ("its neighbour", "a link to the neighbour", "an abstract name", "packets", "a datagram socket",
     "one by its raw kind", "sent from a pair", "a name of one's own", "an abstract one", "any name", "listening"),
    "EPERM",
) | {"a descriptor's name": "ELOOP", "a directory's name": "ELOOP", "its parent's root": ("ELOOP", "EACCES"),
     "a port": "EACCES"}  # fmt: skip


@pytest.mark.parametrize("more", [{}, {"allow_ips": ["192.0.2.1:9/tcp"]}, {"scm_rights": "allow", "notifier": True}],
                         ids=["alone", "addresses", "notifier"])  # fmt: skip
def test_what_was_granted_is_reached_and_nothing_else(more: dict[str, Any], ground: Ground) -> None:
    top, name = ground.inside.parent, token()
    granted, other, packets, datagram = (str(top / each) for each in ("granted", "other", "packets", "datagram"))
    names = {"GRANTED": granted, "OTHER": other, "PACKETS": packets, "DATAGRAM": datagram, "NAME": name,
             "INSIDE": str(ground.inside)}  # fmt: skip
    with (
        listening(granted, other, "\0" + name) as (_, neighbour, abstract),
        listening(packets, kind=socket.SOCK_SEQPACKET),
        listening(datagram, kind=socket.SOCK_DGRAM) as (mailbox,),
    ):
        control = uncaged(program(CONNECT, OTHERS, **names))
        assert heard(neighbour) >= 4 and heard(abstract) == 1 and mailbox.recv(9) == b"x"
        for each in ("leads", "own", "listens"):
            (ground.inside / each).unlink()
        rules = policy("landlock", allow_write=[str(ground.inside)], allow=["/proc"], unix_sockets=[granted], **more)
        report = caged(program(CONNECT, GRANTED, OTHERS, **names), rules)
        assert heard(neighbour) == heard(abstract) == 0
        with pytest.raises(BlockingIOError):
            mailbox.recv(9)

    assert control.differs(dict.fromkeys(CLOSED)) == {}
    pidfds = dict.fromkeys(("a pidfd of the peer", "pidfds of senders"), "EPERM")
    assert report.differs({**dict.fromkeys(REACHED), **CLOSED, **pidfds}) == {}
    assert not (ground.inside / "own").exists()
    assert report.result is not None
    told = {each.target: each.rule for each in report.result.denials if each.kind == "network"}
    assert told[other] == told["@" + name] == "network.unix_sockets"


PLACES = """
    attempt("moved in", lambda: (os.rename(OTHER, GRANTED), connect(GRANTED)))
    os.unlink(GRANTED)
    attempt("gone", connect, GRANTED)
    os.symlink(SECRET, GRANTED)
    attempt("a link in its place", connect, GRANTED)
"""


def test_another_socket_in_its_place_is_another(ground: Ground) -> None:
    granted, other = str(ground.inside / "granted"), str(ground.inside / "other")
    secret = str(ground.inside.parent / "s")
    with listening(granted, other, secret) as (_, neighbour, hidden):
        rules = policy("landlock", allow_write=[str(ground.inside)], unix_sockets=[granted])
        report = caged(program(CONNECT, PLACES, GRANTED=granted, OTHER=other, SECRET=secret), rules)
        assert heard(neighbour) == heard(hidden) == 0
    assert report.differs({"moved in": "EPERM", "gone": "ENOENT", "a link in its place": "EPERM"}) == {}


FLIP = """
    import socket, threading, struct
    going = True
    def links():
        at = 0
        while going:
            os.symlink((GRANTED, SECRET)[at], INSIDE + "/next")
            os.rename(INSIDE + "/next", INSIDE + "/flips")
            at ^= 1
    address = ctypes.create_string_buffer(struct.pack("H108s", 1, os.fsencode(GRANTED)), 110)
    texts = [struct.pack("H108s", 1, os.fsencode(each)) for each in (GRANTED, SECRET)]
    def texts_too():
        while going:
            for each in texts:
                ctypes.memmove(address, each, 110)
    flipped = ctypes.create_string_buffer(struct.pack("H108s", 1, os.fsencode(INSIDE + "/flips")), 110)
    os.symlink(GRANTED, INSIDE + "/flips")
    for each in (links, texts_too):
        threading.Thread(target=each).start()
    done = 0
    for _ in range(TRIES):
        for aim in (address, flipped):
            with socket.socket(socket.AF_UNIX) as mine:
                done += libc.connect(mine.fileno(), aim, 110) == 0
    going = False
    say("reached", done)
"""


@contextmanager
def counting(listener: socket.socket) -> Iterator[list[int]]:
    """Takes all who come, and counts them."""
    seen, over = [0], threading.Event()
    listener.settimeout(0.05)

    def serve() -> None:
        while not over.is_set():
            try:
                listener.accept()[0].close()
                seen[0] += 1
            except TimeoutError:
                continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
        listener.setblocking(False)
        seen[0] += heard(listener)


def test_links_and_addresses_that_are_swapped_reach_nothing_else(ground: Ground) -> None:
    granted, secret = str(ground.inside.parent / "granted"), str(ground.inside.parent / "secret")
    names = {"GRANTED": granted, "SECRET": secret, "INSIDE": str(ground.inside)}
    with listening(granted, secret) as (open_one, hidden):
        with counting(open_one), counting(hidden) as seen:
            uncaged(program(FLIP, TRIES=500, **names))
        assert seen[0] > 0
        (ground.inside / "flips").unlink()
        rules = policy("landlock", allow_write=[str(ground.inside)], unix_sockets=[granted])
        with counting(open_one), counting(hidden) as seen:
            report = caged(program(FLIP, TRIES=500, **names), rules)
    assert report["reached"].value > 0
    assert seen[0] == 0


TWO = """
    attempt("one", connect, ONE)
    attempt("two", connect, TWO)
"""


def test_one_cage_s_socket_is_not_another_s(ground: Ground) -> None:
    one, two = str(ground.inside / "one"), str(ground.inside / "two")
    tree = [str(ground.inside)]
    attack = program(CONNECT, TWO, ONE=one, TWO=two)
    with (
        listening(one, two),
        Cage(policy("landlock", allow=tree, unix_sockets=[one])) as first,
        Cage(policy("landlock", allow=tree, unix_sockets=[two])) as second,
        Cage(policy("landlock", allow=tree)) as third,
    ):
        assert in_cage(first, attack).differs({"one": None, "two": "EPERM"}) == {}
        assert in_cage(second, attack).differs({"one": "EPERM", "two": None}) == {}
        assert in_cage(third, attack).differs({"one": "EPERM", "two": "EPERM"}) == {}


TAKE = """
    import socket
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(GRANTED)
    given = socket.socket(fileno=socket.recv_fds(peer, 9, 1)[1][0])
    attempt("what the peer gave", lambda: given.recv(9))
    attempt("turned elsewhere", given.connect, SECRET)
"""


def test_what_the_granted_peer_hands_over_is_had_and_leads_nowhere_else(ground: Ground) -> None:
    """A datagram socket that it made could be aimed anew."""
    granted, secret = str(ground.inside / "granted"), str(ground.inside / "secret")

    def give(listener: socket.socket) -> None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with listener.accept()[0] as peer, mine, theirs:
            mine.send(b"word")
            socket.send_fds(peer, [b"x"], [theirs.fileno()])
            peer.recv(9)

    with listening(granted) as (listener,), listening(secret, kind=socket.SOCK_DGRAM):
        listener.settimeout(30)
        giver = threading.Thread(target=give, args=(listener,))
        giver.start()
        rules = policy("landlock", allow=[str(ground.inside)], unix_sockets=[granted])
        report = caged(program(TAKE, GRANTED=granted, SECRET=secret), rules)
        giver.join()
    assert report.differs({"what the peer gave": None, "turned elsewhere": "EPERM"}) == {}


LONG = """
    import socket
    def connect(size):
        with socket.socket(socket.AF_UNIX) as mine:
            if libc.connect(mine.fileno(), array, ctypes.c_uint(size)) < 0:
                raise OSError(ctypes.get_errno(), "")
    array = b"\\x01\\0" + b"a" * 200
    for size in (111, 127, 128, 129, 3, 2, 0):
        attempt(str(size), connect, size)
"""


@pytest.mark.parametrize("isolation", ["landlock", "full"])
def test_an_address_longer_than_there_is_room_for_is_an_error(isolation: str, ground: Ground) -> None:
    granted = str(ground.inside / "granted")
    with listening(granted):
        asked = {"landlock": {"unix_sockets": [granted]}, "full": {"allow_ips": ["192.0.2.1:9"]}}
        with Cage(policy(isolation, **asked[isolation])) as cage:
            reports = [in_cage(cage, program(LONG)) for _ in range(2)]
    wrong = dict.fromkeys(("111", "127", "128", "129", "2", "0"), "EINVAL")
    for report in reports:
        assert report.differs({**wrong, "3": "ENOENT"}) == {}


def test_a_callback_gives_no_port_of_the_host() -> None:
    """It decides after the list, and what it lets go on is done outside of Landlock."""
    attack = program('import socket\nattempt("bind", lambda: socket.socket().bind(("127.0.0.1", 0)))')
    assert uncaged(attack)["bind"].errno is None
    with Cage(policy("landlock"), policy_fn=lambda event, context: None, watch=["network"]) as cage:
        report = in_cage(cage, attack)
    assert report.differs({"bind": "EACCES"}) == {}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no notifier": ({"notifier": False}, "decided at run time"),
    "strict": ({"strict": True}, "leaves open"),
    "a ring": ({"allow_syscalls": ("io_uring_setup",)}, "io_uring"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_undo_it_is_refused(name: str, ground: Ground) -> None:
    granted, (options, message) = str(ground.inside / "granted"), REFUSED[name]
    with listening(granted), pytest.raises((pysandbox.PolicyError, pysandbox.UnsupportedError), match=message):
        pysandbox.run(["/bin/true"], policy("landlock", unix_sockets=[granted], **options))


def test_a_denial_wins(ground: Ground) -> None:
    granted = str(ground.inside / "granted")
    with listening(granted) as (listener,):
        rules = policy("landlock", unix_sockets=[granted], deny=[granted])
        report = caged(program(CONNECT, 'attempt("denied", connect, GRANTED)', GRANTED=granted), rules)
        assert heard(listener) == 0
    assert report.differs({"denied": "EPERM"}) == {}


def test_nothing_is_kept_of_a_cage_that_has_ended(ground: Ground) -> None:
    granted = str(ground.inside / "granted")

    def held() -> int:
        links = (f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd"))
        return sum(os.path.islink(each) and os.readlink(each) == granted for each in links)

    with listening(granted):
        with Cage(policy("landlock", unix_sockets=[granted])) as cage:
            assert cage.run(["/bin/true"]).exit_code == 0
            assert held() == 1
        assert wait_until(lambda: held() == 0, PATIENCE)
