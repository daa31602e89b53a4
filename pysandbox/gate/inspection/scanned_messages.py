"""The messages of a WebSocket that are looked at before they are sent: each is kept until it is whole, whatever frames
it comes in; then it is scanned, and handed on. No extension is agreed on (`handshake`), so none is compressed.

Of one that is longer than PART so much at a time is looked at, and the last OVERLAP of that stays until more has come,
as with a body. A credential that was cut in two messages is found in the second of them: the end of what was sent
before is looked at with it. What a ping or a pong says is sent without waiting for a message, and looked at likewise.
"""

from __future__ import annotations

from collections.abc import Callable

from pysandbox.dlp.engine import OVERLAP

PART = 4 * OVERLAP  # of a message that are kept at once, as long as it goes on
JOINED = 1024  # bytes of the messages before that are looked at once more

# (content, the end of what went before, whether it begins so, whether it ends so). Raises Leak.
Look = Callable[[bytearray, bytes, bool, bool], None]


class ScannedMessages:
    """What they go through. Raises Leak, and nothing of the message that it is raised for has an end."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._kept = bytearray()
        self._begins = True  # nothing of this message was handed on yet
        self._before = b""  # the end of the messages that were
        self._said = b""  # the end of what control frames said

    def take(self, said: bytes, *, last: bool) -> bytes:
        self._kept += said
        if not last and len(self._kept) < PART + OVERLAP:
            return b""
        self._look(self._kept, self._before if self._begins else b"", self._begins, last)
        stays = 0 if last else OVERLAP
        sent = bytes(self._kept[: len(self._kept) - stays])
        del self._kept[: len(sent)]
        self._begins = last
        if last:
            self._before = (self._before + sent)[-JOINED:]
        return sent

    def lines(self, said: bytes) -> bytes:
        """What a control frame says, also in the middle of a message."""
        self._look(bytearray(said), self._said, True, True)
        self._said = (self._said + said)[-JOINED:]
        return said
