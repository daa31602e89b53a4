"""Claim: connect() to what no rule allows fails as a refusal, at once, also in front of a program that listens
everywhere; nobody is ever connected to it first, and each refusal is recorded with the line that would allow it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from _support.nameserver import A, NameServer
from pysandbox import Cage
from pysandbox.events import Event
from pysandbox.runtime.runtime import Runtime

from .harness import in_cage, policy, program, uncaged

KNOCK = """
    import socket
    def knock(host, port, **options):
        with socket.socket() as mine:
            mine.settimeout(20)
            for name, value in options.get("bound", ()):
                mine.bind((name, value))
            mine.connect((host, port))
    def fast_open(host, port):
        with socket.socket() as mine:
            mine.settimeout(20)
            mine.sendto(b"data in the first packet", 0x20000000, (host, port))  # MSG_FASTOPEN
    for host, port in TARGETS:
        attempt(f"{host}:{port}", knock, host, port)
"""
ODD = """
    everywhere = socket.create_server(("0.0.0.0", 8443))
    attempt("a listener of its own", knock, "203.0.113.9", 8443)
    attempt("bound to its loopback", knock, "203.0.113.9", 8443, bound=[("127.0.0.1", 0)])
    attempt("bound to the address", knock, "203.0.113.9", 8443, bound=[("203.0.113.9", 0)])
    attempt("fast open", fast_open, "203.0.113.9", 8443)
    everywhere.settimeout(0.1)
    def came():
        try:
            return [str(everywhere.accept()[1])]
        except TimeoutError:
            return []
    attempt("who came", came)
"""
MANY = """
    import socket
    def many():
        for number in range(500):
            with socket.socket() as mine:
                mine.settimeout(20)
                answer = mine.connect_ex(("203.0.113.9", 1 + number % 7))
                assert answer == 111, answer
    attempt("five hundred", many)
"""
PUBLIC, PRIVATE, METADATA = ("203.0.113.9", 443), ("10.1.2.3", 22), ("169.254.169.254", 80)
NAMED = ("named.test", 8080)  # whose grant lists another port
POLICIES: dict[str, dict[str, Any]] = {
    "names": {"hosts": ["named.test:443"]},
    "a name of any port": {"hosts": ["other.test"]},
    "addresses": {"allow_ips": ["192.0.2.1:443/tcp"]},
    "the world": {"allow_ips": ["0.0.0.0/0"]},
    "both": {"hosts": ["named.test:443", "*.other.test:80"], "allow_ips": ["192.0.2.0/24", "192.0.2.1:22"]},
    "the host's loopback": {"host_loopback_ports": [5432]},
}


@pytest.fixture
def server() -> Iterator[NameServer]:
    with NameServer({("named.test", A): ["192.0.2.80"]}) as server:
        yield server


@pytest.mark.parametrize("said", POLICIES)
def test_an_address_that_is_not_listed_is_refused_and_recorded(said: str) -> None:
    targets = [PRIVATE, METADATA, *([] if said == "the world" else [PUBLIC])]
    refused = {f"{host}:{port}" for host, port in targets}
    with Cage(policy(egress="proxy-only", **POLICIES[said])) as cage:
        report = in_cage(cage, program(KNOCK, TARGETS=targets))
    assert report.differs(dict.fromkeys(refused, "ECONNREFUSED")) == {}
    assert report.result is not None
    told = {denial.target: denial.fix for denial in report.result.denials}
    assert told == {each: f'[[also]]\nnetwork.allow_ips = ["{each}/tcp"]' for each in refused}


def test_a_port_that_a_name_s_grant_does_not_list_is_refused_and_recorded(server: NameServer) -> None:
    events: list[Event] = []
    runtime = Runtime(sink=events.append, nameservers=[server.place])
    with Cage(policy(egress="proxy-only", hosts=["named.test:443"]), runtime=runtime) as cage:
        report = in_cage(cage, program(KNOCK, TARGETS=[NAMED]))
    runtime.drain()
    assert report.differs({"named.test:8080": "ECONNREFUSED"}) == {}
    (told,) = [event.data for event in events if event.type == "gatekeeper.tcp_denied"]
    assert (told["target"], told["port"], told["rule"]) == (*NAMED, "host.ports")


def test_as_many_lists_of_ports_as_are_told_apart_are_held(server: NameServer) -> None:
    """And what is more is refused all the same, by the door."""
    lists = [[*range(100 * number, 100 * number + 8)] for number in range(1, 21)]
    hosts = [{"domain": f"n{number}.test", "ports": ports} for number, ports in enumerate(lists)]
    addresses = [f"192.0.2.{number}:{1000 + number}-{1010 + number}/tcp" for number in range(1, 25)]
    rules = policy(egress="proxy-only", hosts=[*hosts, {"domain": "named.test", "ports": [443]}], allow_ips=addresses)
    targets = [PUBLIC, ("192.0.2.1", 999), ("192.0.2.24", 999)]
    runtime = Runtime(nameservers=[server.place])
    with Cage(rules, runtime=runtime) as cage:
        report = in_cage(cage, program(KNOCK, TARGETS=[*targets, NAMED]))
    runtime.drain()
    last, named = "192.0.2.24:999", "named.test:8080"  # of a list too many, and of one that is told apart
    expected = {"203.0.113.9:443": "ECONNREFUSED", "192.0.2.1:999": "ECONNREFUSED", named: "ECONNREFUSED"}
    assert report.differs({**expected, last: (None, "ECONNRESET")}) == {}
    assert report.result is not None
    assert {denial.target for denial in report.result.denials} == {*expected, last}


def test_no_odd_way_is_another_answer() -> None:
    """The control is the host, where a program that listens everywhere is reached at an address of its own."""
    own = {"a listener": None}
    listening = "everywhere = socket.create_server(('0.0.0.0', 0)); there = everywhere.getsockname()[1]\n"
    control = uncaged(program(KNOCK, listening + "attempt('a listener', knock, '127.0.0.1', there)", TARGETS=[]))
    assert control.differs(own) == {}
    with Cage(policy(egress="proxy-only", hosts=["other.test"])) as cage:
        report = in_cage(cage, program(KNOCK, ODD, TARGETS=[]))
    ways = ("a listener of its own", "bound to its loopback", "bound to the address", "fast open")
    assert {name: report[name].errno for name in ways} in (
        dict.fromkeys(ways, "ECONNREFUSED"), {**dict.fromkeys(ways, "ECONNREFUSED"), "fast open": "EPERM"},
    )  # fmt: skip
    assert report["who came"].value == []


def test_many_are_refused_as_one_is() -> None:
    with Cage(policy(egress="proxy-only", hosts=["other.test"])) as cage:
        report = in_cage(cage, program(MANY))
    assert report.differs({"five hundred": None}) == {}
    assert report.result is not None
    assert {denial.target for denial in report.result.denials} == {f"203.0.113.9:{port}" for port in range(1, 8)}
