"""What the conversation knows of leak detection: that it may look at a request, and refuse it. Nothing here imports the
detectors; who scans is `scanning`, and only in the inspector of cages that want it."""

from __future__ import annotations

from pysandbox.gate.inspection.bodies import Body
from pysandbox.gate.inspection.heads import Field, Head
from pysandbox.gate.inspection.passing import Passing
from pysandbox.shapes import Protocol

DETECTOR, REASON, WARNING = b"x-pysandbox-dlp-detector", b"x-pysandbox-dlp-reason", b"x-pysandbox-dlp-warning"


class Leak(Exception):
    """A request that is not sent. `rule` names what refused it; `fields` are for the client's answer."""

    def __init__(self, why: str, rule: str, field: tuple[bytes, bytes], lists: str = "") -> None:
        """`lists`: the detector that would allow it if the host's block listed it; "" where none would."""
        super().__init__(why)
        self.why, self.rule, self.fields, self.lists = why, rule, (field,), lists


class RequestScan(Protocol):
    """Looks at the requests of one connection, one after the other."""

    def another(self) -> RequestScan:
        """For a request beside others of the same connection."""

    def request(self, method: bytes, path: bytes, fields: list[tuple[bytes, bytes]]) -> None:
        """Looks at a head; names of fields as they were written. Raises Leak."""

    def body(self, head: Head, body: Body, length: int | None) -> Body:
        """A body that gives nothing away before it was looked at."""

    def messages(self) -> Passing:
        """What the messages of the client go through, once the request has opened a WebSocket."""

    def warnings(self) -> list[Field]:
        """What the answer to the last request is to tell of it."""
