"""One side of the conversation: what has come from it, what is to be sent to it, and the library's view of both."""

from __future__ import annotations

from collections import deque

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import Event
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings

from pysandbox.gate.inspection.heads import LONGEST_HEAD, BadMessage
from pysandbox.gate.inspection.http2.frames import FrameCutter

MOST_STREAMS = 100  # of a client's at once
WINDOW = 1 << 20  # of a stream; what is read of it and not yet passed on is never more
WHOLE_WINDOW = 1 << 22  # of the connection
FIRST_WINDOW = 65535
ROOM = 65536  # for answers to what comes, beside what waits
HEADS_AT_ONCE = 1 << 16  # bytes of heads in one turn: a block of few bytes may stand for many (RFC 7541, 2.3)


class _RememberingConnection(H2Connection):
    MAX_CLOSED_STREAMS = 1000  # that it remembers; what is said of an older one ends the connection


class Http2Side:
    """`is_client`: it is the client, to which we are the server."""

    def __init__(self, *, is_client: bool) -> None:
        self.come, self.to = bytearray(), bytearray()
        self._left: deque[Event] = deque()  # for another turn
        self.frames = FrameCutter(preface=is_client)
        self.h2 = _RememberingConnection(H2Configuration(
            client_side=not is_client, header_encoding=False, validate_outbound_headers=False,
            normalize_outbound_headers=False,
        ))  # fmt: skip
        ours = {SettingCodes.INITIAL_WINDOW_SIZE: WINDOW, SettingCodes.MAX_HEADER_LIST_SIZE: LONGEST_HEAD}
        if is_client:
            ours[SettingCodes.MAX_CONCURRENT_STREAMS] = MOST_STREAMS
        else:
            ours[SettingCodes.ENABLE_PUSH] = 0
        self.h2.local_settings = Settings(client=not is_client, initial_values=ours)
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(WHOLE_WINDOW - FIRST_WINDOW)
        self.flush()

    @property
    def more(self) -> bool:
        """Whether there is more to read, whatever comes."""
        return self.frames.more or bool(self._left)

    def read(self) -> list[Event]:
        """What is said in one turn. Raises BadMessage."""
        if not self._left:
            self._left.extend(self._received())
        taken: list[Event] = []
        heads = 0
        while self._left and heads < HEADS_AT_ONCE:
            taken.append(self._left.popleft())
            heads += sum(len(name) + len(value) for name, value in getattr(taken[-1], "headers", None) or ())
        return taken

    def _received(self) -> list[Event]:
        said = self.frames.take(self.come)
        self.to += self.frames.answer
        self.frames.answer.clear()
        try:
            return self.h2.receive_data(said) if said else []
        except ProtocolError as error:
            self.h2.clear_outbound_data_buffer()
            raise BadMessage(f"it is none of HTTP/2: {error}"[:200]) from None

    def flush(self) -> None:
        self.to += self.h2.data_to_send()

    def has_taken(self, count: int, number: int) -> None:
        """So much of a stream's content was passed on, or is not wanted: as much may follow."""
        if count:
            try:
                self.h2.acknowledge_received_data(count, number)
            except ProtocolError:  # the stream is gone
                return

    def reset(self, number: int, code: int) -> None:
        """Idempotent."""
        try:
            self.h2.reset_stream(number, code)
        except ProtocolError:
            return
