"""Certificates of servers that were taken back: those that a revocation list in `[proxy] upstream_ca` names (RFC 5280,
section 5), of the server itself or of an authority in between.

Nothing is fetched. Whoever writes that file says which servers are believed at all, so a list in it is believed without
its signature, and one that is out of date still holds. With one that cannot be read no server is believed.
"""

from __future__ import annotations

import _ssl
import ssl
from collections.abc import Sequence

from cryptography import x509

from pysandbox.gate.inspection.roots import CERTIFICATE, pem_blocks
from pysandbox.shapes import Any

BEGIN = "-----BEGIN X509 CRL-----"
LIST = pem_blocks("X509 CRL")
NAMED = "a revocation list of upstream_ca has its number"
UNREADABLE = "a certificate or a revocation list of upstream_ca cannot be read"


class RevocationLists:
    def __init__(self, text: str) -> None:
        self._of: dict[bytes, list[x509.CertificateRevocationList]] = {}  # by the name of who took them back
        found = LIST.findall(text)
        self.are_readable = len(found) == text.count(BEGIN)
        for each in found:
            try:
                made = x509.load_pem_x509_crl(each.encode())
                self._of.setdefault(made.issuer.public_bytes(), []).append(made)
            except ValueError:
                self.are_readable = False

    def __bool__(self) -> bool:
        return bool(self._of) or not self.are_readable

    def why_refused(self, chain: Sequence[bytes]) -> str:
        """Why a chain of certificates (DER, the server's first) is not believed; "" where it is."""
        if not self.are_readable:
            return UNREADABLE
        for each in map(x509.load_der_x509_certificate, chain):
            for listed in self._of.get(each.issuer.public_bytes(), ()):
                if listed.get_revoked_certificate_by_serial_number(each.serial_number) is not None:
                    return f"{NAMED} {each.serial_number:x}, of {each.subject.rfc4514_string()!r}"
        return ""


class UpstreamContext(ssl.SSLContext):
    """For connections to servers: the authorities that are believed, and what these have taken back."""

    lists: RevocationLists


def upstream_context(roots: str) -> UpstreamContext:
    """Believes the certificates in a text, in PEM, but for what the revocation lists in it name."""
    context = UpstreamContext(ssl.PROTOCOL_TLS_CLIENT)  # it asks for a certificate, and checks the name in it
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.lists = RevocationLists(roots)
    believed = CERTIFICATE.findall(roots)
    try:
        if believed:
            context.load_verify_locations(cadata="\n".join(believed))
    except ssl.SSLError:
        context.lists.are_readable = False
    return context


def verified_chain(tls: ssl.SSLObject) -> list[bytes]:
    """The certificates by which a handshake has ended well, the server's first, in DER."""
    if hasattr(tls, "get_verified_chain"):  # from Python 3.13 on
        return list(tls.get_verified_chain())
    held: Any = tls
    return [each.public_bytes(_ssl.ENCODING_DER) for each in held._sslobj.get_verified_chain()]
