"""Claim: a server whose certificate is not right for the name gets no byte of a request, and the client is told."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from _support.inspected import Asking, Server, ask, request, write_certificate
from pysandbox.compile.plan import Contract
from pysandbox.gate.inspector import InspectorProcess

from .harness import wait_until


def serving(both: str, *, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> Server:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = newest
    context.load_cert_chain(both)
    return Server(context)


def test_the_right_one_is_asked(inspector: InspectorProcess, tmp_path: Path) -> None:
    """The control."""
    both, alone = write_certificate(tmp_path)
    server = serving(both)
    with Asking(inspector, Contract(), alone).client(server) as tls:
        assert ask(tls, request()).endswith(b"hello")
    assert server.heard


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("wrong", ["expired", "not yet good", "of another name", "not trusted", "weak", "TLS 1.1"])
def test_any_other_is_not(inspector: InspectorProcess, tmp_path: Path, wrong: str) -> None:
    both, alone = write_certificate(
        tmp_path, "other.example" if wrong == "of another name" else "api.example",
        days=-1 if wrong == "expired" else 2, begun=3 if wrong != "not yet good" else -1,
        bits=1024 if wrong == "weak" else 0,
    )  # fmt: skip
    if wrong == "not trusted":
        (tmp_path / "more").mkdir()
        alone = write_certificate(tmp_path / "more")[1]
    server = serving(both, newest=ssl.TLSVersion.TLSv1_1 if wrong == "TLS 1.1" else ssl.TLSVersion.TLSv1_3)
    asking = Asking(inspector, Contract(), alone)
    with asking.client(server) as tls:
        said = ask(tls, request())
    assert said.startswith(b"HTTP/1.1 502") and b"x-pysandbox-error: upstream-tls" in said
    assert server.heard == b""
    if wrong != "TLS 1.1":
        assert any("TLS with the server failed" in rule for _, rule in asking.refused())


def test_a_client_that_does_not_trust_the_authority_is_told_why(inspector: InspectorProcess, tmp_path: Path) -> None:
    both, alone = write_certificate(tmp_path)
    server = serving(both)
    asking = Asking(inspector, Contract(), alone)
    with pytest.raises(ssl.SSLError), asking.client(server, trusts=False):
        pass
    told = "does not trust the authority of this cage"  # by the client's alert, which may come after its end
    assert wait_until(lambda: any(told in rule for _, rule in asking.refused()), within=30)
    assert server.heard == b""
