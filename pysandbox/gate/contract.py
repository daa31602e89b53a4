"""What a [[host]] block says of requests, held against one request's head: the permission, or a refusal that says which
column refused, and what would allow it. Pure; the inspector asks it for every request of every connection.

A path is compared as a server reads it, piece by piece. One that has two readings (`..`, `//`, an encoded slash, a
double encoding) is refused where a block names paths, because nobody knows which of them the server takes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import unquote_to_bytes

from pysandbox.compile.plan import Contract, HostGrant
from pysandbox.shapes import NamedTuple

OVERRIDES = frozenset((b"x-http-method-override", b"x-http-method", b"x-method-override"))
PLAIN = re.compile(rb"(?:/[A-Za-z0-9_~!$&'()*+,=:@-][A-Za-z0-9._~!$&'()*+,=:@-]*)+/?")  # it has one reading
UNREADABLE = re.compile(rb"%(?:2[fF]|5[cC]|25|[01][0-9a-fA-F]|7[fF])|%(?![0-9a-fA-F]{2})|\\")
VALUE = re.compile(r"[A-Za-z0-9!#$%&'()*+,./:;=?@_~ -]{1,300}")  # of what is named in a fix
TYPE = re.compile(rb"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+")


class Breach(NamedTuple):
    """`column` is the key of [[host]] that refused, `value` what would have to stand there ("": nothing would help)."""

    status: int
    column: str
    why: str
    value: str = ""


class Asked(NamedTuple):
    """One request, as far as a contract sees it; names of fields in lower case."""

    method: bytes
    path: bytes  # with its query
    fields: tuple[tuple[bytes, bytes], ...]
    length: int | None  # of the body; None where it is not told before
    has_body: bool
    opens_websocket: bool = False


def decide(contract: Contract, asked: Asked) -> Breach | None:
    """The first refusal, in the order of the columns; None for a request that may pass."""
    return (
        _method(contract, asked) or _path(contract, asked) or _content_type(contract, asked)
        or too_large(contract, asked.length or 0) or _websocket(contract, asked)
    )  # fmt: skip


def too_large(contract: Contract, size: int, *, so_far: bool = False) -> Breach | None:
    """For a body of so many bytes, or of nobody knows how many of which these have come: then twice as much as is
    allowed is offered, since the next one would be refused a little later with what has come."""
    most = contract.max_request_bytes
    if most is None or size <= most:
        return None
    value = max(size, 2 * most) if so_far else size
    return Breach(413, "max_request_bytes", f"a body of more than {most} bytes", str(value))


def _method(contract: Contract, asked: Asked) -> Breach | None:
    if not contract.methods:
        return None
    allowed = _upper(contract.methods)
    named = [asked.method, *(value.strip() for name, value in asked.fields if name.replace(b"_", b"-") in OVERRIDES)]
    for each in named:
        method = each.decode("ascii", "replace").upper()
        if method not in allowed:
            return Breach(415, "methods", f"the method {method[:64]}", _value(method))
    return None


def _path(contract: Contract, asked: Asked) -> Breach | None:
    if not contract.paths:
        return None
    path = asked.path.partition(b"?")[0]
    pieces = readable(path)
    if pieces is None:
        return Breach(415, "paths", f"a path that has two readings, {_shown(path)}")
    for wanted in _prefixes(contract.paths):
        inside = not wanted[-1]  # it ends in a slash: what is below
        if pieces[: len(wanted) - inside] == wanted[: len(wanted) - inside] and len(pieces) >= len(wanted):
            return None
    return Breach(415, "paths", f"the path {_shown(path)}", _value(path.decode("ascii", "replace")))


@lru_cache(maxsize=64)
def _upper(methods: tuple[str, ...]) -> frozenset[str]:
    return frozenset(each.upper() for each in methods)


@lru_cache(maxsize=64)
def _prefixes(paths: tuple[str, ...]) -> tuple[list[bytes], ...]:
    """The pieces of each."""
    return tuple([unquote_to_bytes(each) for each in prefix.encode().split(b"/")[1:]] for prefix in paths)


def readable(path: bytes) -> list[bytes] | None:
    """The pieces of a path between its slashes, decoded; None where another reader may find other ones."""
    if PLAIN.fullmatch(path):
        return path.split(b"/")[1:]
    if not path.startswith(b"/") or UNREADABLE.search(path):
        return None
    pieces = [unquote_to_bytes(each) for each in path.split(b"/")[1:]]
    for index, piece in enumerate(pieces):
        bare = piece.partition(b";")[0]  # some servers cut parameters off before they look
        if bare in (b".", b"..") or (not bare and index < len(pieces) - 1) or (not bare and piece):
            return None
        try:
            piece.decode("utf-8")  # refuses what is longer than it need be
        except UnicodeDecodeError:
            return None
    return pieces


def _content_type(contract: Contract, asked: Asked) -> Breach | None:
    if not contract.content_types or not asked.has_body:
        return None
    given = [value for name, value in asked.fields if name == b"content-type"]
    if len(given) != 1:
        return Breach(415, "content_types", "a body with no Content-Type" if not given else "two Content-Types")
    kind = given[0].partition(b";")[0].strip()
    if not TYPE.fullmatch(kind):
        return Breach(415, "content_types", "a Content-Type that is none")
    text = kind.decode("ascii").lower()
    if text not in (each.lower() for each in contract.content_types):
        return Breach(415, "content_types", f"the content type {text}", text)
    return None


def _websocket(contract: Contract, asked: Asked) -> Breach | None:
    if not asked.opens_websocket or contract.websocket:
        return None
    return Breach(415, "websocket", "a WebSocket", "true")


def _value(text: str) -> str:
    return text if VALUE.fullmatch(text) else ""


def _shown(path: bytes) -> str:
    return path[:200].decode("ascii", "backslashreplace")


LISTS = ("methods", "paths", "content_types")
LISTED_BY_A_FIX = "generic_high_entropy"  # no credential is
COLUMNS = (*LISTS, "max_request_bytes", "websocket")


def fix(host: str, contract: Contract, column: str, value: str) -> str:
    """The block that would allow it beside what is allowed already; "" where no text does. The value may come from a
    stranger: only what `VALUE` knows is written."""
    from pysandbox.handlers.fix import text

    if column.startswith("dlp."):
        listed = {**_rest(contract, column), "domain": host, "allow_credentials": [*contract.credentials, value]}
        return text(hosts=(listed,)) if value == LISTED_BY_A_FIX else ""
    if column not in COLUMNS or not VALUE.fullmatch(value):
        return ""
    if column == "max_request_bytes":
        fits = value.isdigit() and len(value) < 13
        return text(hosts=({**_rest(contract, column), "domain": host, column: int(value)},)) if fits else ""
    if column == "websocket":
        return text(hosts=({**_rest(contract, column), "domain": host, column: True},))
    if column == "paths" and (readable(value.encode()) is None or {"*", "**"} & set(value.split("/"))):
        return ""
    had = getattr(contract, column)
    return text(hosts=({**_rest(contract, column), "domain": host, column: [*had, value]},))


def private_fix(host: str, grants: Sequence[HostGrant], address: str, *, scans: bool) -> str:
    """The block by which a name may lead to a private address, beside what it is allowed by the grants that decide.
    `scans`: requests are looked at whatever a block says."""
    from pysandbox.handlers.fix import text

    grant = next((each for each in grants if each.contract is not None), grants[0])
    contract = grant.contract or Contract(ports=grant.ports, websocket=grant.websocket)
    said = {**_rest(contract, ""), "domain": host}
    if grant.direct:
        said["direct"] = True
    if contract.told:
        said["contract_mode"] = "relaxed"
    elif grant.contract is not None and not scans and not said.keys() & {*LISTS, "max_request_bytes"}:
        said["tls"] = "inspect"  # which alone has its requests looked at
    return text(hosts=({**said, "private_addresses": [*grant.private, address]},))


def _rest(contract: Contract, column: str) -> dict[str, object]:
    """What the block says besides: a block of its own for this name would say less."""
    said: dict[str, object] = {"domain": "", "ports": list(contract.ports)} if contract.ports else {"domain": ""}
    for each in LISTS:
        if each != column and getattr(contract, each):
            said[each] = list(getattr(contract, each))
    if contract.max_request_bytes is not None:
        said["max_request_bytes"] = contract.max_request_bytes
    if contract.websocket:
        said["websocket"] = True
    if contract.credentials:
        said["allow_credentials"] = list(contract.credentials)
    if contract.private:
        said["private_addresses"] = list(contract.private)
    return said
