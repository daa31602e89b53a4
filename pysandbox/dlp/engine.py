"""One scan: a queue of texts. Each is searched for what the registry nominates, and what is encoded in it joins the
queue, until nothing is left or the budget is (`Undecodable`).

What is found is told by the name of its detector, the way of encodings that led there, and a fingerprint. The value
stays in this file.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from hashlib import blake2b

from pysandbox.dlp import chance
from pysandbox.dlp.decode import decoded, inflated
from pysandbox.dlp.detector import Detector, compiled
from pysandbox.dlp.nominate import Nominator
from pysandbox.dlp.passes import Buffer, Text
from pysandbox.dlp.redact import fingerprint
from pysandbox.dlp.registry import ALL, BEARER
from pysandbox.dlp.text import texts
from pysandbox.dlp.work import Undecodable, Work
from pysandbox.shapes import NamedTuple

DEPTH = 32  # encodings inside each other
OVERLAP = 1 << 16  # bytes of one piece of a stream that are looked at again with the next
SCHEME = b"Bearer"
CREDENTIAL = "credential"  # a group of an expression, where not all of it is one
GUESSES = (("base64",), ("base32",), ("hex",))  # most runs of their alphabets are something else
NOMINATOR = Nominator(ALL)


class Finding(NamedTuple):
    """`via` is the encodings from the outside in; () is plain text."""

    detector: str
    via: tuple[str, ...]
    fingerprint: str


class Scan:
    """One scan of `blob`, in steps. `whole`: there is no more of it; else compressed data that goes on beyond its end
    cannot be looked at (`Undecodable`)."""

    def __init__(
        self, blob: Buffer, key: bytes, *, depth: int = DEPTH, whole: bool = True, nominator: Nominator = NOMINATOR
    ) -> None:
        """The blob is not copied: it stays as it is until the last step."""
        self._nominator = nominator
        self._key, self._depth, self._blob = key, depth, blob
        self._longest = None if whole else OVERLAP
        self._work = Work(len(blob))
        self._queue: deque[tuple[Text, tuple[str, ...]]] = deque()
        self._seen: set[int | bytes] = set()
        self._found: dict[tuple[str, str], Finding] = {}

    def steps(self) -> Iterator[int]:
        """Goes on with each step, and says of how many bytes it was; nothing is found for certain before the last.
        Raises Undecodable."""
        for text in texts(self._blob):  # a view is let go before the next one is made
            self._put(text, ())
            del text
            yield from self._drained()
        for name, said in inflated(self._blob, self._work.take, self._longest):
            self._add(said, (name,))
            yield from self._drained()

    def _drained(self) -> Iterator[int]:
        """Goes through the queue, which grows meanwhile; what was looked at is let go."""
        while self._queue:
            text, via = self._queue.popleft()
            yield len(text)
            self._look(text, via)
            for name, said in decoded(text):
                yield len(said)
                self._add(said, (*via, name))
                del said
            del text

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each credential once."""
        return tuple(self._found.values())

    def _add(self, blob: Buffer, via: tuple[str, ...]) -> None:
        for text in texts(blob, is_guess=via[-1:] in GUESSES):
            self._put(text, via)
        for name, said in inflated(blob, self._work.take, self._longest):
            self._add(said, (*via, name))

    def _put(self, text: Text, via: tuple[str, ...]) -> None:
        """Into the queue, unless it was there already. The blob itself is not remembered: a hash of it takes long, and
        what is decoded is charged whatever it is."""
        if text is not self._blob:
            mark = self._mark(text)
            if mark in self._seen:
                return
            self._seen.add(mark)
        if via:
            self._charge(text, via)
        self._queue.append((text, via))

    def _mark(self, text: Text) -> int | bytes:
        """Nobody outside can tell which two texts have the same one."""
        return hash(text) if isinstance(text, bytes) else blake2b(text, key=self._key, digest_size=16).digest()

    def _charge(self, text: Text, via: tuple[str, ...]) -> None:
        if len(via) > self._depth:
            raise Undecodable(f"more than {self._depth} encodings inside each other")
        self._work.take(len(text))

    def _look(self, text: Text, via: tuple[str, ...]) -> None:
        found: list[tuple[Detector, int, int]] = []
        for detector, at in self._nominator.places(text):
            found.extend(self._verified(detector, text, at))
        for detector, begin, end in _by_the_particular(found, text):
            shown = fingerprint(bytes(text[begin:end]), self._key)
            self._found.setdefault((detector.name, shown), Finding(detector.name, via, shown))

    def _verified(self, detector: Detector, text: Text, at: int) -> Iterator[tuple[Detector, int, int]]:
        self._work.take(detector.price or detector.lead + detector.longest)
        expression, end = compiled(detector.expression), at + detector.longest
        for begin in range(max(0, at - detector.lead), at + 1):  # a search would try all of the window
            if match := expression.match(text, begin, end):
                named = CREDENTIAL in expression.groupindex
                if not self._is_chance(detector, text, at, match):
                    yield detector, match.start(CREDENTIAL) if named else begin, match.end()
                return

    def _is_chance(self, detector: Detector, text: Text, at: int, match: re.Match[bytes]) -> bool:
        if not chance.is_open(detector, text, at, *match.span()):
            return False
        self._work.take(chance.PRICE)
        return chance.is_chance(detector, text, *match.span())


def _by_the_particular(found: list[tuple[Detector, int, int]], text: Text) -> Iterator[tuple[Detector, int, int]]:
    """A bearer token that as a whole is something more particular counts as that alone."""
    known = {end: begin for each, begin, end in found if each.name != BEARER}
    for each, begin, end in found:
        if each.name != BEARER or not text[begin + len(SCHEME) : known.get(end, begin)].isspace():
            yield each, begin, end


def scan(
    blob: Buffer, key: bytes, *, depth: int = DEPTH, nominator: Nominator = NOMINATOR
) -> tuple[Finding, ...]:  # fmt: skip
    """What is found in these bytes. Raises Undecodable."""
    made = Scan(blob, key, depth=depth, nominator=nominator)
    for _ in made.steps():
        pass
    return made.findings
