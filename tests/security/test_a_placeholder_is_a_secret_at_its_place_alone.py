"""Claim: a placeholder becomes the value of its secret towards its hosts, inside TLS, and in its places. Anywhere else
the request is refused, however the placeholder is split or encoded, and no byte of the value leaves the inspector; what
a server says of the value is covered."""

from __future__ import annotations

import base64
import os
import pickle
import ssl
from pathlib import Path

import pytest

from _support.inspected import NAME, Asking, ClearServer, Server, ask, wait_for_another, write_certificate
from pysandbox.compile.plan import Contract, SecretGrant
from pysandbox.events import Event
from pysandbox.gate.inspector import InspectorProcess
from pysandbox.gate.secrets import CageSecrets, SecretValue, hold_secrets

from .harness import wait_until

VALUE = "sk-ant-" + "Real5ecretValue" * 3
ANYTHING = Contract()


class Secret:
    """One at the inspector, for a connection to NAME."""

    def __init__(
        self, inspector: InspectorProcess, ca: str, *places: str, host: str = NAME, upstream_scheme: str = ""
    ) -> None:
        self.asking = Asking(inspector, ANYTHING, ca, upstream_scheme=upstream_scheme)
        grants = (SecretGrant("TOKEN", "given", (host,), places or ("header:authorization", "body")),)
        self.cage = CageSecrets({"TOKEN": SecretValue(VALUE)})
        plan = type("Plan", (), {"env": ()})()
        self.placeholder = self.cage.prepare(plan, grants)["TOKEN"]
        self.held = hold_secrets(inspector, self.cage, grants)
        self.asking.secrets = self.held.number

    def ask(self, server: Server, line: str, *fields: str, body: bytes = b"") -> bytes:
        length = (f"Content-Length: {len(body)}",) if body else ()
        head = "\r\n".join((f"{line} HTTP/1.1", f"Host: {NAME}", *fields, *length, "", ""))
        with self.asking.client(server) as tls:
            return ask(tls, head.encode() + body + (b"\r\n\r\n" if body else b""))


@pytest.fixture
def secret(inspector: InspectorProcess, server: Server, tmp_path: Path) -> Secret:
    return Secret(inspector, str(tmp_path / f"{NAME}.pem"))


def test_at_its_place_it_is_sent(secret: Secret, server: Server) -> None:
    """The control."""
    assert secret.ask(server, "GET /", f"Authorization: Bearer {secret.placeholder}").endswith(b"hello")
    assert f"Authorization: Bearer {VALUE}\r\n".encode() in server.heard
    assert secret.placeholder.encode() not in server.heard
    assert secret.asking.refused() == []


def placed(false: str) -> dict[str, tuple[str, ...]]:
    """Where an attacker may put it: split and encoded."""
    whole = base64.b64encode(false.encode()).decode()
    return {
        "path": (f"GET /{false}",),
        "query": (f"GET /?key={false}",),
        "other field": ("GET /", f"X-Api-Key: {false}"),
        "over two fields": ("GET /", f"X-A: {false[:25]}", f"X-B: {false[25:]}"),
        "over four": ("GET /", *(f"X-A: {false[at : at + 13]}" for at in range(0, len(false), 13))),
        "percent": ("GET /?a=" + "".join(f"%{ord(each):02x}" for each in false),),
        "percent twice": ("GET /" + "".join(f"%25{ord(each):02x}" for each in false),),
        "base64": ("GET /", f"Authorization: Bearer {whole}"),
        "Basic": ("GET /", "Authorization: Basic " + base64.b64encode(f"u:{false}".encode()).decode()),
        "url-safe": ("GET /", "Cookie: a=" + base64.urlsafe_b64encode(f"?>{false}".encode()).decode()),
        "hexadecimal": ("GET /", f"X-A: {false.encode().hex()}"),
        "at its place and elsewhere": ("GET /", f"Authorization: {false}", f"Cookie: {false}"),
    }


def test_split_or_encoded_it_is_refused(secret: Secret, server: Server) -> None:
    attacks = placed(secret.placeholder)
    said = {where: secret.ask(server, *attack) for where, attack in attacks.items()}
    refused = b"x-pysandbox-error: secret-refused\r\nx-pysandbox-rule: secret.in\r\n"
    assert [where for where, each in said.items() if not each.startswith(b"HTTP/1.1 451 ") or refused not in each] == []
    assert VALUE.encode() not in b"".join(said.values()) and server.heard == b""
    assert set(secret.asking.refused()) == {("http", "secret.in")}


