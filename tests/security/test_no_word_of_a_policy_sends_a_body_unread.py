"""Claim: a policy that has bodies not undone sends none that is encoded, with a credential or without; and one that
takes opaque bearer tokens for no credential still sends none that has a form of its own.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from _support.scanned import SCAN, TOKEN, ScannedHost, get, post, scanned
from pysandbox.dlp import registry

OPAQUE = b"Authorization: Bearer 0a1b2c3d4e5f6a7b8c9d0e1f2a3b"
JWT = registry.BY_NAME["jwt"].hits[0]
GRPC = b"Content-Type: application/grpc"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScannedHost]:
    with scanned(tmp_path_factory.mktemp("plain"), replace(SCAN, undoes_codings=False)) as made:
        yield made


@pytest.fixture(scope="module")
def jwt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScannedHost]:
    with scanned(tmp_path_factory.mktemp("jwt"), replace(SCAN, any_bearer=False)) as made:
        yield made


@pytest.fixture
def usual(tmp_path: Path) -> Iterator[ScannedHost]:
    with scanned(tmp_path) as made:
        yield made


def message(said: bytes, *, compressed: bool) -> bytes:
    return bytes((compressed,)) + len(said).to_bytes(4, "big") + said


ENCODED = {
    "gzip": post(gzip.compress(b"hello"), b"Content-Encoding: gzip"),
    "gzip with one in it": post(gzip.compress(TOKEN), b"Content-Encoding: gzip"),
    "a name that nobody knows": post(b"hello", b"Content-Encoding: rot13"),
    "beside identity": post(gzip.compress(b"hello"), b"Content-Encoding: identity, gzip"),
    "in two fields": post(gzip.compress(b"hello"), b"Content-Encoding: identity", b"Content-Encoding: gzip"),
    "a message of gRPC": post(message(gzip.compress(b"hello"), compressed=True), GRPC, b"grpc-encoding: gzip"),
}


@pytest.mark.parametrize("name", ENCODED)
def test_what_is_encoded_is_refused_whatever_is_in_it(plain: ScannedHost, name: str) -> None:
    plain.server.heard.clear()
    answer = plain.send([ENCODED[name]])
    assert answer.startswith(b"HTTP/1.1 451 ") and b"x-pysandbox-dlp-reason: undecodable-body" in answer, answer
    assert plain.server.heard == b""
    assert ("dlp", "dlp.undecodable-body") in plain.asking.refused()


def test_what_is_not_arrives_and_is_looked_at_as_ever(plain: ScannedHost) -> None:
    """The control; and data that is compressed and says so nowhere is undone all the same."""
    plain.server.heard.clear()
    for sent in (post(b"hello"), post(b"hello", b"Content-Encoding: identity"),
                 post(message(b"hello", compressed=False), GRPC, b"grpc-encoding: gzip")):  # fmt: skip
        assert plain.send([sent]).endswith(b"hello")
    heard = len(plain.server.heard)
    for sent in (post(TOKEN), post(gzip.compress(TOKEN)), get(b"/?a=" + TOKEN)):
        assert b"x-pysandbox-dlp-detector: github_pat\r\n" in plain.send([sent])
    assert len(plain.server.heard) == heard


def test_what_is_encoded_arrives_where_it_is_undone(usual: ScannedHost) -> None:
    """The control of the other policy."""
    assert usual.send([ENCODED["gzip"]]).endswith(b"hello")
    assert usual.send([ENCODED["a message of gRPC"]]).endswith(b"hello")
    assert b"x-pysandbox-dlp-detector: bearer_token\r\n" in usual.send([get(b"/", OPAQUE)])


def test_an_opaque_bearer_token_goes_and_none_with_a_form_of_its_own(jwt: ScannedHost) -> None:
    jwt.server.heard.clear()
    assert jwt.send([get(b"/", OPAQUE)]).endswith(b"hello") and OPAQUE in jwt.server.heard
    heard = len(jwt.server.heard)
    for said, name in ((JWT, b"jwt"), (TOKEN, b"github_pat")):
        answer = jwt.send([get(b"/", b"Authorization: Bearer " + said)])
        assert answer.startswith(b"HTTP/1.1 451 ") and b"x-pysandbox-dlp-detector: " + name + b"\r\n" in answer
    assert len(jwt.server.heard) == heard
