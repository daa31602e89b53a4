"""Claim: no program in a cage makes the host believe that its gatekeeper has failed: whatever is said at a door is
answered or hung up on, and `gatekeeper.failed` is told of failures alone.
"""

from __future__ import annotations

from _support.internet import Host, Internet

from .network import attack, control

HOSTS = ("origin.example",)
ODD = {
    "an upgrade to nothing": b"Upgrade: ,",
    "an upgrade to nothing besides": b"Upgrade: websocket, , ,",
    "two upgrades": b"Upgrade: websocket\r\nUpgrade: ,",
    "options of nothing": b"Connection: , ,\r\nUpgrade: websocket,",
    "a blank expectation": b"Expect: ,\r\nTE: ,\r\nTrailer: ,",
}
REQUESTS = """
    def ask(odd, *, absolute):
        target = b"http://origin.example/" if absolute else b"/"
        at = door("HTTP_PROXY") if absolute else ("origin.example", 80)
        with socket.create_connection(at, PATIENCE) as s:
            s.sendall(b"GET " + target + b" HTTP/1.1\\r\\nHost: origin.example\\r\\n" + odd + b"\\r\\n\\r\\n")
            return status_of(s.recv(4096))

    for name, odd in ODD.items():
        for absolute in WAYS:
            says(f"{name}, {absolute}", lambda: ask(odd, absolute=absolute))
"""


def test_uncaged_a_server_answers_them(net_host: Host, net: Internet) -> None:
    said = control(net_host, REQUESTS, names={"ODD": ODD, "WAYS": [False]})

    assert len(net.requests("origin")) == len(ODD)
    assert set(said.values.values()) == {"200"}


def test_they_are_answered_and_no_alarm_is_raised(net_host: Host, net: Internet) -> None:
    said = attack(net_host, REQUESTS, names={"ODD": ODD, "WAYS": [True, False]}, hosts=HOSTS)

    assert said.answer.told("gatekeeper.failed") == []
    assert set(said.values.values()) == {"200"}
    assert len(net.requests("origin")) == 2 * len(ODD)
