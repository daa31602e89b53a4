"""Claim: a parent proxy is asked for what the policy allows, and by the gatekeeper alone: no cage speaks to it, has it
lead elsewhere, or learns its password; and it is told no more than names and ports.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from _support.internet import Host, Internet, places

from .network import REFUSALS, attack, control

PROXY = str(Path(__file__).parents[1] / "_support" / "connect_proxy.py")
PARENT, PORT = places.PRIVATE, 3128
LISTED, KNOWN_THERE, LOGIN = "origin.example", "only.inside", "me:hunter2-of-the-parent"
BASIC = "Basic " + base64.b64encode(LOGIN.encode()).decode()
POLICY: dict[str, Any] = {
    "hosts": [LISTED, KNOWN_THERE, "refused.example", "tunnel.example"], "proxy_parent": f"http://{PARENT}:{PORT}",
    "proxy_parent_credentials": "env:PARENT_LOGIN", "env_passthrough": ["PARENT_LOGIN"],
}  # fmt: skip
NAMES = {"LISTED": LISTED, "KNOWN": KNOWN_THERE, "PARENT": PARENT, "PORT": PORT, "DENIED": places.DENIED}
ASKS = """
    def page(name):
        return http(f"GET http://{name}/ HTTP/1.1\\r\\nHost: {name}\\r\\n\\r\\n".encode())
    def resolved(name):
        with socket.create_connection((name, 80), PATIENCE) as s:
            s.sendall(f"GET / HTTP/1.1\\r\\nHost: {name}\\r\\n\\r\\n".encode())
            return status_of(s.recv(4096))
    says("listed by HTTP", page, LISTED)
    says("known there alone", page, KNOWN)
    says("by nobody's proxy", resolved, KNOWN)
"""
ATTACKS = """
    def inside(first):
        s, status = through_connect(LISTED.encode(), 80)
        assert status == "200"
        s.sendall(first)
        return status_of(s.recv(4096))

    def asked(host, port):
        s, status = through_connect(host.encode(), port)
        s.close()
        return status

    def straight(host, port):
        with socket.create_connection((host, port), 2) as s:
            s.sendall(b"CONNECT " + DENIED.encode() + b":80 HTTP/1.1\\r\\n\\r\\n")
            return s.recv(100).decode() or "closed"

    says("its address", straight, PARENT, PORT)
    says("its address by the door", asked, PARENT, PORT)
    says("a name that leads to it", asked, "private.example", PORT)
    says("another name", asked, "denied.example", 80)
    says("another address", asked, DENIED, 80)
    says("the name it refuses", asked, "refused.example", 80)
    says("CONNECT inside", inside, b"CONNECT " + DENIED.encode() + b":80 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    says("another Host inside", inside, b"GET / HTTP/1.1\\r\\nHost: denied.example\\r\\n\\r\\n")
    say("password", any("hunter2" in each for each in os.environ.values()))
"""


@pytest.fixture
def parent(net: Internet, tmp_path: Path) -> Iterator[Path]:
    """What it was asked, a head in each line."""
    log = tmp_path / "parent.log"
    log.touch()
    words = [PARENT, str(PORT), str(log), f"AUTH={BASIC}"]
    known = [f"{name}={places.ORIGIN}" for name in (LISTED, KNOWN_THERE)]
    with net.serving([sys.executable, PROXY, *words, *known]):
        yield log


@pytest.fixture
def behind(parent: Path, net: Internet, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A host whose program has the password in its environment."""
    monkeypatch.setenv("PARENT_LOGIN", LOGIN)
    with net.host() as host:
        yield host


def heads(log: Path) -> list[str]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_uncaged_the_parent_connects_whoever_asks(behind: Host, parent: Path) -> None:
    script = f"""
    s = socket.create_connection(({PARENT!r}, {PORT}), 5)
    s.sendall(b"CONNECT {places.DENIED}:80 HTTP/1.1\\r\\nProxy-Authorization: " + {BASIC!r}.encode() + b"\\r\\n\\r\\n")
    say("answer", s.recv(100).decode().split()[1])
    """
    assert control(behind, script)["answer"] == "200" and len(heads(parent)) == 1


def test_caged_names_are_asked_of_the_parent_and_of_no_name_server(behind: Host, net: Internet, parent: Path) -> None:
    said = attack(behind, ASKS, names=NAMES, **POLICY)

    assert dict(said.values) == dict.fromkeys(("listed by HTTP", "known there alone", "by nobody's proxy"), "200"), (
        said.answer
    )
    asked = heads(parent)
    assert {each.split(" ")[1] for each in asked} == {f"{LISTED}:80", f"{KNOWN_THERE}:80"}
    assert all(each.count("\r\n") == 4 and BASIC in each for each in asked)  # CONNECT, Host, the password, no more
    assert net.questions() == []
    assert not any("hunter2" in text or BASIC in text for text in (str(said.answer.events), said.answer.stderr))
    assert any("no address" in str(each["reason"]) for each in said.answer.told("sandbox.wide_grant"))


def test_caged_nobody_speaks_to_the_parent_or_is_led_elsewhere(behind: Host, net: Internet, parent: Path) -> None:
    said = attack(behind, ATTACKS, names=NAMES, **POLICY)

    assert said["password"] is False
    assert {name: each for name, each in said.let_through({*REFUSALS, "405"}).items() if name != "password"} == {}, (
        said.values
    )
    assert {each.split(" ")[1] for each in heads(parent)} <= {f"{LISTED}:80", "refused.example:80"}
    assert net.requests("origin") == [] and net.requests("denied") == [] and net.arrivals_at(places.DENIED) == []


def test_what_is_said_inside_tls_is_held_to_the_contract_all_the_same(
    behind: Host, net: Internet, parent: Path
) -> None:
    script = """
    import ssl
    def asking(method):
        context = ssl.create_default_context()
        with context.wrap_socket(socket.create_connection((LISTED, 443), PATIENCE), server_hostname=LISTED) as tls:
            tls.sendall(f"{method} / HTTP/1.1\\r\\nHost: {LISTED}\\r\\nConnection: close\\r\\n\\r\\n".encode())
            return status_of(tls.recv(4096))
    says("GET", asking, "GET")
    says("DELETE", asking, "DELETE")
    """
    rule = {"domain": LISTED, "methods": ["GET"]}
    said = attack(behind, script, names=NAMES, proxy_upstream_ca=[net.ca], **{**POLICY, "hosts": [rule]})

    assert dict(said.values) == {"GET": "200", "DELETE": "415"}, said.answer
    assert {each.split(" ")[1] for each in heads(parent)} == {f"{LISTED}:443"}
    assert len(net.requests("origin")) == 1


def test_without_its_password_the_parent_connects_nobody(parent: Path, net: Internet) -> None:
    assert "PARENT_LOGIN" not in os.environ
    with net.host() as host:
        said = attack(host, ASKS, names=NAMES, **POLICY)
    assert set(said.values.values()) == {"502", "reset"}, said.answer
    assert heads(parent) == [] and net.requests("origin") == []
