"""Secrets on an inspected connection: the placeholder of one is replaced by its value in a request, where its host is
the server's and the place is its; a request that has a placeholder anywhere else is refused; and what the server says
of a value is covered by the placeholder again. Bytes in, bytes out.

Values are here, in what is sent to their servers, and nowhere else: no message of this file has one in it.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from urllib.parse import quote, unquote_to_bytes

from pysandbox.gate.inspection.heads import Field, Head
from pysandbox.gate.inspection.passing import CoveredStream, Passing, Pieces, Replacing, Watching
from pysandbox.gate.inspection.spellings import covers, needles
from pysandbox.policy.names import matches
from pysandbox.policy.secret import BASIC, BODY, HEADER, QUERY
from pysandbox.shapes import NamedTuple, dataclass, field

BLANK = b"\0"
# What would have an answer come in a form, or in parts, in which a value is not seen.
IN_PART = frozenset((b"accept-encoding", b"range", b"if-range", b"te", b"a-im"))
IDENTITY = (b"accept-encoding", b"Accept-Encoding", b"identity")
FORMS = (b"application/json", b"application/x-www-form-urlencoded", b"text/plain")


class Withheld(Exception):
    """A message that is not passed on. `rule` is what refuses it."""

    def __init__(self, rule: str, why: str) -> None:
        super().__init__(why)
        self.rule, self.why = rule, why


@dataclass(slots=True)
class KnownSecret:
    """One of a cage's. `value` is empty where it was not to be had."""

    name: str
    placeholder: bytes
    value: bytes = field(repr=False)
    hosts: tuple[str, ...]
    places: tuple[str, ...]
    revoked: bool = False

    @property
    def is_held(self) -> bool:
        return bool(self.value) and not self.revoked

    def is_for(self, host: str) -> bool:
        return any(matches(each, host) for each in self.hosts)


class SecretSet:
    """The secrets of one cage, as the host program says them."""

    def __init__(self, said: bytes) -> None:
        self.all = [
            KnownSecret(each["name"], each["placeholder"].encode(), each["value"].encode(), tuple(each["hosts"]),
                        tuple(each["places"]))
            for each in json.loads(said)
        ]  # fmt: skip
        self.needles = [(text, each) for each in self.all for text in needles(each.placeholder)]
        self._covering: dict[str, Replacing | None] = {}

    def covering(self, host: str) -> Replacing | None:
        """What covers the values that this host has. What no secret is for is not looked through: it could say guesses,
        and see which one is covered."""
        if host not in self._covering:
            table: dict[bytes, bytes] = {}
            for each in self.all:
                if each.value and each.is_for(host):
                    table.update(covers(each.value, each.placeholder))
            self._covering[host] = Replacing(table) if table else None
        return self._covering[host]

    def revoke(self, name: str) -> None:
        """A value is put in nothing more; a connection that had it already is its owner's to end. What the server says
        of the value is covered all the same."""
        for each in self.all:
            if each.name == name:
                each.revoked = True


