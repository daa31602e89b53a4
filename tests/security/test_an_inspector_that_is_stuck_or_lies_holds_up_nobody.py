"""Claim: an inspector that is stuck, or says what makes no sense, is ended and replaced once, its connections are cut,
and nobody waits for it: not who asks for a Result, not who opens a cage. What it lies reaches no file and no other
cage's ledger."""

from __future__ import annotations

import os
import signal
import ssl
from functools import partial
from pathlib import Path

import pytest

from _support.inspected import Asking, Server, ask, inspector_process, request, tls_server, wait_for_another
from pysandbox.compile.plan import Contract
from pysandbox.events import Event
from pysandbox.gate import inspector as host_side

from .harness import wait_until

GET = Contract(methods=("GET",))
STUCK_FOR = 0.3  # seconds between two questions; five unanswered are too many

STAND_IN = r"""
import array, os, socket, struct, sys, time
channel = socket.socket(fileno=int(sys.argv[1]))
os.write(int(sys.argv[2]), b"")
def said(kind, number, *fields, count=None):
    packed = b"".join(struct.pack("!I", len(each)) + each for each in fields)
    return struct.pack("!BQB", kind, number, len(fields) if count is None else count) + packed
def say(*arguments, **named):
    channel.send(said(*arguments, **named))
PLAN, OPEN, CUT, PING, READY, AUTHORITY, REFUSED, UNTRUSTED, UPSTREAM, OVER, PONG = range(1, 12)
PEM = {pem!r}
def lie(number):
    {lie}
say(READY, 0)
while record := channel.recv(1 << 18):  # the descriptors that come with it are closed
    kind, number, _ = struct.unpack_from("!BQB", record)
    if kind == PLAN:
        say(AUTHORITY, number, PEM)
    elif kind == PING and not {mute}:
        say(PONG, number)
    elif kind == OPEN:
        lie(number)
"""
GARBAGE = {
    "half a head": "channel.send(b'abc')",
    "no kind": "say(0, 0)",
    "an unknown kind": "say(200, number)",
    "fewer fields than it has": "say(REFUSED, number, b'a', b'b')",
    "a field that ends early": "channel.send(said(OVER, number, b'0')[:-1])",
    "bytes after it": "channel.send(said(OVER, number, b'0') + b'x')",
    "250 descriptors": "socket.send_fds(channel, [said(PONG, 0)], [0] * 250)",
    "a record of the host's": "say(PING, 1)",
    "an authority that nobody asked for": "say(AUTHORITY, 1, PEM)",
    "an authority of nothing": "say(AUTHORITY, 999, PEM)",
    "its end, while it lives": "channel.shutdown(socket.SHUT_WR); time.sleep(60)",
}
IDLE = {
    "a number that was never used": "say(OVER, 999, b'0'); say(REFUSED, 999, *[b'x'] * 5); say(UPSTREAM, 0, b'x')",
    "answers to questions that nobody asked": "say(PONG, 2 ** 63)",
    "descriptors that nobody wants": "[socket.send_fds(channel, [said(READY, 0)], [0] * 4) for _ in range(50)]",
}
MUTE = {
    "it reads nothing": "time.sleep(60)",
    "it counts for ever": "\n    while True: pass",
    "it says much and answers nothing": "\n    while True: say(REFUSED, number, *[b'methods'] * 5)",
}


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return tls_server(tmp_path, Server)


def stand_in(monkeypatch: pytest.MonkeyPatch, pem: Path, lie: str, mute: bool = False) -> None:
    script = STAND_IN.replace("{lie}", lie).replace("{mute}", str(mute)).replace("{pem!r}", repr(pem.read_bytes()))
    monkeypatch.setattr(host_side.confined, "STARTER", script)


def replaced(events: list[Event], asking: Asking, times: int) -> bool:
    return len(events) == len(asking.ended) == times


def has_told(events: list[Event], times: int) -> bool:
    return len(events) == times


def refused_by_a_cut(asking: Asking, server: Server) -> None:
    with pytest.raises(OSError), asking.client(server):
        pass


