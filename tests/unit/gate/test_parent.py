"""The parent proxy at the gatekeeper: what is asked of it, what opens a tunnel, and what a refusal says."""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest

from _support.gate import admitted, net_plan, upstream
from _support.nameserver import A, NameServer
from pysandbox.events import Event
from pysandbox.gate.tcp import parent as gate_parent
from pysandbox.gate.tcp.dial import dial
from pysandbox.gate.tcp.target import Denied, DialTarget, Unreachable
from pysandbox.policy.endpoint import parse_endpoint
from pysandbox.policy.parent import ParentProxy

OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"
ASKED = DialTarget("a.example", 443)


class LyingProxy:
    """Answers every connection with these pieces, one after the other; `asked` is what it was told."""

    def __init__(self, *pieces: bytes, hangs_up: bool = False) -> None:
        self.asked: list[bytes] = []
        self._pieces, self._hangs_up = pieces, hangs_up
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._serving = threading.Thread(target=self._serve)
        self._serving.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open.append(near)
                said = b""
                while b"\r\n\r\n" not in said and (part := near.recv(65536)):
                    said += part
                self.asked.append(said)
                for each in self._pieces:
                    near.sendall(each)
                if self._hangs_up:
                    near.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for each in (*self._open, self._listener):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._serving.join(10)
        for each in (*self._open, self._listener):
            each.close()


@contextmanager
def lying(*pieces: bytes, hangs_up: bool = False) -> Iterator[LyingProxy]:
    with closing(LyingProxy(*pieces, hangs_up=hangs_up)) as proxy:
        yield proxy


def net_behind(
    proxy: LyingProxy, *patterns: str, variable: str = "", without: tuple[str, ...] = (), **more: Any
) -> Any:
    parent = ParentProxy("127.0.0.1", proxy.port, variable, without)
    return net_plan(*(patterns or ("a.example",)), parent=parent, **more)


def dialled(
    net: Any, target: DialTarget = ASKED, events: list[Event] | None = None,
    then: Callable[[socket.socket], object] = lambda _: None, servers: tuple[str, ...] = (),
) -> None:  # fmt: skip
    async def attempt() -> None:
        session = admitted(net, upstream(*servers), [] if events is None else events)
        with closing(await dial(session, target)) as connected:
            connected.setblocking(True)
            connected.settimeout(10)
            await asyncio.to_thread(then, connected)

    asyncio.run(attempt())


