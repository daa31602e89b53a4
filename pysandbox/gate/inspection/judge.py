"""How a request is judged, whatever version of HTTP it was said in: its target, the contract of its host, the cage's
secrets, the scan; and how a refusal is told. One request model; `exchange` is its codec for HTTP/1.1, `http2` for
HTTP/2. Pure.
"""

from __future__ import annotations

from collections.abc import Callable

from pysandbox.gate import contract as contracts
from pysandbox.gate.contract import Asked
from pysandbox.gate.inspection.bodies import Body, Nothing
from pysandbox.gate.inspection.handshake import OtherVersion
from pysandbox.gate.inspection.heads import BadMessage, Head
from pysandbox.gate.inspection.leak import Leak, RequestScan
from pysandbox.gate.inspection.secrets import ConnectionSecrets, Withheld
from pysandbox.gate.inspection.terms import ALLOWED, Refused, Terms, Told, hold, path_of, too_large
from pysandbox.policy.secret import RULES
from pysandbox.shapes import NamedTuple

MOST_INTERIM = 16  # responses with 1xx to one request
ALT_SVC = frozenset((b"alt-svc",))  # the way to a server that nobody looks at
REFUSES = (BadMessage, OtherVersion, Withheld, Leak, Refused)  # what is raised where a request is not passed on
TOLD = ("contract-refused", "policy-blocked", "upgrade-refused", "secret-refused", "dlp-blocked")  # as denials


class AllowedRequest(NamedTuple):
    """A request that may pass, as it is sent. `asks`: its client waits to be asked for the body, which is looked at
    before anything is sent."""

    head: Head
    path: bytes
    body: Body
    asks: bool


class Judge:
    """Judges the requests of one connection."""

    def __init__(self, terms: Terms, tell: Callable[[Told], object], secrets: ConnectionSecrets | None) -> None:
        self.terms, self.secrets, self._tell = terms, secrets, tell

    def request(
        self, head: Head, body: Body, length: int | None, scan: RequestScan | None, *, opens_websocket: bool = False
    ) -> AllowedRequest:
        """Raises what REFUSES names."""
        terms, secrets = self.terms, self.secrets
        path = path_of(terms, head)
        has_body = not isinstance(body, Nothing) and length != 0
        fields = tuple((name, value) for name, _, value in head.fields)
        asked = Asked(head.first[0], path, fields, length, has_body, opens_websocket)
        hold(terms, contracts.decide(terms.contract, asked) or too_large(terms, length or 0))
        said, asks = (path, [(shown, value) for _, shown, value in head.fields]), False
        if secrets is not None:
            head, path = secrets.request(head, path)
            said = secrets.plain
        if scan is not None:
            scan.request(head.first[0], *said)
            body = scan.body(head, body, length)
            asks = bool(head.minor) and b"100-continue" in head.tokens(b"expect")
            if asks:
                head = head._replace(fields=[each for each in head.fields if each[0] != b"expect"])
        if secrets is not None:
            body.passing = secrets.request_body(head)
        if terms.contract.told:
            self._tell_allowed(asked, has_body=has_body)
        return AllowedRequest(head, path, body, asks)

    def _tell_allowed(self, asked: Asked, *, has_body: bool) -> None:
        """As its client said it, without the query, in which more than a shape may be."""
        kinds = [value.partition(b";")[0].strip() for name, value in asked.fields if name == b"content-type"]
        kind = kinds[0].lower() if has_body and kinds else b""
        shown = (each[:200].decode("ascii", "backslashreplace")
                 for each in (kind, asked.method, asked.path.partition(b"?")[0]))  # fmt: skip
        self._tell(Told(ALLOWED, "", *shown))

    def hold_body(self, size: int) -> None:
        """Raises Refused for so much of it."""
        hold(self.terms, too_large(self.terms, size, so_far=True))

    def tell(self, refused: Refused, head: Head | None) -> None:
        """The host program, before anybody is answered."""
        if refused.code in TOLD and head is not None:
            method, target = (each[:200].decode("ascii", "backslashreplace") for each in head.first)
            self._tell(Told(refused.column, refused.why, refused.value, method, target))

    def patch(self, refused: Refused) -> str:
        """The block that would allow it."""
        return contracts.fix(self.terms.host, self.terms.contract, refused.column, refused.value)


def refused_by(error: BaseException) -> Refused:
    """What its client is answered. `error` is one of REFUSES."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, Leak):
        return Refused(451, "dlp-blocked", error.why, column=error.rule, value=error.lists, fields=error.fields)
    if isinstance(error, Withheld):
        return Refused(451, "secret-refused", error.why, column=error.rule)
    if isinstance(error, OtherVersion):
        return Refused(501, "upgrade-refused", str(error), column="tls")
    return Refused(400, "bad-request", str(error))


def wants_json(head: Head | None) -> bool:
    return head is not None and b"json" in b",".join(head.values(b"accept"))


def rule_of(column: str) -> str:
    """As a client is told it."""
    return f"host.{column}" if column and column not in RULES and not column.startswith("dlp.") else column
