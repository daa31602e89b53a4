"""Claim: whatever the reader of the doors says, it is given what the policy of the cage that it names allows, and no
connection to a host with a contract. What makes no sense ends it, and its end closes the doors."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from _support.admitted import admitted, runtime_of_cages
from pysandbox.compile.plan import Contract, HostGrant, InspectionPlan
from pysandbox.gate import reader as host_side
from pysandbox.policy.names import HOST_ALIAS
from pysandbox.shapes import replace

from .harness import wait_until

STAND_IN = r"""
import array, json, os, socket, struct, sys, time
channel = socket.socket(fileno=int(sys.argv[1]))
(CAGE, DOOR, SHUT, RULES, ENDED, PING, DIALLED, REFUSED, FAILED, ANSWERED, BOOKED, OVER, CUT, DIAL, LOOKUP, DENIED,
 GIVE_UP, SPLICE, SAY, RELEASE, INSPECT, LET_GO, NOTE_REFUSED, NOTE_LOST, CROWDED, READY, PONG) = range(1, 28)
def said(kind, number, *fields, count=None):
    fields = [each if isinstance(each, bytes) else str(each).encode() for each in fields]
    packed = b"".join(struct.pack("!I", len(each)) + each for each in fields)
    return struct.pack("!BQB", kind, number, len(fields) if count is None else count) + packed
def say(*arguments, fds=(), **named):
    socket.send_fds(channel, [said(*arguments, **named)], list(fds))
def heard():
    record, fds, _, _ = socket.recv_fds(channel, 1 << 18, 4)
    if not record: sys.exit()
    kind, number, count = struct.unpack_from("!BQB", record)
    at, fields = 10, []
    for _ in range(count):
        size = struct.unpack_from("!I", record, at)[0]
        fields.append(record[at + 4 : at + 4 + size]); at += 4 + size
    return kind, number, fields, fds
def answer(*asked, **named):
    say(*asked, **named)
    while True:
        kind, number, fields, fds = heard()
        if DIALLED <= kind <= BOOKED and number == asked[1]:
            return kind, fields, fds
        if kind == PING: say(PONG, number)
def dial(host, port, call=1, cage=None):
    return answer(DIAL, call, CAGE_NUMBER if cage is None else cage, host, port, b"")
def tell(*what):
    print(json.dumps(what), flush=True)
def at(fd):
    sock = socket.socket(fileno=fd)
    return sock.getpeername()[1] if sock.family == socket.AF_INET else "a pair"
PORT = int(sys.argv[2])
say(READY, 0)
while True:
    kind, number, fields, fds = heard()
    if kind == CAGE: CAGE_NUMBER = number
    if kind == DOOR: break
exec(sys.argv[3])
while True:
    kind, number, fields, fds = heard()
    if kind == PING: say(PONG, number)
"""


class StandIn:
    """Takes the place of readers. `tells` are the lines of the one that was started last."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, port: int) -> None:
        self.lie, self.port, self.started = "", port, 0
        self.all: list[subprocess.Popen[bytes]] = []
        self._processes: queue.SimpleQueue[subprocess.Popen[bytes]] = queue.SimpleQueue()
        monkeypatch.setattr(host_side.confined, "start", self._start)

    def _start(self, _: str, fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
        self.started += 1
        argv = [sys.executable, "-c", STAND_IN, str(fds[0]), str(self.port), self.lie]
        process = host_side.confined.ConfinedProcess(argv, pass_fds=fds, stdout=subprocess.PIPE)
        self._processes.put(process)
        return process

    def wait(self) -> None:
        """Returns when the next one has been started: `process`."""
        self.process = self._processes.get(timeout=20)
        self.all.append(self.process)

    def tells(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())


@pytest.fixture
def runtime() -> Iterator[Any]:
    with runtime_of_cages() as runtime:
        runtime.admitted = []
        yield runtime
        for each in runtime.admitted:
            each.session.end()


@pytest.fixture
def service() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        yield listener


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch, runtime: Any, service: socket.socket) -> Iterator[StandIn]:
    made = StandIn(monkeypatch, service.getsockname()[1])
    yield made
    for each in made.all:
        assert each.stdout is not None
        each.stdout.close()


