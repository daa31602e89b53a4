"""What a client's first bytes say about where it wants to go, held against where it was let to. Pure.

A connection is allowed because of a name; what is then said in it may name another one, and a server that serves many
names would follow it (PROXY-26). So the name in a TLS hello must be the target's; HTTP is handed to the forwarder,
which holds every request's Host against it; and what is neither is passed on where no protocol is expected. Port 443 is
for TLS and port 80 for HTTP. An address that is listed may be spoken to under no name, or under one that is allowed.

Nothing is decided by time, but who waits: a hello or a request in pieces is waited for until it is whole. Words that
begin no request of a method that is known (`ruok`, `12345`, `HELO x`) need not wait for the end of their line: they go
ahead, and the line is looked at on. Should it become a request after all, it is cut off before its end has left, so no
server has ever read one that the rules were not held against. What a request is, is what the most lenient server takes
for one: Python's own splits a line at every white space of Latin-1, minds no NUL, and reads headers after HTTP/0.9.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum

from pysandbox.gate.tcp.sni import HANDSHAKE, ClientHello, HelloReader, NotTls
from pysandbox.gate.tcp.target import DialTarget
from pysandbox.policy.names import BadName, canonical
from pysandbox.shapes import NamedTuple

HTTPS, HTTP = 443, 80
LONGEST_LINE = 65536  # of what may become the first line of a request
WHITE = b" \t\r\n\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0"  # what some server skips before a request, or splits its line at
LONGEST_METHOD = 64
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VERSION = b"HTTP/"  # in any letters; each line that has it is a request
OLD_REQUEST = re.compile(rb"GET[%s]+[^%s]*/[^%s]*[%s]*" % ((re.escape(WHITE),) * 4))  # HTTP/0.9: servers read headers
METHODS = tuple(
    b"GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH PRI QUERY COPY LOCK MKCOL MOVE PROPFIND PROPPATCH UNLOCK "
    b"REPORT SEARCH MKCALENDAR MKACTIVITY CHECKOUT MERGE BIND REBIND UNBIND ACL LINK UNLINK PURGE".split()
)  # of which a request may come in pieces
HARMLESS = 3  # bytes of a hello that tell nobody anything
UNRECOGNIZED_NAME = bytes((21, 3, 3, 0, 2, 2, 112))  # a fatal alert, RFC 8446 6.2

MayName = Callable[[str, int], bool]  # whether the rules allow a name at a port


class Way(Enum):
    PASS = "pass"  # nothing more to look at
    HTTP = "http"  # the forwarder looks at each request
    REFUSE = "refuse"


class SniffResult(NamedTuple):
    way: Way
    why: str = ""
    answer: bytes = b""  # what the client understands before it is hung up on


class Sniffer:
    """`said` is all that was heard: it is passed on as it came."""

    def __init__(self, target: DialTarget, may_name: MayName) -> None:
        self.target, self._may_name = target, may_name
        self.said = bytearray()
        self.name: bytes | None = None  # that a hello has named, as it was sent
        self._tls: HelloReader | None = None
        self._start = 0  # of the first line that is not blank
        self._searched = 0  # up to here there is no end of it
        self._method_ended = False
        self._is_line = False

    def read(self, said: bytes) -> SniffResult | None:
        """Takes more bytes; the verdict, or None while there is none yet."""
        self.said += said
        try:
            if self._tls is not None:
                return self._judge(self._tls.feed(said))
            return self._first()
        except NotTls as error:
            return SniffResult(Way.REFUSE, f"not a TLS hello: {error}")

    @property
    def is_tls(self) -> bool:
        return self._tls is not None

    @property
    def after_hello(self) -> bytes:
        """What has come after a hello."""
        return self._tls.rest if self._tls is not None else b""

    def goes_ahead(self, *, late: bool = False) -> bool:
        """While there is no verdict: whether the bytes may be passed on to the server already. `late`: there was time
        for the rest to come."""
        if self._is_target(HTTPS) or self._is_target(HTTP):
            return False
        if self._is_line:
            method = TOKEN.match(self.said, self._start)
            begun = method.group() if method else b""
            known = begun in METHODS if self._method_ended else any(each.startswith(begun) for each in METHODS)
            return late or not known
        return late and len(self.said) <= HARMLESS

    def end(self) -> SniffResult:
        """The verdict when the client sends no more."""
        if not self.said:
            return SniffResult(Way.PASS)
        if self._tls is not None or self._is_target(HTTPS):
            return SniffResult(Way.REFUSE, "the TLS hello was never finished")
        return SniffResult(Way.PASS)

    def _is_target(self, port: int) -> bool:
        return self.target.port == port and is_name(self.target.host)

    def _first(self) -> SniffResult | None:
        if not self.said:
            return None
        if self.said[0] == HANDSHAKE and (len(self.said) == 1 or self.said[1] == 3):
            if self._is_target(HTTP):
                return SniffResult(Way.REFUSE, "TLS at port 80, which is for HTTP")
            if len(self.said) == 1:
                return None
            self._tls = HelloReader()
            return self._judge(self._tls.feed(bytes(self.said)))
        if self._is_target(HTTPS):
            return SniffResult(Way.REFUSE, "no TLS at port 443")
        if self._is_target(HTTP):
            return SniffResult(Way.HTTP)
        return self._neither()

    def _neither(self) -> SniffResult | None:
        """Judges what is not TLS: HTTP if the first line that is not blank is a request. Reads each byte once."""
        said = self.said
        if said[0] & 0x80:
            verdict = self._old_hello()
            if verdict is None or verdict.way is Way.REFUSE or said[0] not in WHITE:
                return verdict
        self._is_line = True
        while self._start < len(said) and said[self._start] in WHITE:
            self._start += 1
        newline = said.find(b"\n", max(self._searched, self._start))
        end = newline if newline >= 0 else len(said)
        if self._is_no_request(end):
            return SniffResult(Way.PASS)
        if VERSION in said[max(self._start, self._searched - len(VERSION)) : end].upper():
            return SniffResult(Way.HTTP)
        if newline >= 0:
            return SniffResult(Way.HTTP if OLD_REQUEST.fullmatch(said, self._start, end) else Way.PASS)
        self._searched = len(said)
        return self._too_long() if len(said) > LONGEST_LINE else None

    def _too_long(self) -> SniffResult:
        if b"\0" in self.said:  # bytes of another protocol: no server reads a line of this length with them
            return SniffResult(Way.PASS)
        return SniffResult(Way.REFUSE, f"a first line of more than {LONGEST_LINE} bytes")

    def _is_no_request(self, end: int) -> bool:
        """A method and white space: else no server reads a request in it, however it goes on."""
        if self._method_ended or self._start == end:
            return False
        method = TOKEN.match(self.said, self._start, min(end, self._start + LONGEST_METHOD + 1))
        if method is None or method.end() - self._start > LONGEST_METHOD:
            return True
        self._method_ended = method.end() < end
        return self._method_ended and self.said[method.end()] not in WHITE

    def _old_hello(self) -> SniffResult | None:
        """A hello in the form of SSL 2, which some servers still answer with TLS, has no room for a name."""
        if len(self.said) >= 4:
            is_hello = self.said[2] == 1 and self.said[3] == 3
            return SniffResult(Way.REFUSE, "a hello in the form of SSL 2") if is_hello else SniffResult(Way.PASS)
        return None if len(self.said) < 3 or self.said[2] == 1 else SniffResult(Way.PASS)

    def _judge(self, hello: ClientHello | None) -> SniffResult | None:
        if hello is None:
            return None
        self.name = hello.name
        if hello.name is None:
            if is_name(self.target.host):
                return SniffResult(Way.REFUSE, "a TLS hello without a server name", UNRECOGNIZED_NAME)
            return SniffResult(Way.PASS)
        why = disagreement("TLS", hello.name, self.target, self._may_name)
        return SniffResult(Way.REFUSE, why, UNRECOGNIZED_NAME) if why else SniffResult(Way.PASS)


def disagreement(where: str, said: bytes, target: DialTarget, may_name: MayName) -> str:
    """Why a host that was named may not be named in a connection to the target; empty when it may."""
    try:
        host = canonical(said)
    except BadName as error:
        return f"{where} names no host: {error}"
    if str(host) == target.host:
        return ""
    if isinstance(host, str) and not is_name(target.host) and may_name(host, target.port):
        return ""
    return f"{where} names {host} in a connection to {target.host}"


def is_name(host: str) -> bool:
    """Whether a canonical host is a name, and not an address."""
    return isinstance(canonical(host), str)