class ConnectionSecrets:
    """The secrets of a cage, on a connection to one host."""

    def __init__(self, held: SecretSet, host: str, *, secure: bool) -> None:
        self._held, self._host, self._secure = held, host, secure
        self._covering = held.covering(host)
        self.plain: tuple[bytes, list[tuple[bytes, bytes]]] = b"", []  # path and fields, without placeholders

    @property
    def placeholders(self) -> list[bytes]:
        """Texts that look like credentials, and are none."""
        return [each.placeholder for each in self._held.all]

    def may_hold(self, held: SecretSet, name: str) -> bool:
        """Whether what is to be sent here may have the value of this secret of a cage in it."""
        return self._held is held and any(each.name == name and each.is_for(self._host) for each in held.all)

    # ---- a request ----------------------------------------------------------------------------------------------

    def request(self, head: Head, path: bytes) -> tuple[Head, bytes]:
        """The head as it is sent. Raises Withheld."""
        usable = self.usable()
        left = [head.first[0]]
        path = _with_query(usable, path, left)
        fields = [(name, shown, _with_value(usable, name, value, left)) for name, shown, value in head.fields]
        self.refuse_any(b"\n".join((*left, *(shown for _, shown, _ in fields))))
        self.refuse_any(b"".join(left))
        at = len(left) - len(fields)
        query = b"&".join(left[2:at])
        self.plain = (
            left[1] + (b"?" + query if query else b""),
            [(each[1], said) for each, said in zip(fields, left[at:], strict=True)],
        )
        if self._covering is not None:
            fields = [*(each for each in fields if each[0] not in IN_PART), IDENTITY]
        return head._replace(fields=fields), path

    def request_body(self, head: Head) -> Passing:
        kinds = head.values(b"content-type")
        kind = kinds[0].partition(b";")[0].strip().lower() if len(kinds) == 1 else b""
        known = (kind in FORMS or kind.endswith(b"+json")) and not head.values(b"content-encoding")
        fit = (each for each in self.usable() if BODY in each.places and len(each.value) == len(each.placeholder))
        usable = list(fit) if known else []
        return RequestBody(self, usable)

    def sent_messages(self) -> Passing:
        return SentMessages(self)

    def received_messages(self) -> Passing:
        return ReceivedMessages(self, self._covering)

    def watching(self) -> Watching[KnownSecret]:
        """What sees a placeholder of the cage's, or a piece of one."""
        return Watching(self._held.needles)

    def refuse(self, secret: KnownSecret) -> None:
        """Raises Withheld: a placeholder was seen where it is not replaced."""
        if secret.revoked:
            raise Withheld("secret.revoked", f"the secret {secret.name} was revoked")
        if not secret.value:
            raise Withheld("secret.revoked", f"the value of the secret {secret.name} is not there any more")
        if not secret.is_for(self._host):
            raise Withheld("secret.hosts", f"the secret {secret.name} is not for {self._host}")
        if not self._secure:
            raise Withheld("secret.hosts", f"the secret {secret.name} is sent inside TLS alone")
        raise Withheld("secret.in", f"the secret {secret.name} may stand in {', '.join(secret.places)} alone")

    def usable(self) -> list[KnownSecret]:
        return [each for each in self._held.all if self._secure and each.is_held and each.is_for(self._host)]

    def refuse_any(self, said: bytes) -> None:
        """Raises Withheld where one is seen in it."""
        seen = self.watching().sees(said)
        if seen is not None:
            self.refuse(seen)

    def refuse_revoked(self, held: Sequence[KnownSecret]) -> None:
        """Raises Withheld for one that was held, and is no more."""
        for each in held:
            if not each.is_held:
                self.refuse(each)

    # ---- the answer ---------------------------------------------------------------------------------------------

    def response(self, head: Head) -> Head:
        """As the client is told it."""
        covering = self._covering
        if covering is None:
            return head
        fields: list[Field] = [(covering.whole(low), covering.whole(name), covering.whole(value))
                               for low, name, value in head.fields]  # fmt: skip
        return Head((head.first[0], covering.whole(head.first[1])), head.minor, fields)

    def response_body(self, head: Head) -> Passing | None:
        """Raises Withheld for one that cannot be looked through."""
        covering = self._covering
        if covering is None:
            return None
        if set(head.tokens(b"content-encoding")) - {b"identity"}:
            why = f"{self._host} has compressed its answer all the same, and a secret in it would not be seen"
            raise Withheld("secret.in", why)
        return ResponseBody(covering)


class RequestBody:
    def __init__(self, secrets: ConnectionSecrets, usable: Sequence[KnownSecret]) -> None:
        self._secrets, self._usable = secrets, usable
        self._watching = secrets.watching()
        self._values = Replacing({each.placeholder: each.value for each in usable}) if usable else None
        self._blanks = Replacing({each.placeholder: BLANK for each in usable}) if usable else None
        self._pieces = Pieces(self._values) if self._values is not None else None

    def take(self, said: bytes, *, last: bool) -> bytes:
        if self._pieces is None or self._values is None or self._blanks is None:
            self._look(said)
            return said
        said = self._pieces.take(said, last=last)
        self._look(self._blanks.whole(said))
        for each in self._usable:
            if not each.is_held and each.placeholder in said:
                self._secrets.refuse(each)
        return self._values.whole(said)

    def lines(self, said: bytes) -> bytes:
        self._look(BLANK + said)
        return said

    def _look(self, said: bytes) -> None:
        seen = self._watching.sees(said)
        if seen is not None:
            self._secrets.refuse(seen)