def lied(runtime: Any, stand_in: StandIn, lie: str, **plan: Any) -> Any:
    stand_in.lie = lie
    live = admitted(runtime, **({"loopback": (stand_in.port,)} | plan))
    runtime.admitted.append(live)
    live.knocks()
    stand_in.wait()
    return live


def is_reached(service: socket.socket) -> bool:
    try:
        service.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def test_what_the_policy_allows_is_given(runtime: Any, stand_in: StandIn, service: socket.socket) -> None:
    """The control."""
    live = lied(runtime, stand_in, f"kind, fields, fds = dial({HOST_ALIAS!r}, PORT); tell(kind == DIALLED, at(fds[0]))")
    assert stand_in.tells() == [True, stand_in.port]
    assert is_reached(service) and live.session.ledger.counts["gatekeeper.tcp_allowed"] == 1


@pytest.mark.parametrize(
    "where",
    ["'127.0.0.1', PORT", "'localhost', PORT", "'169.254.169.254', 80", "'10.0.0.1', PORT", "'evil.example', 443",
     f"{HOST_ALIAS!r}, PORT + 1", "'::1', PORT", "'::ffff:127.0.0.1', PORT", "'0.0.0.0', PORT", "'0x7f.1', PORT"],
)  # fmt: skip
def test_whatever_else_it_asks_for_is_refused_and_recorded(
    runtime: Any, stand_in: StandIn, service: socket.socket, where: str
) -> None:
    live = lied(runtime, stand_in, f"kind, fields, fds = dial({where}); tell(kind == REFUSED, len(fds))")
    assert stand_in.tells() == [True, 0]
    assert not is_reached(service)
    assert [each.kind for each in live.session.denials()] == ["tcp"]


def test_no_name_is_asked_for_that_no_rule_allows(runtime: Any, stand_in: StandIn) -> None:
    asked = "b'\\4evil\\7example'"
    live = lied(
        runtime, stand_in,
        f"kind, fields, _ = answer(LOOKUP, 1, CAGE_NUMBER, 7, 1, 1, {asked} + b'\\0\\0\\1\\0\\1', {asked}, b'');"
        "tell(kind == ANSWERED, fields[0][3] & 15)",
    )  # fmt: skip
    assert stand_in.tells() == [True, 3]
    assert [(each.kind, each.target) for each in live.session.denials()] == [("dns", "evil.example")]


def test_after_the_rules_were_tightened_nothing_is_left(
    runtime: Any, stand_in: StandIn, service: socket.socket
) -> None:
    """What it has is cut, whatever it keeps, and it gets nothing new."""
    live = lied(
        runtime, stand_in,
        f"kind, fields, fds = dial({HOST_ALIAS!r}, PORT); kept = socket.socket(fileno=fds[0]); kept.send(b'one');"
        "tell(kind == DIALLED); heard()\n"
        f"try: tell(kept.send(b'two'))\nexcept OSError as error: tell(type(error).__name__)\n"
        f"tell(dial({HOST_ALIAS!r}, PORT, 2)[0] == REFUSED)",
    )  # fmt: skip
    assert stand_in.tells() == [True]
    service.setblocking(True)
    with service.accept()[0] as there:
        assert live.session.tighten(()) == 1
        assert stand_in.tells() in (["BrokenPipeError"], ["ConnectionResetError"], ["ConnectionAbortedError"])
        assert stand_in.tells() == [True]
        there.settimeout(10)
        try:
            assert there.recv(99) in (b"one", b"") and there.recv(99) == b""
        except ConnectionResetError:
            pass


