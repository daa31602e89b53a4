"""Leak detection at the inspector: every request is looked at before a byte of it is sent, in each of its places, and
refused where it has a credential that may not go to its host, or cannot be looked at as a whole.

A value is seen here and nowhere else: what is told of it is the name of its detector, the place, how it begins, and a
fingerprint by a key that this process made (`pysandbox.dlp.redact`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from itertools import islice

from pysandbox.dlp import canary
from pysandbox.dlp.decode import SMALL
from pysandbox.dlp.detector import Detector
from pysandbox.dlp.ending import Endings
from pysandbox.dlp.engine import OVERLAP, Finding, Scan, scan
from pysandbox.dlp.opaque import ENTROPY, stretches
from pysandbox.dlp.passes import Buffer
from pysandbox.dlp.registry import BEARER
from pysandbox.dlp.scope import may_go
from pysandbox.dlp.spending import Spending
from pysandbox.dlp.wanted import Wanted
from pysandbox.dlp.work import Undecodable
from pysandbox.gate.inspection.asking import pieces
from pysandbox.gate.inspection.bodies import Body, Nothing
from pysandbox.gate.inspection.codings import IDENTITY, UnreadableCoding, plain
from pysandbox.gate.inspection.grpc_messages import GrpcMessages, is_grpc
from pysandbox.gate.inspection.heads import Field, Head
from pysandbox.gate.inspection.held_body import HeldBody
from pysandbox.gate.inspection.holding import BodyPart, HoldBack, Unended, Whole
from pysandbox.gate.inspection.leak import DETECTOR, REASON, WARNING, Leak
from pysandbox.gate.inspection.places import APART, Fields, in_parts, pieced, places, strings
from pysandbox.gate.inspection.room import Room
from pysandbox.gate.inspection.scanned_messages import JOINED, ScannedMessages
from pysandbox.shapes import Any, NamedTuple

UNDECODABLE, OVERSPENT, CALLBACK = "undecodable-body", "session-budget", "leak_fn"
BLOCKED, WARNED, HOME, LISTED = "blocked", "warned", "home", "listed"
BLANK = b"\0"
BEGUN = "the body, whose beginning was sent"
MOST_PLACES = 64  # of a head that are looked at one by one, to tell which one it is
MOST_TOLD = 64  # finds of one connection that are told one by one


Refused = Callable[[str, int, bytes], str]  # (place, offset, bytes) to why it is refused, or ""


class CredentialFound(NamedTuple):
    """A find, as the host program hears of it."""

    detector: str
    place: str
    shown: str
    verdict: str


class PlanScan:
    """How the requests of one plan are looked at."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.key = os.urandom(32)
        self.depth: int = given["depth"]
        self.whole: int = given["whole"]
        self.scopes = {name: tuple(domains) for name, domains in given["scopes"]}
        self.warns: bool = given["warns"]
        self.budget: int = given["budget"]
        self.blocks_opaque: bool = given.get("blocks_opaque", False)
        self.undoes: bool = given.get("undoes_codings", True)
        self._own, self._any_bearer = given["detectors"], given.get("any_bearer", True)
        self.look_for({})

    def of_cage(self, canaries: Mapping[str, str]) -> PlanScan:
        """What looks for the false credentials of one cage besides."""
        if not canaries:
            return self
        made = copy(self)
        made.look_for(canaries)
        return made

    def look_for(self, canaries: Mapping[str, str]) -> None:
        wanted = Wanted(self._own, canaries, any_bearer=self._any_bearer)
        self.by_name, self._nominator, self._bare = wanted.by_name, wanted.nominator, wanted.bare
        self.endings = Endings(wanted.rows, wanted.nominator)

    def scan(self, said: Buffer, *, whole: bool = True) -> Scan:
        return Scan(said, self.key, depth=self.depth, whole=whole, nominator=self._nominator, bare=self._bare)

    def found(self, said: bytes) -> tuple[Finding, ...]:
        """Raises Undecodable."""
        return scan(said, self.key, depth=self.depth, nominator=self._nominator, bare=self._bare)

    def spending(self) -> Spending:
        """What one host may be sent of opaque bytes, in one session."""
        return Spending(self.budget, names_alone=self.blocks_opaque)

    def clean(self, said: str) -> str:
        """A stranger's words, where they have no credential in them."""
        try:
            return "" if self.found(said.encode()) else said
        except Undecodable:
            return ""