class ResponseBody:
    def __init__(self, covering: Replacing) -> None:
        self._covering, self._stream = covering, CoveredStream(covering)

    def take(self, said: bytes, *, last: bool) -> bytes:
        return self._stream.take(said, last=last)

    def lines(self, said: bytes) -> bytes:
        return self._covering.whole(said)


# ---- the messages of a WebSocket ---------------------------------------------------------------------------------


class SentMessages(RequestBody):
    """The messages of a client, one by one: none is a place of a secret. They end when one of the host's is revoked,
    since the handshake may have opened the connection with it."""

    def __init__(self, secrets: ConnectionSecrets) -> None:
        super().__init__(secrets, ())
        self._held = secrets.usable()

    def take(self, said: bytes, *, last: bool) -> bytes:
        self._secrets.refuse_revoked(self._held)
        return super().take(said, last=last)

    def lines(self, said: bytes) -> bytes:
        """What a control frame says, which may come in the middle of a message."""
        self._secrets.refuse_revoked(self._held)
        self._secrets.refuse_any(BLANK + said)
        return said


class ReceivedMessages:
    """The messages of a server. The last word of each waits for its end."""

    def __init__(self, secrets: ConnectionSecrets, covering: Replacing | None) -> None:
        self._secrets, self._held = secrets, secrets.usable()
        self._body = ResponseBody(covering) if covering is not None else None

    def take(self, said: bytes, *, last: bool) -> bytes:
        self._secrets.refuse_revoked(self._held)
        return said if self._body is None else self._body.take(said, last=last)

    def lines(self, said: bytes) -> bytes:
        self._secrets.refuse_revoked(self._held)
        return said if self._body is None else self._body.lines(said)


# ---- the places of a head ----------------------------------------------------------------------------------------


class Put(NamedTuple):
    """A text with the values in it, and without the placeholders that they replaced."""

    sent: bytes
    left: bytes


def _with_query(usable: Sequence[KnownSecret], path: bytes, left: list[bytes]) -> bytes:
    before, mark, query = path.partition(b"?")
    put = [_with_pair(usable, each) for each in query.split(b"&")]
    left += [before, *(each.left for each in put)]
    return before + mark + b"&".join(each.sent for each in put)


def _with_pair(usable: Sequence[KnownSecret], pair: bytes) -> Put:
    key, _, value = pair.partition(b"=")
    place, meant = QUERY.encode() + unquote_to_bytes(key), unquote_to_bytes(value)
    for each in usable:
        if meant == each.placeholder and place.decode("utf-8", "replace") in each.places:
            return Put(key + b"=" + quote(each.value, safe="").encode(), key)
    return Put(pair, pair)


def _with_value(usable: Sequence[KnownSecret], name: bytes, value: bytes, left: list[bytes]) -> bytes:
    """A field as it is sent; what is left of it, without the placeholders that were replaced, is added to `left`."""
    place = HEADER + name.decode("ascii")
    put = Put(value, value)
    if name == b"authorization" and value[:6].lower() == b"basic ":
        put = _with_basic([each for each in usable if BASIC in each.places], value)
    for each in usable:
        if place in each.places:
            put = Put(put.sent.replace(each.placeholder, each.value), put.left.replace(each.placeholder, BLANK))
    left.append(put.left)
    return put.sent


def _with_basic(usable: Sequence[KnownSecret], value: bytes) -> Put:
    try:
        said = base64.b64decode(value[6:].strip(), validate=True)
    except (binascii.Error, ValueError):
        return Put(value, value)
    put = Put(said, said)
    for each in usable:
        put = Put(put.sent.replace(each.placeholder, each.value), put.left.replace(each.placeholder, BLANK))
    if put.sent == said:
        return Put(value, value)
    return Put(value[:6] + base64.b64encode(put.sent), put.left)