def test_what_it_lets_go_of_is_of_no_use_to_it(runtime: Any, stand_in: StandIn, service: socket.socket) -> None:
    """It keeps a duplicate, which nobody would find when the rules are tightened. The control: it works until then."""
    live = lied(
        runtime, stand_in,
        f"kind, fields, fds = dial({HOST_ALIAS!r}, PORT); kept = socket.socket(fileno=fds[0]); kept.send(b'one');"
        "say(LET_GO, int(fields[0])); kept.settimeout(20); tell(kind == DIALLED, kept.recv(1).decode())\n"
        "for each in range(2):\n try: sent = kept.send(b'two')\n except OSError: sent = 'over'\ntell(sent)\n"
        "say(SPLICE, int(fields[0]), 0, b'three', fds=[os.dup(fds[0])])",
    )  # fmt: skip
    assert stand_in.tells() == [True, ""]
    assert stand_in.tells() == ["over"]
    service.setblocking(True)
    with service.accept()[0] as there:
        there.settimeout(20)
        assert everything(there) in (b"one", b"")
    assert len(live.session.connections) == 0
    assert wait_until(lambda: live.session.descriptors.taken == 0, 20)


def test_it_has_no_connection_to_a_host_with_a_contract(
    runtime: Any, stand_in: StandIn, service: socket.socket
) -> None:
    """It cannot hand one over as if there were none, either."""
    live = lied(
        runtime, stand_in,
        f"tell('ready'); heard(); kind, fields, fds = dial({HOST_ALIAS!r}, PORT); tell(kind == DIALLED, at(fds[0]));"
        "say(SPLICE, int(fields[0]), 0, b'DELETE / HTTP/1.1\\r\\n\\r\\n', fds=[os.dup(fds[0])])",
    )  # fmt: skip
    assert stand_in.tells() == ["ready"]  # what it hears next are the rules
    held = HostGrant(HOST_ALIAS, (stand_in.port,), False, Contract(methods=("GET",)))
    live.session.net = replace(live.session.net, inspection=InspectionPlan(1000, 1))
    live.session.rules = replace(live.session.rules, hosts=(held,))
    live.keeper.reader.tell_rules(live.session)
    assert stand_in.tells() == [True, "a pair"]
    assert wait_until(partial(has_failed, runtime), 20)
    service.setblocking(True)
    with service.accept()[0] as there:
        there.settimeout(10)
        assert heard_of(there) == b""
    assert len(live.session.connections) == 0


def heard_of(there: socket.socket) -> bytes:
    try:
        return there.recv(99)
    except ConnectionResetError:
        return b""


def everything(there: socket.socket) -> bytes:
    said = b""
    while more := heard_of(there):
        said += more
    return said


def has_failed(runtime: Any) -> bool:
    return any(each.type == "gatekeeper.failed" for each in runtime.events)


GARBAGE = {
    "half a head": "channel.send(b'abc')",
    "no kind": "say(0, 0)",
    "an unknown kind": "say(200, 0)",
    "fewer fields than it has": "say(DIAL, 1, 1)",
    "a field that ends early": "channel.send(said(CROWDED, 1, b'descriptors', 1)[:-1])",
    "bytes after it": "channel.send(said(PONG, 1) + b'x')",
    "250 descriptors": "say(PONG, 1, fds=[0] * 250)",
    "a descriptor too many": "say(PONG, 1, fds=[0])",
    "a missing descriptor": "say(SPLICE, 1, 0, b'')",
    "a record of the host's": "say(PING, 1)",
    "a cage that is no number": "say(DIAL, 1, b'x', b'a', 1, b'')",
    "a port that is none": "say(DIAL, 1, CAGE_NUMBER, b'a', 70000, b'')",
    "a peer that is none": "say(DIAL, 1, CAGE_NUMBER, b'a', 1, b'udp /etc/passwd 1')",
    "a call twice": f"[say(DIAL, 1, CAGE_NUMBER, {HOST_ALIAS!r}, PORT, b'') for _ in range(9)]",
    "a kind of refusal that is none": "say(DENIED, 1, CAGE_NUMBER, 'x', 'y', 1, '', b'')",
    "a name that is none": "say(LOOKUP, 1, CAGE_NUMBER, 7, 1, 1, b'', b'\\77a', b'')",
    "a resource that is none": "say(CROWDED, CAGE_NUMBER, 'x', 1)",
    "a descriptor that is no socket": "say(SPLICE, 1, 0, b'', fds=[0])",
    "its end, while it lives": "channel.shutdown(socket.SHUT_WR); time.sleep(60)",
}