@pytest.mark.parametrize("held", [False, True], ids=["idle", "with a connection"])
def test_stopped_it_is_replaced_once_and_nobody_waits(
    held: bool, server: Server, tmp_path: Path, events: list[Event]
) -> None:
    with inspector_process(events, STUCK_FOR) as inspector:
        asking = Asking(inspector, GET, str(tmp_path / "api.example.pem"))
        with asking.client(server) as tls:
            assert ask(tls, request()).endswith(b"hello")  # the control
            stopped = inspector.process
            assert stopped is not None
            if held:
                stop(stopped.pid)
                tls.sendall(request())
                assert read(tls) == b""  # cut
        if not held:
            assert wait_until(lambda: len(asking.ended) == 1, 10)
            asking.ended.clear()
            stop(stopped.pid)
            refused_by_a_cut(asking, server)
        assert wait_until(partial(replaced, events, asking, 1), 10)
        assert asking.refused() == []  # returns
        assert stopped.poll() == -signal.SIGKILL and "silent" in str(events[0].data["reason"])
        wait_for_another(inspector, asking.net)
        with asking.client(server) as tls:
            assert ask(tls, request()).endswith(b"hello")
            assert ask(tls, request("DELETE")).startswith(b"HTTP/1.1 415")


def test_a_cage_that_is_opened_meanwhile_trusts_the_next_one(
    server: Server, tmp_path: Path, events: list[Event]
) -> None:
    with inspector_process(events, STUCK_FOR) as inspector:
        Asking(inspector, GET, str(tmp_path / "api.example.pem"))
        assert inspector.process is not None
        stop(inspector.process.pid)
        other = Asking(
            inspector, Contract(methods=("PUT",)), str(tmp_path / "api.example.pem")
        )  # waits, and is not refused
        assert len(events) == 1
        with other.client(server) as tls:
            assert ask(tls, request("PUT")).endswith(b"hello")


@pytest.mark.parametrize("lie", GARBAGE)
def test_garbage_ends_it_and_is_followed_by_one_more(
    lie: str, server: Server, tmp_path: Path, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    with inspector_process(events) as inspector:
        stand_in(monkeypatch, tmp_path / "api.example.pem", GARBAGE[lie])
        asking = Asking(inspector, GET, str(tmp_path / "api.example.pem"))
        descriptors = open_descriptors()
        before = Path(asking.trusted).read_bytes()
        for times in (1, 2):
            liar = inspector.process
            refused_by_a_cut(asking, server)
            assert wait_until(partial(has_told, events, times), 20)
            assert liar is not None and liar.poll() is not None
            if times == 1:
                wait_for_another(inspector, asking.net)
        assert asking.refused() == []
        added = Path(asking.trusted).read_bytes().removeprefix(before)
        assert added.count(b"BEGIN") == 1  # the second one's: what was asked for
        with pytest.raises(OSError, match="not started again"):
            inspector.trust(asking.net)
        assert wait_until(lambda: open_descriptors() <= descriptors, 10)


@pytest.mark.parametrize("lie", IDLE)
def test_what_means_nothing_changes_nothing(
    lie: str, server: Server, tmp_path: Path, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    with inspector_process(events) as inspector:
        stand_in(monkeypatch, tmp_path / "api.example.pem", f"{IDLE[lie]}; say(OVER, number, b'1')")
        asking = Asking(inspector, GET, str(tmp_path / "api.example.pem"))
        descriptors = open_descriptors()
        refused_by_a_cut(asking, server)
        assert wait_until(lambda: asking.ended == [True], 20)
        assert (asking.refused(), events) == ([], [])
        assert wait_until(lambda: open_descriptors() <= descriptors, 10)


@pytest.mark.parametrize("lie", MUTE)
def test_one_that_answers_nothing_is_ended_whatever_else_it_does(
    lie: str, server: Server, tmp_path: Path, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    with inspector_process(events, 0.05) as inspector:
        stand_in(monkeypatch, tmp_path / "api.example.pem", MUTE[lie], mute=True)
        asking = Asking(inspector, GET, str(tmp_path / "api.example.pem"))
        refused_by_a_cut(asking, server)
        assert wait_until(lambda: asking.ended == [True], 20)
        assert wait_until(lambda: "silent" in str(events[0].data["reason"]), 20)
        assert all(rule == "host.methods" for _, rule in asking.refused())


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def read(tls: ssl.SSLSocket) -> bytes:
    try:
        return tls.recv(65536)
    except ConnectionResetError:
        return b""


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
