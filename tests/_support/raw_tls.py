"""One side of a TLS 1.3 connection that says what no library does: any records, under the keys that were agreed on.

The handshake is the ssl module's; its log of keys (SSLKEYLOGFILE) has the secret that the records are made with
(RFC 8446, 5.2, 7.1 to 7.3).
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

HANDSHAKE, CONTENT = 22, 23
KEY_UPDATE = b"\x18\0\0\1"


class RawTls:
    """`secret` is one of the lines of the log, with the number of records that were sent under it already."""

    def __init__(self, log: Path, line: str, cipher: str, sent: int = 0) -> None:
        assert "AES" in cipher, cipher
        self._hash = hashlib.sha384 if "SHA384" in cipher else hashlib.sha256
        self._size = 32 if "256_GCM" in cipher else 16
        found = [each.split()[2] for each in log.read_text().splitlines() if each.startswith(line)]
        self._use(bytes.fromhex(found[-1]))
        self._sent = sent

    def record(self, kind: int, said: bytes) -> bytes:
        inner = said + bytes([kind])
        head = b"\x17\3\3" + (len(inner) + 16).to_bytes(2, "big")
        number = (self._iv ^ self._sent).to_bytes(12, "big")
        self._sent += 1
        return head + self._key.encrypt(number, inner, head)

    def key_update(self, *, asks: bool) -> bytes:
        """What follows is under another key. `asks`: the other side has to answer with one of its own."""
        said = self.record(HANDSHAKE, KEY_UPDATE + bytes([asks]))
        self._use(self._derived(b"traffic upd", self._hash().digest_size))
        return said

    def _use(self, secret: bytes) -> None:
        self._secret, self._sent = secret, 0
        self._key = AESGCM(self._derived(b"key", self._size))
        self._iv = int.from_bytes(self._derived(b"iv", 12), "big")

    def _derived(self, label: bytes, size: int) -> bytes:
        info = size.to_bytes(2, "big") + bytes([6 + len(label)]) + b"tls13 " + label + b"\0"
        out, last = b"", b""
        while len(out) < size:
            last = hmac.new(self._secret, last + info + bytes([len(out) // self._hash().digest_size + 1]),
                            self._hash).digest()  # fmt: skip
            out += last
        return out[:size]


def raw_client(near: socket.socket, trusted: str, name: str, log: Path) -> RawTls:
    """Shakes hands as a client."""
    context = ssl.create_default_context(cafile=trusted)
    context.keylog_filename = str(log)
    tls = _greeted(near, context, name)
    return RawTls(log, "CLIENT_TRAFFIC_SECRET_0", (tls.cipher() or ("",))[0])


def raw_server(far: socket.socket, both: str, log: Path) -> RawTls:
    """Shakes hands as a server, which gives no tickets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    context.num_tickets = 0
    context.keylog_filename = str(log)
    tls = _greeted(far, context, None)
    return RawTls(log, "SERVER_TRAFFIC_SECRET_0", (tls.cipher() or ("",))[0])


def _greeted(sock: socket.socket, context: ssl.SSLContext, name: str | None) -> ssl.SSLObject:
    come, go = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(come, go, server_side=name is None, server_hostname=name)
    while True:
        try:
            tls.do_handshake()
            sock.sendall(go.read())
            return tls
        except ssl.SSLWantReadError:
            sock.sendall(go.read())
            come.write(sock.recv(65536))