@pytest.mark.parametrize("lie", sorted(GARBAGE))
def test_what_makes_no_sense_ends_it_and_closes_the_doors(
    runtime: Any, stand_in: StandIn, service: socket.socket, lie: str
) -> None:
    live = lied(runtime, stand_in, GARBAGE[lie])
    assert wait_until(partial(has_failed, runtime), 20)
    assert stand_in.process.wait(10) is not None
    assert wait_until(partial(is_shut, live), 10)
    assert lied(runtime, stand_in, "tell('another')") and stand_in.started == 2
    assert stand_in.tells() == ["another"]


def is_shut(live: Any) -> bool:
    try:
        with socket.socket(type=socket.SOCK_DGRAM) as client:
            client.connect(live.place)
            client.send(b"x")
            client.settimeout(0.2)
            client.recv(1)
    except ConnectionRefusedError:
        return True
    except TimeoutError:
        return False
    return False


def test_what_it_says_of_cages_and_connections_that_it_does_not_have_is_nothing(
    runtime: Any, stand_in: StandIn, service: socket.socket
) -> None:
    live = lied(
        runtime, stand_in,
        f"tell(dial({HOST_ALIAS!r}, PORT, cage=99)[0] == FAILED)\n"
        "for kind in (SAY, RELEASE): say(kind, 5, b'x')\n"
        "say(LET_GO, 77); say(GIVE_UP, 9); say(NOTE_REFUSED, 99, '1.2.3.4', 5); say(SHUT, 1234)\n"
        "a, b = socket.socketpair(); say(SPLICE, 5, 0, b'x', fds=[a.fileno()])\n"
        f"tell(dial({HOST_ALIAS!r}, PORT, 3)[0] == DIALLED)",
    )  # fmt: skip
    assert stand_in.tells() == [True] and stand_in.tells() == [True]
    assert live.session.denials() == () and not has_failed(runtime)


def test_a_refusal_that_it_makes_up_suggests_no_line_for_a_policy(runtime: Any, stand_in: StandIn) -> None:
    words = "'also]\\nhost = [{domain=\"*\"}]\\x1b[31m'"
    live = lied(
        runtime, stand_in,
        f"tell(answer(DENIED, 1, CAGE_NUMBER, 'tcp', {words}, 443, {words}, b'')[0] == BOOKED)",
    )  # fmt: skip
    assert stand_in.tells() == [True]
    (denial,) = live.session.denials()
    assert denial.fix == "" and "\n" not in denial.target + denial.rule and "\x1b" not in denial.target + denial.rule


def test_a_flood_of_calls_is_bounded_and_answered(runtime: Any, stand_in: StandIn) -> None:
    lied(
        runtime, stand_in,
        "for n in range(1, 5001): say(DIAL, n, CAGE_NUMBER, 'evil.example', 443, b'')\n"
        "got = set()\nwhile len(got) < 5000:\n    got.add(heard()[1])\ntell(len(got))",
    )  # fmt: skip
    assert stand_in.tells() == [5000]
    assert not has_failed(runtime)


def test_one_that_does_not_answer_is_ended(runtime: Any, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_side, "PATIENCE", 0.3)
    live = lied(runtime, stand_in, "tell(1); time.sleep(600)")
    assert stand_in.tells() == [1]
    assert live.session.denials() == ()
    assert stand_in.process.wait(10) == -signal.SIGKILL
    assert wait_until(partial(has_failed, runtime), 10) and is_shut(live)


def test_stopped_it_keeps_nothing_that_was_taken(runtime: Any, stand_in: StandIn, service: socket.socket) -> None:
    live = lied(runtime, stand_in, f"kind, _, fds = dial({HOST_ALIAS!r}, PORT); tell(kind == DIALLED)")
    assert stand_in.tells() == [True]
    service.setblocking(True)
    with service.accept()[0] as there:
        os.kill(stand_in.process.pid, signal.SIGSTOP)
        assert live.session.tighten(()) == 1
        there.settimeout(10)
        assert heard_of(there) == b""