class ConnectionScan:
    """The scan of one connection. `wake` is called when a body that waited for its room has it."""

    def __init__(
        self, plan: PlanScan, host: str, listed: tuple[str, ...], tell: Callable[[CredentialFound], object], room: Room,
        fakes: Sequence[bytes] = (), spending: Spending | None = None, refused: Refused | None = None,
    ) -> None:  # fmt: skip
        """No find is made of `fakes`, which look like credentials. `spending`: of this cage, at this host. `refused`
        asks the host's callback."""
        self._plan, self._host, self._listed, self._tell = plan, host, listed, tell
        self._room, self._fakes, self._refused = room, fakes, refused
        self._spending = None if self._verdict(ENTROPY) in (HOME, LISTED) else spending or plan.spending()
        self._told: set[tuple[str, str, str]] = set()
        self._warnings: list[str] = []
        self.wake: Callable[[], object] = lambda: None

    def another(self) -> ConnectionScan:
        """For a request beside others of the same connection: its warnings are its own."""
        made = copy(self)
        made.forget_warnings()
        return made

    def forget_warnings(self) -> None:
        """Drops the warnings of the request before."""
        self._warnings = []

    # ---- a request ----------------------------------------------------------------------------------------------

    def request(self, method: bytes, path: bytes, fields: Fields) -> None:
        """Raises Leak."""
        self._warnings = []
        host = self._host.encode()
        whole = APART.join((method, host, path, *(name + b": " + value for name, value in fields)))
        try:
            found = self._plan.found(whole)
            if len(whole) > SMALL:  # in a long text some encodings are not looked for
                parts = in_parts((said for _, said in places(method, host, path, fields)), SMALL)
                found += tuple(each for said in parts for each in self._plan.found(said))
            found += tuple(each for each in self._plan.found(APART.join(pieced(path, fields)))
                           if each.detector != BEARER or each.via)  # fmt: skip
        except Undecodable as error:
            self._cannot(f"the head cannot be looked at: {error}", "the head", "undecodable-head")
            return
        if found:
            self._judge(found, lambda each: self._place(each, method, path, fields))
        for _ in self._spend(APART.join((path, *(name + b": " + value for name, value in fields))), "the head"):
            pass
        lines = b"\r\n".join((method + b" " + path, *(name + b": " + value for name, value in fields)))
        for _ in self._consult(lines, "the head"):
            pass

    def body(self, head: Head, body: Body, length: int | None) -> Body:
        if isinstance(body, Nothing):
            return body
        codings = head.tokens(b"content-encoding")

        def look(part: BodyPart, trailer: bytes, has_sent: bool) -> Iterator[int]:
            return self._look(part, trailer, codings, BEGUN if has_sent else "the body")

        return HeldBody(body, look, self._holding(head, codings, length), self._room, lambda: self.wake())

    def _holding(self, head: Head, codings: list[bytes], length: int | None) -> HoldBack:
        """What has a known end is held as a whole, and so is what is compressed as a whole."""
        most, endings = self._plan.whole, self._plan.endings
        if any(each != IDENTITY for each in codings):
            return Whole(most, length or most)
        if is_grpc(head.values(b"content-type")):
            return GrpcMessages(endings.is_open, most, head.tokens(b"grpc-encoding") if self._plan.undoes else [])
        return Whole(most, length) if length is not None else Unended(endings.steps, most)

    def messages(self) -> ScannedMessages:
        return ScannedMessages(self._look_at_message)

    def warnings(self) -> list[Field]:
        return [(WARNING, WARNING, each.encode()) for each in dict.fromkeys(self._warnings)]

    def _look(self, part: BodyPart, trailer: bytes, codings: list[bytes], place: str) -> Iterator[int]:
        said = part.said
        try:
            if part.why:
                raise UnreadableCoding(part.why)
            if not self._plan.undoes and any(each != IDENTITY for each in codings):
                raise UnreadableCoding("it has a Content-Encoding, and the policy says decompress = false")
            if codings and not part.is_whole:
                raise UnreadableCoding("it is compressed, and more than is looked at as a whole")
            for fake in self._fakes:  # in as many bytes: the part says where in it something is known
                said = said.replace(fake, BLANK.ljust(len(fake))) if fake in said else said
            said = yield from plain(said, codings, self._plan.whole)
            made = self._plan.scan(b"".join((said, APART, trailer)) if trailer else said, whole=part.is_whole)
            yield from made.steps()
        except (Undecodable, UnreadableCoding) as error:
            why = f"{place} cannot be looked at: {error}; max_buffered_body_bytes in [proxy] says how much is"
            self._cannot(why, place, UNDECODABLE)
            return
        if made.findings:
            self._judge(made.findings, lambda each: self._place_in_body(each, said, trailer, place))
        yield from self._spend(said, place, part.known)
        yield from self._spend(trailer, "the trailer")
        yield from self._consult(said, place)
        yield from self._consult(trailer, "the trailer")

    def _look_at_message(self, said: bytearray, before: bytes, begins: bool, ends: bool) -> None:
        """Raises Leak."""
        self._warnings = []  # an answer that could tell them is over
        content = said
        for fake in self._fakes:
            content = content.replace(fake, BLANK) if fake in content else content
        try:
            whole = self._plan.scan(content, whole=begins and ends)
            found = [*_findings(whole), *(_findings(self._plan.scan(before + content[:JOINED])) if before else ())]
        except Undecodable as error:
            self._cannot(f"a message cannot be looked at: {error}", "a message", UNDECODABLE)
            return
        if found:
            self._judge(found, lambda each: self._place_in_body(each, content, b"", "a message"))
        for _ in self._spend(content, "a message", 0 if begins else OVERLAP):
            pass
        for _ in self._consult(content, "a message"):
            pass

    # ---- the verdict --------------------------------------------------------------------------------------------

    def _judge(self, found: Sequence[Finding], place: Callable[[Finding], str]) -> None:
        """Raises Leak for the first that may not go; all are told."""
        once = {each[::2]: each for each in sorted(found, key=lambda each: each.detector not in canary.DETECTORS)}
        verdicts = [(each, self._verdict(self._plan.by_name[each.detector])) for each in once.values()]
        refused = next((each for each, verdict in verdicts if verdict == BLOCKED), None)
        where = {}
        for each, verdict in verdicts:
            if refused is None or verdict == BLOCKED:
                where[each] = self._tell_once(each, verdict, place)
        self._warnings += [each.detector for each, verdict in verdicts if verdict == WARNED]
        if refused is None:
            return
        shown = f"{refused.detector} ({refused.fingerprint})"
        why = f"{where[refused] or 'it'} has a credential in it, {shown}, which may not be sent to {self._host}"
        raise Leak(why, f"dlp.{refused.detector}", (DETECTOR, refused.detector.encode()))

    def _spend(self, said: bytes | bytearray, place: str, begins: int = 0) -> Iterator[int]:
        """Takes what is new and opaque from the budget of this host, step by step. Raises Leak."""
        if (spending := self._spending) is None:
            return
        opaque = stretches(said, begins)
        try:
            fits = yield from spending.steps(opaque)
        except Undecodable as error:
            self._cannot(f"{place} cannot be looked at: {error}", place, UNDECODABLE)
            return
        finally:
            opaque.close()  # it holds on to what was said
        if not fits:
            why = (
                f"{place} has more opaque bytes in it than {self._host} may be sent in this session: {spending.spent} "
                f"of {spending.most} are used (session_entropy_budget in [network.dlp]; under strict there are none)"
            )
            self._cannot(why, place, OVERSPENT, ENTROPY.name)
        elif not spending.is_told and spending.most < 2 * spending.spent:
            spending.is_told = True
            shown = f"{spending.spent} of {spending.most} bytes"
            self._tell(CredentialFound(ENTROPY.name, place, shown, WARNED))

    def _consult(self, said: bytes | bytearray, place: str) -> Iterator[int]:
        """Asks the host's callback, a piece at a time. Raises Leak."""
        if (refused := self._refused) is None:
            return
        for at, piece in pieces(said):
            if why := refused(place, at, piece):
                self._cannot(f"the host program's leak_fn refuses {place}: {why}", place, CALLBACK)
                return
            yield len(piece)

    def _verdict(self, detector: Detector) -> str:
        name = detector.name
        if name in canary.DETECTORS:  # nobody has a use for it, so nothing is learned from letting it pass
            return BLOCKED
        if may_go(detector, self._host, self._plan.scopes.get(name, ())):
            return HOME
        if may_go(detector, self._host, (), self._listed):
            return LISTED
        return WARNED if self._plan.warns else BLOCKED

    def _tell_once(self, found: Finding, verdict: str, place: Callable[[Finding], str]) -> str:
        """Returns the place. What this connection has told already is not told again, unless it is refused."""
        key = found.detector, found.fingerprint, verdict
        if verdict != BLOCKED and (key in self._told or len(self._told) >= MOST_TOLD):
            return ""
        self._told.add(key)
        via = f" (in {' in '.join(reversed(found.via))})" if found.via else ""
        where = place(found)
        self._tell(CredentialFound(found.detector, where + via, found.fingerprint, verdict))
        return where

    def _cannot(self, why: str, place: str, reason: str, lists: str = "") -> None:
        """Raises Leak, unless it is passed on with a warning."""
        verdict = WARNED if self._plan.warns else BLOCKED
        self._tell(CredentialFound(reason, place, "", verdict))
        if self._plan.warns:
            self._warnings.append(reason)
            return
        raise Leak(why, f"dlp.{reason}", (REASON, reason.encode()), lists)

    # ---- where it stands ----------------------------------------------------------------------------------------

    def _place(self, found: Finding, method: bytes, path: bytes, fields: Fields) -> str:
        for name, said in islice(places(method, self._host.encode(), path, fields), MOST_PLACES):
            if self._is_in(found, said):
                return self._plan.clean(name) or "a field"
        return "the head"

    def _place_in_body(self, found: Finding, said: bytes | bytearray, trailer: bytes, what: str = "the body") -> str:
        if trailer and self._is_in(found, trailer):
            return "the trailer"
        for way, text in strings(said):
            if self._is_in(found, text.encode("utf-8", "replace")):
                return self._plan.clean(f"{what.partition(' ')[2]} json {way}") or what
        return what

    def _is_in(self, found: Finding, said: bytes) -> bool:
        try:
            return any(each[::2] == found[::2] for each in self._plan.found(said))
        except Undecodable:
            return False


def _findings(made: Scan) -> tuple[Finding, ...]:
    """Raises Undecodable."""
    for _ in made.steps():
        pass
    return made.findings
