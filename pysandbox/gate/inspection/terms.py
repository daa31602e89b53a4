"""What an inspected connection is for, how a request on it is refused, and whether its target is its own. Pure."""

from __future__ import annotations

from pysandbox.gate import contract as contracts
from pysandbox.gate.contract import Breach
from pysandbox.gate.inspection.heads import BadMessage, Head
from pysandbox.policy.names import BadName, canonical
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pysandbox.compile.plan import Contract


class Terms(NamedTuple):
    """What a connection is for. `proxied`: the client speaks to a proxy, and each of its requests names its server."""

    host: str
    port: int
    secure: bool
    proxied: bool
    contract: Contract
    most: int  # bytes of any body


ALLOWED = "allowed"  # stands for a column, where nothing was refused


class Told(NamedTuple):
    """A refusal, as the host program hears of it; or a request that passes, with the type of its body for a value."""

    column: str
    why: str
    value: str
    method: str
    path: str


class Refused(Exception):
    def __init__(
        self, status: int, code: str, why: str, *, column: str = "", value: str = "",
        fields: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:  # fmt: skip
        super().__init__(why)
        self.status, self.code, self.why, self.column, self.value = status, code, why, column, value
        self.fields = fields  # of the answer


def path_of(terms: Terms, head: Head) -> bytes:
    """The target in origin-form. Raises BadMessage, Refused."""
    method, target = head.first
    if method == b"CONNECT":
        raise BadMessage("CONNECT is for a proxy")
    named = head.values(b"host")
    if len(named) > 1 or (not named and head.minor):
        raise BadMessage("a request names one host")
    if b"#" in target:
        raise BadMessage("a fragment in the target")
    if named and named[0]:
        _check_host(terms, named[0])
    if target.startswith(b"/") or (target == b"*" and method == b"OPTIONS"):
        if terms.proxied:
            raise BadMessage("this is a proxy: ask for http://HOST/PATH")
        return target
    scheme, mark, rest = target.partition(b"://")
    if not mark or scheme.lower() != (b"https" if terms.secure else b"http"):
        raise BadMessage("a target that is none")
    cut = min((rest.find(each) for each in (b"/", b"?") if each in rest), default=len(rest))
    _check_host(terms, rest[:cut])
    path = rest[cut:]
    return path if path.startswith(b"/") else b"/" + path


def _check_host(terms: Terms, authority: bytes) -> None:
    """Raises Refused for a host that is not this connection's."""
    if authority == terms.host.encode():
        return
    name, _, port = authority.partition(b":")
    try:
        host = str(canonical(name))
    except BadName:
        host = ""
    if host != terms.host or (port and port != b"%d" % terms.port):
        shown = authority[:200].decode("ascii", "backslashreplace")
        raise Refused(403, "policy-blocked", f"a request for {shown} in a connection to {terms.host}")


def too_large(terms: Terms, size: int, *, so_far: bool = False) -> Breach | None:
    """For a body, or a message of a WebSocket, of so many bytes; `so_far`, of which so many have come."""
    breach = contracts.too_large(terms.contract, size, so_far=so_far)
    if breach is None and size > terms.most:
        return Breach(413, "proxy", f"a body of more than {terms.most} bytes (max_streamed_body_bytes)")
    return breach


def hold(terms: Terms, breach: Breach | None) -> None:
    """Raises Refused for a breach."""
    if breach is not None:
        text = f"{breach.why} is not allowed for {terms.host}"
        raise Refused(breach.status, "contract-refused", text, column=breach.column, value=breach.value)
