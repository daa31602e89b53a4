"""Claim: when a secret was revoked, nothing is sent any more that has its value in it, also of a request that had it
already and waits: for a server to finish its handshake, for the rest of a body, for a callback of the host, or for a
server's leave to begin a stream. Who is to wait, and how long, a cage or a server says.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from h2.events import RequestReceived
from h2.settings import SettingCodes

from _support.http2 import Trial, fields
from _support.inspected import NAME, Asking, Server, inspector_process, request, tls_server
from _support.scanned import SCAN, WholeServer
from pysandbox.compile.plan import ANY_REQUEST, SecretGrant
from pysandbox.events import Event
from pysandbox.gate.inspection.secrets import ConnectionSecrets, SecretSet
from pysandbox.gate.inspector import InspectorProcess
from pysandbox.gate.inspectors import AskingInspector, ScanningInspector
from pysandbox.gate.secrets import CageSecrets, HeldSecrets, SecretValue, hold_secrets
from pysandbox.gate.sent import LeakCaller

from .harness import wait_until

VALUE = "sk-ant-" + "Real5ecretValue" * 3
OTHER = "another." + NAME


class LateServer(WholeServer):
    """One that takes its time with TLS."""

    may: threading.Event

    def greet(self, far: Any) -> Any:
        assert self.may.wait(30)
        return super().greet(far)

    def _serve(self, far: Any) -> None:
        try:
            with self.greet(far) as tls:
                while piece := tls.recv(65536):
                    self.heard += piece
                    tls.sendall(self.answer)
        except OSError:
            pass


class Revoking:
    """One secret at an inspector, and a server."""

    def __init__(
        self, inspector: InspectorProcess, directory: Path, kind: type[Server], hosts: tuple[str, ...]
    ) -> None:
        self.inspector = inspector
        self.server = tls_server(directory, kind)
        scan = SCAN if inspector.scans else None
        self.asking = Asking(inspector, ANY_REQUEST, str(directory / f"{NAME}.pem"), scan=scan)
        grants = (SecretGrant("TOKEN", "given", hosts, ("header:x-key",)),)
        cage = CageSecrets({"TOKEN": SecretValue(VALUE)})
        self.placeholder = cage.prepare(type("Plan", (), {"env": ()})(), grants)["TOKEN"]
        self.held: HeldSecrets = hold_secrets(inspector, cage, grants)
        self.asking.secrets = self.held.number

    @property
    def field(self) -> bytes:
        return f"X-Key: {self.placeholder}\r\n".encode()

    def heard(self) -> bool:
        return wait_until(lambda: VALUE.encode() in self.server.heard, 20)


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Revoking]]:
    events: list[Event] = []
    inspectors = []

    def make(kind: type[InspectorProcess], server: type[Server], *hosts: str) -> Revoking:
        inspectors.append(inspector_process(events, kind=kind))
        return Revoking(inspectors[-1].__enter__(), tmp_path, server, hosts or (NAME,))

    yield make
    for each in inspectors:
        each.__exit__(None, None, None)
    assert [each for each in events if each.type == "gatekeeper.failed"] == []  # nobody was ended for it


@pytest.mark.parametrize("revoked", [False, True])
def test_a_server_that_is_late_with_its_handshake_gets_nothing(revoked: bool, made: Callable[..., Revoking]) -> None:
    LateServer.may = threading.Event()
    at = made(InspectorProcess, LateServer)
    with at.asking.client(at.server) as tls:
        tls.sendall(request()[:-2] + at.field + b"\r\n")
        assert at.inspector.wait_booked() and at.inspector.wait_booked()
        if revoked:
            at.held.revoke("TOKEN")
        LateServer.may.set()
        if not revoked:
            assert at.heard()  # the control
            return
        assert ends(tls)
    assert wait_until(lambda: at.asking.ended == [True], 20)
    assert VALUE.encode() not in at.server.heard


@pytest.mark.parametrize("revoked", [False, True])
def test_a_head_that_waits_for_its_body_is_not_sent(revoked: bool, made: Callable[..., Revoking]) -> None:
    at = made(ScanningInspector, WholeServer)
    with at.asking.client(at.server) as tls:
        tls.sendall(request("POST")[:-2] + at.field + b"Content-Length: 10\r\n\r\nhello")
        assert at.inspector.wait_booked() and at.inspector.wait_booked()
        if not revoked:
            tls.sendall(b"world")
            assert at.heard()  # the control
            return
        at.held.revoke("TOKEN")
        try:
            tls.sendall(b"world")
        except OSError:
            pass
        assert ends(tls)
    assert at.server.heard == b""


@pytest.mark.parametrize("revoked", [False, True])
def test_what_the_host_program_is_asked_about_is_not_sent(revoked: bool, made: Callable[..., Revoking]) -> None:
    asked, may = threading.Event(), threading.Event()

    def leaks(_: object) -> bool:
        asked.set()
        assert may.wait(20)
        return False

    at = made(AskingInspector, WholeServer)
    at.asking.session.leak_caller = LeakCaller.of(leaks, 30.0)
    with at.asking.client(at.server) as tls:
        tls.sendall(request()[:-2] + at.field + b"\r\n")
        assert asked.wait(20)
        if revoked:
            at.held.revoke("TOKEN")
        may.set()
        if not revoked:
            assert at.heard()  # the control
            return
        assert ends(tls)
    assert at.server.heard == b""


def test_who_waits_at_another_host_goes_on(made: Callable[..., Revoking]) -> None:
    LateServer.may = threading.Event()
    at = made(InspectorProcess, LateServer, OTHER)
    with at.asking.client(at.server) as tls:
        tls.sendall(request())
        assert at.inspector.wait_booked()
        at.held.revoke("TOKEN")
        LateServer.may.set()
        assert tls.recv(999).endswith(b"hello")


def ends(tls: Any) -> bool:
    """Whether the connection is over, without an answer."""
    try:
        return bool(tls.recv(999) == b"")
    except OSError:
        return True


# ---- HTTP/2 ---------------------------------------------------------------------------------------------------------


def test_a_stream_that_no_server_lets_begin_is_known_to_wait() -> None:
    false = "sk-ant-" + "F" * (len(VALUE) - 7)
    row = {"name": "TOKEN", "placeholder": false, "value": VALUE, "hosts": [NAME], "places": ["header:x-key"]}
    held = SecretSet(json.dumps([row]).encode())
    trial = Trial(secrets=ConnectionSecrets(held, NAME, secure=True), answer=lambda *_: None)
    trial.server.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 1})
    trial.turn()
    assert not trial.conversation.unsent
    trial.ask(1, fields("GET", "/a/x", ("x-key", false)))
    assert sum(isinstance(each, RequestReceived) for each in trial.arrived) == 1 and not trial.conversation.unsent
    trial.ask(3, fields("GET", "/a/x", ("x-key", false)))
    assert sum(isinstance(each, RequestReceived) for each in trial.arrived) == 1 and trial.conversation.unsent
