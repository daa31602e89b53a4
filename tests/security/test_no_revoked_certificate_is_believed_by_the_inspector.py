"""Claim: a server whose certificate, or whose authority's, a revocation list in `upstream_ca` names gets no byte of a
request, and the client is told."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from _support.inspected import NAME, Asking, Server, ask, request
from pysandbox.compile.plan import Contract
from pysandbox.gate.inspector import InspectorProcess

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
PEM = serialization.Encoding.PEM


class Authority:
    """Or a server, at the end of a chain."""

    def __init__(self, name: str, above: Authority | None = None, number: int = 0) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        signs = above or self
        self.made = (
            x509.CertificateBuilder().subject_name(self.name).issuer_name(signs.name).public_key(self.key.public_key())
            .serial_number(number or x509.random_serial_number()).not_valid_before(NOW - DAY)
            .not_valid_after(NOW + DAY)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.BasicConstraints(ca=name != NAME, path_length=None), critical=True)
            .sign(signs.key, hashes.SHA256())
        )  # fmt: skip
        self.pem = self.made.public_bytes(PEM).decode()

    def takes_back(self, *numbers: int) -> str:
        """Its list, which was out of date yesterday."""
        made = x509.CertificateRevocationListBuilder().issuer_name(self.name)
        made = made.last_update(NOW - 3 * DAY).next_update(NOW - DAY)
        for each in numbers:
            revoked = x509.RevokedCertificateBuilder().serial_number(each).revocation_date(NOW - 2 * DAY).build()
            made = made.add_revoked_certificate(revoked)
        return made.sign(self.key, hashes.SHA256()).public_bytes(PEM).decode()


ROOT = Authority("root.example")
BETWEEN = Authority("between.example", ROOT)
OTHER = Authority("other.example")
LEAF = Authority(NAME, BETWEEN)
LISTS: dict[str, str] = {
    "the server": BETWEEN.takes_back(1, LEAF.made.serial_number),
    "the authority in between": ROOT.takes_back(BETWEEN.made.serial_number, 2),
    "one of several lists": ROOT.takes_back(2) + BETWEEN.takes_back(LEAF.made.serial_number),
}
OF_OTHERS = ROOT.takes_back(LEAF.made.serial_number) + OTHER.takes_back(LEAF.made.serial_number) + BETWEEN.takes_back(7)
BROKEN = {
    "a list that is none": "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n",
    "a list without an end": "-----BEGIN X509 CRL-----\nAAAA\n",
    "a certificate that is none": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
}


def answered(inspector: InspectorProcess, directory: Path, lists: str) -> tuple[bytes, bytes, Any]:
    """What the client and the server were told where the file has the root and these lists, and the refusals."""
    both, listed = directory / "both.pem", directory / "upstream.pem"
    private = LEAF.key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    both.write_text(LEAF.pem + BETWEEN.pem + private.decode())
    listed.write_text(ROOT.pem + lists)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    server = Server(context)
    asking = Asking(inspector, Contract(), str(listed))
    with asking.client(server) as tls:
        said = ask(tls, request())
    return said, bytes(server.heard), asking.refused()


@pytest.mark.parametrize("lists", ["", OF_OTHERS], ids=["no list", "lists of others, and of other numbers"])
def test_one_that_no_list_names_is_asked(inspector: InspectorProcess, tmp_path: Path, lists: str) -> None:
    """The control."""
    said, heard, _ = answered(inspector, tmp_path, lists)
    assert said.endswith(b"hello") and heard


@pytest.mark.parametrize("revoked", LISTS)
def test_a_revoked_one_is_not(inspector: InspectorProcess, tmp_path: Path, revoked: str) -> None:
    said, heard, refused = answered(inspector, tmp_path, LISTS[revoked])
    assert said.startswith(b"HTTP/1.1 502") and b"x-pysandbox-error: upstream-tls" in said
    assert heard == b""
    assert any("a revocation list of upstream_ca has its number" in rule for _, rule in refused)


@pytest.mark.parametrize("broken", BROKEN)
def test_with_one_that_cannot_be_read_nobody_is(inspector: InspectorProcess, tmp_path: Path, broken: str) -> None:
    said, heard, refused = answered(inspector, tmp_path, BROKEN[broken])
    assert said.startswith(b"HTTP/1.1 502") and heard == b""
    assert any("revocation list of upstream_ca cannot be read" in rule for _, rule in refused)
