"""HTTP/1 heads as they pass the gatekeeper (RFC 9110, 9112): where a request wants to go, what of it is forwarded, and
how it is refused. Pure.

h11 reads the bytes; what is forwarded is written anew from what it understood, so that nobody behind it can understand
something else. What has two readings is refused before.
"""

from __future__ import annotations

from collections.abc import Iterable

import h11

from pysandbox.gate.rules import Decision
from pysandbox.gate.tcp.target import Denied, DialTarget
from pysandbox.policy.names import BadName, canonical
from pysandbox.shapes import NamedTuple, TypeAlias

Headers: TypeAlias = "list[tuple[bytes, bytes]]"

HTTP, HTTPS = 80, 443
LONGEST_HEAD = 65536
HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"http2-settings")
)
# An upgrade to these would say hosts that nobody looks at.
NO_UPGRADE = (b"h2", b"http", b"tls")
ERROR = b"x-pysandbox-error"
BY_HOST = ("host", "host.ports")  # rules of a Decision


class BadRequest(Exception):
    """The request cannot be forwarded; the text says why, and what to do."""

    def __init__(self, why: str, status: int = 400) -> None:
        super().__init__(why)
        self.status = status


class Authority(NamedTuple):
    host: str  # canonical
    port: int | None


def authority(text: bytes) -> Authority:
    """host[:port]. Raises BadRequest."""
    host, port = text, b""
    if text.startswith(b"["):
        inside, bracket, port = text.partition(b"]")
        host = inside + bracket
        if port and not port.startswith(b":"):
            raise BadRequest("after ] only a port may follow")
        port = port[1:]
    elif b":" in text:
        host, _, port = text.partition(b":")
    if port and not (port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise BadRequest("the port is no number from 1 to 65535")
    try:
        return Authority(str(canonical(host)), int(port) if port else None)
    except BadName as error:
        raise BadRequest(f"the host is none: {error}") from None


def connect_target(request: h11.Request) -> DialTarget:
    """Where a CONNECT request leads. Raises BadRequest."""
    wanted = authority(request.target)
    if wanted.port is None:
        raise BadRequest("CONNECT wants host:port")
    host = _host(request)
    if host is not None and (host.host != wanted.host or host.port not in (None, wanted.port)):
        raise BadRequest(f"CONNECT to {wanted.host}:{wanted.port} with Host: {host.host}")
    return DialTarget(wanted.host, wanted.port)


def absolute_target(request: h11.Request) -> tuple[DialTarget, bytes]:
    """Where a request for http://host[:port]/path leads, and its target in origin-form. Raises BadRequest."""
    scheme, separator, rest = request.target.partition(b"://")
    if request.target.startswith(b"/") or not separator:
        raise BadRequest("this is a proxy: ask for http://HOST/PATH, or with CONNECT HOST:PORT")
    if scheme.lower() != b"http":
        raise BadRequest(f"{scheme.decode('ascii', 'replace')}:// is not forwarded; use CONNECT for https")
    cut = min((rest.find(mark) for mark in (b"/", b"?", b"#") if mark in rest), default=len(rest))
    wanted, path = authority(rest[:cut]), rest[cut:].partition(b"#")[0]
    if not path.startswith(b"/"):
        path = b"/" + path
    target = DialTarget(wanted.host, wanted.port or HTTP)
    if target.port == HTTPS:
        raise BadRequest("port 443 is for TLS: use CONNECT")
    host = _host(request)
    if host is not None and (host.host, host.port or HTTP) != target:
        raise BadRequest(f"a request for {target.host}:{target.port} with Host: {host.host}:{host.port or HTTP}")
    return target, path


def origin_form(request: h11.Request) -> tuple[Authority | None, bytes]:
    """For a request to a server, not to a proxy: the host it names, and the target to forward. Raises BadRequest."""
    if request.method == b"CONNECT":
        raise BadRequest("CONNECT is for a proxy", 405)
    if request.target.startswith(b"/") or (request.target == b"*" and request.method == b"OPTIONS"):
        return _host(request), request.target
    target, path = absolute_target(request)  # a server has to accept it (RFC 9112 3.2.2)
    return Authority(*target), path


def forwarded(request: h11.Request, path: bytes, host: bytes) -> h11.Request:
    """The request as it is sent to the server. Raises BadRequest."""
    names = [name for name, _ in request.headers]
    chunked = b"transfer-encoding" in names
    if chunked and b"content-length" in names:
        raise BadRequest("both Content-Length and Transfer-Encoding: where the request ends has two readings")
    if chunked and request.http_version < b"1.1":
        raise BadRequest("Transfer-Encoding in HTTP/1.0")
    if any(ord("!") > letter or letter == 127 for letter in path):
        raise BadRequest("a request target with a space or a control byte in it")
    kept = [(name, value) for name, value in end_to_end(request.headers) if name != b"host"]
    extra = [(b"Transfer-Encoding", b"chunked")] if chunked else []
    headers = [(b"Host", host), *_raw(kept), *extra, *_upgrade(request)]
    return h11.Request(method=request.method, target=path, headers=headers)


def host_header(target: DialTarget) -> bytes:
    host = f"[{target.host}]" if ":" in target.host else target.host
    return (host if target.port == HTTP else f"{host}:{target.port}").encode()


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """The fields that are not for the next hop alone (RFC 9110 7.6.1). Connection may not name the framing."""
    headers = list(headers)
    named = {token for name, value in headers if name == b"connection" for token in tokens(value)}
    dropped = HOP_BY_HOP | (named - {b"content-length", b"host"})
    return [each for each in headers if each[0] not in dropped and not each[0].startswith(b"proxy-")]


def answered(response: h11.Response, *, close: bool) -> h11.Response:
    """The response as it is sent to the client; h11 frames it anew."""
    chunked = any(name == b"transfer-encoding" for name, _ in response.headers)
    kept = [each for each in end_to_end(response.headers) if not (chunked and each[0] == b"content-length")]
    extra = [(b"Connection", b"close")] if close else []
    return h11.Response(status_code=response.status_code, reason=response.reason, headers=[*_raw(kept), *extra])


def wants_close(response: h11.Response) -> bool:
    said = {token for name, value in response.headers if name == b"connection" for token in tokens(value)}
    return b"close" in said or (response.http_version < b"1.1" and b"keep-alive" not in said)


def refusal(status: int, code: str, text: str) -> tuple[h11.Response, bytes]:
    body = f"pysandbox: {text}\n".encode()
    headers = [
        (b"Content-Type", b"text/plain; charset=utf-8"), (b"Content-Length", str(len(body)).encode()),
        (ERROR, code.encode()), (b"Connection", b"close"),
    ]  # fmt: skip
    return h11.Response(status_code=status, headers=headers), body


def denial(denied: Denied) -> tuple[h11.Response, bytes]:
    target, decision = denied.target, denied.decision
    return blocked(f"{target.host}:{target.port} is not allowed", decision)


def blocked(what: str, decision: Decision) -> tuple[h11.Response, bytes]:
    """What a [[host]] block decides has a status of its own; 403 is for addresses, and for what a name leads to."""
    status, code = (415, "contract-refused") if decision.rule in BY_HOST else (403, "policy-blocked")
    lines = decision.fix.replace("\n", "\n    ")
    fix = f"\nThis in the policy would allow it:\n    {lines}" if lines else ""
    return refusal(status, code, f"{what} ({decision.rule}).{fix}")


def tokens(value: bytes) -> list[bytes]:
    """The elements of a comma-separated list, in lower case; empty ones are ignored (RFC 9110 5.6.1)."""
    return [token for each in value.split(b",") if (token := each.strip().lower())]


def _host(request: h11.Request) -> Authority | None:
    """What the Host field names; h11 allows one at most. None where it is empty or absent (HTTP/1.0)."""
    for name, value in request.headers:
        if name == b"host" and value:
            return authority(value)
    return None


def _upgrade(request: h11.Request) -> Headers:
    """The Upgrade field to send on, unless it asks for a protocol that names hosts itself."""
    asked = [token for name, value in request.headers if name == b"upgrade" for token in tokens(value)]
    kept = [token for token in asked if not token.startswith(NO_UPGRADE)]
    if not kept:
        return []
    return [(b"Connection", b"upgrade"), (b"Upgrade", b", ".join(kept))]


def _raw(headers: Headers) -> Headers:
    """The fields with their names as they are usually written: h11 shows them in lower case."""
    return [(b"-".join(part.capitalize() for part in name.split(b"-")), value) for name, value in headers]
