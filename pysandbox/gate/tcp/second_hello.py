"""The second ClientHello of a TLS connection (RFC 8446, 4.1.2 and 4.1.4), which a server may ask for: it names what the
first one has named. Pure.

A server that finds no key in a hello that it can use answers with a HelloRetryRequest, and reads another hello. It is
to be the first one with another key in it, but servers look at its name again, and follow that one: OpenSSL does. So
whoever has judged the first hello waits for the server's first words. Only after a retry may a second hello follow;
after any other answer a server takes none.
"""

from __future__ import annotations

from pysandbox.gate.tcp.sni import HANDSHAKE, HelloReader, NotTls

CHANGE_CIPHER_SPEC, APPLICATION_DATA = 20, 23  # records that may come before a second hello: the latter is early data
SERVER_HELLO, RANDOM_END = 2, 38  # of the message: its type and size, a version, 32 bytes
RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")  # for a random: 4.1.3
LONGEST_SKIPPED = 1 << 17  # bytes of other records before it; servers skip 16 KiB of early data


class AnswerReader:
    """Takes the server's first bytes in any pieces."""

    def __init__(self) -> None:
        self._pending, self._message = bytearray(), bytearray()

    def asks_again(self, said: bytes) -> bool | None:
        """Whether it asks for another hello; None while that cannot be told."""
        self._pending += said
        while (record := next_record(self._pending)) is not None:
            if record[0] != HANDSHAKE:
                return False
            self._message += record[5:]
            if self._message and self._message[0] != SERVER_HELLO:
                return False
            if len(self._message) >= RANDOM_END:
                return self._message[6:RANDOM_END] == RETRY
        return False if self._pending and self._pending[0] != HANDSHAKE else None


class SecondHello:
    """Takes what the client sends after a retry, in any pieces. `said` is all of it."""

    def __init__(self, name: bytes | None) -> None:
        self.said = bytearray()
        self._name, self._hello, self._pending, self._skipped = name, HelloReader(), bytearray(), 0

    def read(self, said: bytes) -> bool:
        """Whether the hello is whole, and names what the first one did. Raises NotTls, for any other too."""
        self.said += said
        self._pending += said
        while (record := next_record(self._pending)) is not None:
            if record[0] in (CHANGE_CIPHER_SPEC, APPLICATION_DATA):
                self._skipped += len(record)
                if self._skipped > LONGEST_SKIPPED:
                    raise NotTls("no second hello came after the server had asked for one")
                continue
            hello = self._hello.feed(record)
            if hello is not None:
                if hello.name != self._name:
                    raise NotTls(
                        f"a second hello names {_shown(hello.name)}, after {_shown(self._name)} was let through"
                    )
                return True
        return False


def next_record(pending: bytearray) -> bytes | None:
    """Takes the next whole record of TLS; None while it is not whole."""
    size = 5 + int.from_bytes(pending[3:5], "big")
    if len(pending) < 5 or len(pending) < size:
        return None
    record = bytes(pending[:size])
    del pending[:size]
    return record


def _shown(name: bytes | None) -> str:
    return "nothing" if name is None else name.decode("ascii", "backslashreplace")
