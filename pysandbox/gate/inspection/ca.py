"""The authority that signs for the inspected hosts of one plan: its key is made here and never leaves this process.

Its certificate may sign for those hosts and nothing else (name constraints, RFC 5280 4.2.1.10), so that a key that got
out would be good for nothing besides; where a policy opens every host, for every one. Leaves share one key; each is
made when a name is first asked for.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.bindings.openssl.binding import Binding
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from OpenSSL import SSL

from pysandbox.policy.names import ANY_NAME
from pysandbox.shapes import Any

AUTHORITY_DAYS = 365  # it ends with this process
LEAF_DAYS, RENEWED_AFTER = 7, 3 * 86400.0
MOST_LEAVES = 512
OPTIONS = SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION | SSL.OP_CIPHER_SERVER_PREFERENCE
RELEASE_BUFFERS = 0x10  # SSL_MODE_RELEASE_BUFFERS: an idle connection keeps none


CHOOSING: list[Any] = []  # what calls `_agreed` from C


class LeafContext(SSL.Context):
    def choose_by_alpn(self) -> None:
        """As `set_alpn_select_callback`, which makes executable memory for each context: once it is confined, this
        process may have no more of it, so all contexts have what the first one was given before."""
        if not CHOOSING:
            self.set_alpn_select_callback(_agreed)
            CHOOSING.append(self._alpn_select_helper)
            return
        self._alpn_select_helper, self._alpn_select_callback = CHOOSING[0], CHOOSING[0].callback
        Binding.lib.SSL_CTX_set_alpn_select_cb(self._context, CHOOSING[0].callback, Binding.ffi.NULL)


class SigningAuthority:
    """`patterns`: the names that it may sign for, as a policy writes them."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._key, self._leaf_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        self._certificate = self._signed_by_itself(patterns)
        self._contexts: OrderedDict[str, tuple[float, SSL.Context]] = OrderedDict()

    @property
    def pem(self) -> bytes:
        return bytes(self._certificate.public_bytes(Encoding.PEM))

    def context(self, name: str) -> SSL.Context:
        """For a server that a client takes for `name`."""
        made, context = self._contexts.get(name, (0.0, None))
        now = time.monotonic()
        if context is None or now > made + RENEWED_AFTER:
            made, context = now, self._make_context(name)
        self._contexts[name] = made, context
        self._contexts.move_to_end(name)
        if len(self._contexts) > MOST_LEAVES:
            self._contexts.popitem(last=False)
        return context

    def _make_context(self, name: str) -> SSL.Context:
        context = LeafContext(SSL.TLS_SERVER_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        context.set_options(OPTIONS)
        context.set_mode(RELEASE_BUFFERS)
        context.use_certificate(self._leaf(name))
        context.use_privatekey(self._leaf_key)
        context.set_session_id(hashlib.sha256(name.encode()).digest())
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)  # a ticket is its client's to keep, under this context's key
        context.choose_by_alpn()
        return context

    def _signed_by_itself(self, patterns: Sequence[str]) -> x509.Certificate:
        bases = dict.fromkeys(each.removeprefix("**.").removeprefix("*.") for each in patterns)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pysandbox, for this cage alone")])
        usage = x509.KeyUsage(
            digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        key = self._key.public_key()
        built = _builder(AUTHORITY_DAYS).subject_name(name).issuer_name(name).public_key(key)
        if ANY_NAME not in patterns:
            permitted = [x509.DNSName(each) for each in bases]
            built = built.add_extension(x509.NameConstraints(permitted, excluded_subtrees=None), critical=True)
        return (
            built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _leaf(self, name: str) -> x509.Certificate:
        usage = x509.KeyUsage(
            digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False,
            key_agreement=False, key_cert_sign=False, crl_sign=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        issuer, key = self._certificate, self._leaf_key.public_key()
        built = _builder(LEAF_DAYS).subject_name(x509.Name([])).issuer_name(issuer.subject).public_key(key)
        return (
            built.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _agreed(connection: SSL.Connection, offered: list[bytes]) -> Any:
    """What its server has chosen; nothing is said of ALPN where the client did not offer that."""
    chosen = connection.get_app_data()
    return chosen if chosen in offered else SSL.NO_OVERLAPPING_PROTOCOLS


def _builder(days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
    )