def test_a_name_is_asked_of_the_parent_and_resolved_by_nobody_here() -> None:
    """The only name server is one that does not answer."""
    events: list[Event] = []
    with lying(OPENED) as proxy:
        dialled(net_behind(proxy), events=events)
        assert proxy.asked == [b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n"]
    assert [each.type for each in events] == ["gatekeeper.tcp_allowed"]


def test_what_follows_the_answer_is_the_servers_and_whole() -> None:
    """A server that speaks first: its words come in the same segment as the end of the head."""
    heard: list[bytes] = []

    def hear(connected: socket.socket) -> None:
        while len(b"".join(heard)) < 13:
            heard.append(connected.recv(100))

    for pieces in ((OPENED + b"220 welcome\r\n",), tuple(bytes((each,)) for each in OPENED + b"220 welcome\r\n")):
        heard.clear()
        with lying(*pieces) as proxy:
            dialled(net_behind(proxy), then=hear)
        assert b"".join(heard) == b"220 welcome\r\n"


def test_an_interim_answer_is_none() -> None:
    with lying(b"HTTP/1.1 103 Early Hints\r\n\r\n" + OPENED) as proxy:
        dialled(net_behind(proxy))


NONE = {
    "refused": (b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nsecret", "answers 403"),
    "elsewhere": (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", "answers 302"),
    "credentials": (b'HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm="secret"\r\n\r\n', "other credentials"),
    "a page": (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret", "a page, and no connection"),
    "chunks": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "a page, and no connection"),
    "no HTTP": (b"SSH-2.0-secret\r\n\r\n", "makes no sense"),
    "HTTP/2": (b"HTTP/2 200 OK\r\n\r\n", "makes no sense"),
    "a huge head": (b"HTTP/1.1 200 OK\r\n" + b"x: secret\r\n" * 9000, "does not end|makes no sense"),
    "interim without end": (b"HTTP/1.1 100 Continue\r\n\r\n" * 3000, "does not end|makes no sense"),
}


@pytest.mark.parametrize("answer", NONE)
def test_any_other_answer_opens_nothing_and_is_not_repeated(answer: str) -> None:
    said, why = NONE[answer]
    events: list[Event] = []
    with lying(said) as proxy, pytest.raises(Unreachable, match=why) as caught:
        dialled(net_behind(proxy), events=events)
    assert (caught.value.status, caught.value.code) == (502, "parent-refused")
    assert [each.type for each in events] == ["gatekeeper.upstream_unreachable"]
    assert "secret" not in str(caught.value) + str(events)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nx", b"HTTP/1.1 200 OK\r\n\r"])
def test_a_parent_that_hangs_up_opens_nothing(said: bytes) -> None:
    with lying(said, hangs_up=True) as proxy, pytest.raises(Unreachable) as caught:
        dialled(net_behind(proxy))
    assert caught.value.code == "parent-refused"


def test_a_parent_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate_parent, "ANSWER_SECONDS", 0.1)
    with lying(b"HTTP/1.1 200 OK\r\n") as proxy, pytest.raises(Unreachable) as caught:
        dialled(net_behind(proxy))
    assert (caught.value.status, caught.value.code) == (504, "parent-timeout")


def test_a_parent_that_is_not_there_is_told_without_its_name() -> None:
    with lying() as proxy:
        net = net_behind(proxy)
    with pytest.raises(Unreachable, match="the parent proxy is not reached") as caught:
        dialled(net)
    assert "127.0.0.1" not in str(caught.value)


def test_credentials_are_sent_to_the_parent_and_told_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARENT_LOGIN", "me:hunter2:x")
    events: list[Event] = []
    with lying(OPENED) as proxy:
        net = net_behind(proxy, variable="PARENT_LOGIN")
        dialled(net, events=events)
        wanted = base64.b64encode(b"me:hunter2:x")
        assert b"Proxy-Authorization: Basic " + wanted + b"\r\n" in proxy.asked[0]
    assert not any(each in repr((net, events)) for each in ("hunter2", wanted.decode()))


@pytest.mark.parametrize("value", ["hunter2", "", "me:hunter2\r\nx: y", "me:" + "hunter2" * 200])
def test_what_is_no_credentials_is_not_sent_and_not_repeated(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARENT_LOGIN", value)
    events: list[Event] = []
    with lying(OPENED) as proxy:
        with pytest.raises(Unreachable, match="PARENT_LOGIN") as caught:
            dialled(net_behind(proxy, variable="PARENT_LOGIN"), events=events)
        assert "hunter2" not in str(caught.value) + str(events)
        assert not any(proxy.asked)


def test_names_that_need_no_parent_are_dialled_and_checked_as_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, lying(OPENED) as proxy:
        port = there.getsockname()[1]
        with NameServer({("in.example", A): ["127.0.0.1"]}, ttl=0) as server:
            net = net_behind(proxy, "in.example", without=("in.example",), ips=(f"127.0.0.1:{port}",))
            dialled(net, DialTarget("in.example", port), servers=(server.place,))
            with pytest.raises(Denied):
                dialled(net, DialTarget("in.example", port + 1), servers=(server.place,))
        assert proxy.asked == []


def test_only_what_the_policy_names_is_asked_of_the_parent() -> None:
    with lying(OPENED) as proxy:
        net = net_behind(proxy, ports=(443,), ips=("0.0.0.0/0",), loopback=(1,))
        refused = [("b.example", 443), ("a.example", 25), ("127.0.0.1", proxy.port), ("198.18.0.1", 443)]
        for host, port in refused:
            with pytest.raises(Denied):
                dialled(net, DialTarget(host, port))
        assert proxy.asked == []


def test_the_parent_itself_is_reached_by_no_name() -> None:
    with lying(OPENED) as proxy:
        parent = ParentProxy("proxy.example", proxy.port, "", ("in.example",))
        with pytest.raises(Denied) as caught:
            dialled(net_plan("**.example", parent=parent), DialTarget("proxy.example", proxy.port))
        assert caught.value.decision.rule == "proxy.parent"
        with NameServer({("in.example", A): ["127.0.0.1"]}, ttl=0) as server:
            net = net_behind(proxy, "in.example", without=("in.example",), ips=("127.0.0.1",))
            with pytest.raises(Denied) as caught:
                dialled(net, DialTarget("in.example", proxy.port), servers=(server.place,))
        assert caught.value.decision.rule == "proxy.parent" and proxy.asked == []


def test_a_named_parent_is_resolved_by_the_host_wherever_it_is() -> None:
    with lying(OPENED) as proxy, NameServer({("proxy.example", A): ["127.0.0.1"]}, ttl=0) as server:
        parent = ParentProxy("proxy.example", proxy.port, "", ())
        dialled(net_plan("a.example", parent=parent), servers=(server.place,))
        assert len(proxy.asked) == 1 and {each[0] for each in server.asked} == {"proxy.example"}


def test_what_is_tightened_to_addresses_is_left_nothing_behind_a_parent() -> None:
    """Where a tunnel leads to is not known here, so it is none of them."""

    async def attempt(proxy: LyingProxy) -> None:
        session = admitted(net_behind(proxy), upstream(), [])
        cut: list[bool] = []
        with closing(await dial(session, ASKED)) as connected:
            session.connections.register(ASKED, connected, lambda: cut.append(True))
            with session.lock:
                assert session._tighten((parse_endpoint("0.0.0.0/0"),)) == 1
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            with pytest.raises(Denied):
                await dial(session, ASKED)
        assert cut == [True]

    with lying(OPENED) as proxy:
        asyncio.run(attempt(proxy))
        assert len(proxy.asked) == 1
