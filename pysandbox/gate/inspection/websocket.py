"""A WebSocket, once both sides have agreed on it: the frames of either direction, held to what its host's block and the
cage's secrets say, and looked at for credentials where what is sent is scanned. Bytes in, bytes out.

What cannot be looked at is refused: the connection ends with a close frame that says why (1008, or 1009 for a size),
and whatever message had begun has no end. No message is a place of a secret: nothing is put in one.
"""

from __future__ import annotations

from pysandbox.gate.inspection.frames import AT_ONCE, Frames, close_frame
from pysandbox.gate.inspection.terms import hold, too_large
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.gate.inspection.leak import RequestScan
    from pysandbox.gate.inspection.passing import Passing
    from pysandbox.gate.inspection.secrets import ConnectionSecrets
    from pysandbox.gate.inspection.terms import Terms

BAD_FRAME, REFUSED, TOO_LARGE, NO_ANSWER = 1002, 1008, 1009, 1011
SCANNED_AT_ONCE = 64  # frames in one turn, each of which may be a message: a scan has its own cost, however short
CODES = {400: BAD_FRAME, 413: TOO_LARGE, 451: REFUSED}


class _Both:
    """First the one, then the other."""

    def __init__(self, first: Passing, second: Passing) -> None:
        self._first, self._second = first, second

    def take(self, said: bytes, *, last: bool) -> bytes:
        return self._second.take(self._first.take(said, last=last), last=last)

    def lines(self, said: bytes) -> bytes:
        return self._second.lines(self._first.lines(said))


def _sent(secrets: ConnectionSecrets | None, scan: RequestScan | None) -> Passing | None:
    """What the client's messages go through: the scan holds them back."""
    if scan is None:
        return secrets.sent_messages() if secrets is not None else None
    return scan.messages() if secrets is None else _Both(scan.messages(), secrets.sent_messages())


class WebSocket:
    """`sent` are the client's frames, `received` the server's. `left`: the client has hung up; `ended`: the
    server has."""

    def __init__(self, terms: Terms, secrets: ConnectionSecrets | None, scan: RequestScan | None = None) -> None:
        sent = _sent(secrets, scan)
        received = secrets.received_messages() if secrets is not None else None
        self.sent = Frames(masked=True, hold=lambda size: hold(terms, too_large(terms, size)), passing=sent,
                           at_once=AT_ONCE if scan is None else SCANNED_AT_ONCE)  # fmt: skip
        self.received = Frames(masked=False, hold=lambda _: None, passing=received)
        self.left = self.ended = False

    @property
    def is_closing(self) -> bool:
        """Whether somebody owes the end of it."""
        return self.left or self.ended or self.sent.closed or self.received.closed

    def is_over(self, *, waits: bool) -> bool:
        """`waits`: something is still to be sent to the server."""
        if self.ended:
            return not self.received.more
        return self.left and not (waits or self.sent.more or self.sent.closed)

    def refusal(self, status: int, code: str, why: str) -> bytes:
        """The last words to the client."""
        if self.received.closed:
            return b""
        return close_frame(CODES.get(status, NO_ANSWER), f"pysandbox: {code}: {why}")
