"""Claim: a cage that may reach one name reaches nothing else by names: no other spelling, no other resolver, no record
that carries bytes, and not the host itself when that name is made to mean it."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from _support.nameserver import TXT, A, NameServer
from pysandbox import Cage
from pysandbox.events import Event
from pysandbox.policy.host import HostRule
from pysandbox.runtime.runtime import Runtime

from .harness import in_cage, policy, program

ASK = """
    import socket, struct
    def ask(name, kind, server=("198.18.0.1", 53), tcp=False):
        labels = b"".join(bytes([len(each)]) + each for each in name.split(b"."))
        asked = struct.pack("!6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\\0" + struct.pack("!2H", kind, 1)
        with socket.socket(type=socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as mine:
            mine.settimeout(10)
            mine.connect(server)
            if tcp:
                mine.sendall(struct.pack("!H", len(asked)) + asked)
                answer = mine.recv(4096)[2:]
            else:
                mine.send(asked)
                answer = mine.recv(4096)
        return [answer[3] & 15, struct.unpack("!H", answer[6:8])[0]]
    def reach(host, port=PORT):
        with socket.create_connection((host, port), 10) as there:
            return there.recv(16).decode()
"""

ANYBODY = """
    attempt("control", ask, b"allowed.test", 1)
    attempt("text of an allowed name", ask, b"allowed.test", 16)
    attempt("text of another", ask, b"secret.evil.test", 16)
    attempt("address of another", ask, b"secret.evil.test", 1)
    attempt("over tcp", ask, b"secret.evil.test", 16, tcp=True)
    attempt("another resolver", ask, b"secret.evil.test", 16, server=("192.0.2.53", 53))
    attempt("another resolver over tcp", ask, b"secret.evil.test", 16, server=("192.0.2.53", 53), tcp=True)
    attempt("below it", ask, b"allowed.test.evil.test", 1)
    attempt("before it", ask, b"evilallowed.test", 1)
"""

REACH = """
    attempt("rebound", reach, "allowed.test")
    for name in ("127.0.0.1", "2130706433", "0x7f.1", "localhost"):
        attempt("own " + name, reach, name)
    attempt("v6", reach, "::1")
"""


@pytest.fixture
def server() -> Iterator[NameServer]:
    text = ["bytes"]
    records = {("allowed.test", A): ["127.0.0.1"], ("allowed.test", TXT): text, ("secret.evil.test", TXT): text}
    with NameServer(records, ttl=0) as server:
        yield server


def test_no_record_of_any_name_carries_bytes_and_only_the_allowed_one_is_asked_for(server: NameServer) -> None:
    events: list[Event] = []
    runtime = Runtime(sink=events.append, nameservers=[server.place])
    allowed = policy(egress="proxy-only", hosts=[HostRule(domain="allowed.test")])
    with Cage(allowed, runtime=runtime) as cage:
        report = in_cage(cage, program(ASK + ANYBODY, PORT=1))
    runtime.drain()

    assert report["control"].value == [0, 1]
    assert report["text of an allowed name"].value == [0, 0]
    others = ("text of another", "address of another", "over tcp", "another resolver", "another resolver over tcp",
              "below it", "before it")  # fmt: skip
    assert {name: report[name].value for name in others} == {name: [3, 0] for name in others}
    assert {name for name, *_ in server.asked} == {"allowed.test"} and {kind for _, kind, _ in server.asked} == {A}
    refused = {event.data["hostname"] for event in events if event.type == "gatekeeper.dns_denied"}
    assert refused == {"secret.evil.test", "allowed.test.evil.test", "evilallowed.test"}


def test_a_name_that_is_made_to_mean_the_host_does_not_lead_there(server: NameServer) -> None:
    events: list[Event] = []
    runtime = Runtime(sink=events.append, nameservers=[server.place])
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):  # control: whoever is outside reaches it
            service.accept()[0].close()
        allowed = policy(egress="proxy-only", hosts=[HostRule(domain="allowed.test")])
        with Cage(allowed, runtime=runtime) as cage:
            report = in_cage(cage, program(ASK + REACH, PORT=port))
        runtime.drain()
        service.setblocking(False)
        with pytest.raises(BlockingIOError):
            service.accept()

    assert report["rebound"].errno == "ECONNRESET" or report["rebound"].value == ""
    own = ("own 127.0.0.1", "own 2130706433", "own 0x7f.1", "own localhost", "v6")
    assert {report[name].errno for name in own} <= {"ECONNREFUSED", "ENETUNREACH"}
    (refused,) = [event.data for event in events if event.type == "gatekeeper.tcp_denied"]
    assert (refused["target"], refused["port"]) == ("allowed.test", port)
    assert refused["rule"].startswith("network.host_loopback_ports: the name leads to the host's loopback")