def test_in_chunks_of_a_body_that_nobody_knows_it_is_refused(secret: Secret, server: Server) -> None:
    said, size = secret.placeholder.encode(), 9
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(said[at : at + size]), said[at : at + size])
                      for at in range(0, len(said), size))  # fmt: skip
    head = f"POST / HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    with secret.asking.client(server) as tls:
        answer = ask(tls, head + chunks + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 451 ")
    assert VALUE.encode() not in server.heard
    assert secret.asking.refused() == [("http", "secret.in")]


def test_another_host_gets_neither(inspector: InspectorProcess, server: Server, tmp_path: Path) -> None:
    secret = Secret(inspector, str(tmp_path / f"{NAME}.pem"), host="other.example")
    assert secret.ask(server, "GET /", f"Authorization: Bearer {secret.placeholder}").startswith(b"HTTP/1.1 451 ")
    assert server.heard == b"" and secret.asking.refused() == [("http", "secret.hosts")]


def test_no_server_gets_it_without_tls(inspector: InspectorProcess, tmp_path: Path) -> None:
    """The client has TLS as ever; what is said to its server would be anybody's to read."""
    server = ClearServer(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    secret = Secret(inspector, write_certificate(tmp_path)[1], upstream_scheme="http")
    assert secret.ask(server, "GET /").endswith(b"hello")  # the control
    server.heard.clear()
    assert secret.ask(server, "GET /", f"Authorization: Bearer {secret.placeholder}").startswith(b"HTTP/1.1 451 ")
    assert server.heard == b"" and secret.asking.refused() == [("http", "secret.hosts")]


def test_a_cage_cannot_use_what_is_another_s(secret: Secret, inspector: InspectorProcess, server: Server) -> None:
    """Nor is it told that there is one: to another cage it is a text like any other."""
    secret.asking.secrets = 0
    assert secret.ask(server, "GET /", f"Authorization: Bearer {secret.placeholder}").endswith(b"hello")
    assert VALUE.encode() not in server.heard and secret.placeholder.encode() in server.heard


def test_what_was_revoked_is_sent_no_more(secret: Secret, server: Server) -> None:
    use = f"GET / HTTP/1.1\r\nHost: {NAME}\r\nAuthorization: {secret.placeholder}\r\n\r\n".encode()
    with secret.asking.client(server) as tls:
        assert ask(tls, use).endswith(b"hello")
        server.heard.clear()
        secret.held.revoke("TOKEN")
        assert ask(tls, use).startswith(b"HTTP/1.1 451 ")
    assert server.heard == b"" and secret.asking.refused() == [("http", "secret.revoked")]


def test_after_the_cage_has_ended_nobody_is_served_with_it(secret: Secret, server: Server) -> None:
    secret.held.end()
    with pytest.raises(OSError):
        secret.ask(server, "GET /", f"Authorization: {secret.placeholder}")
        raise ConnectionError
    assert server.heard == b""


def test_another_inspector_has_them_again_but_what_was_revoked(
    secret: Secret, inspector: InspectorProcess, server: Server
) -> None:
    process = inspector.process
    assert process is not None
    secret.held.revoke("TOKEN")
    os.kill(process.pid, 9)
    assert wait_until(lambda: inspector.process is not process, 20)
    wait_for_another(inspector, secret.asking.net)
    assert secret.ask(server, "GET /", f"Authorization: {secret.placeholder}").startswith(b"HTTP/1.1 451 ")
    assert server.heard == b""


def test_the_host_program_shows_it_nowhere(secret: Secret, events: list[Event], server: Server) -> None:
    """Neither in a repr, nor in a pickle, nor in what it tells."""
    secret.ask(server, f"GET /{secret.placeholder}")
    grants = repr(secret.asking.net) + repr(secret.cage) + repr(vars(secret.cage)) + repr(events)
    assert VALUE not in grants and VALUE not in repr(secret.asking.session.ledger.denials())
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(secret.cage)


def test_nobody_of_the_user_reads_the_memory_of_the_inspector(inspector: InspectorProcess, secret: Secret) -> None:
    """So there is no core dump either: the kernel makes none of a process that is not dumpable (core(5))."""
    assert inspector.process is not None
    if os.geteuid() == 0:
        pytest.skip("root reads everybody's")
    for file in ("environ", "mem", "maps"):
        with pytest.raises(PermissionError):
            os.close(os.open(f"/proc/{inspector.process.pid}/{file}", os.O_RDONLY))
