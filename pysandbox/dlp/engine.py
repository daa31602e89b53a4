"""One scan: texts, one after the other. Each is searched for what the registry nominates, and what is encoded in it
comes next, until nothing is left or the budget is (`Undecodable`).

What is found is told by the name of its detector, the way of encodings that led there, and a fingerprint. The value
stays in this file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pysandbox.dlp import chance
from pysandbox.dlp.decode import decoded, inflated
from pysandbox.dlp.detector import Detector, compiled
from pysandbox.dlp.nominate import Nominator
from pysandbox.dlp.passes import DIGITS, LARGE, LETTERS, PART, Buffer, Text, parts
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
BETWEEN = bytes(each for each in range(256) if each not in LETTERS + DIGITS)
LETTERS_ALONE = "its letters alone"
View = tuple[Text, tuple[str, ...]]  # a text, and the encodings that led to it, as in a Finding


class Finding(NamedTuple):
    """`via` is the encodings from the outside in; () is plain text."""

    detector: str
    via: tuple[str, ...]
    fingerprint: str


class Scan:
    """One scan of `blob`, in steps. `whole`: there is no more of it; else compressed data that goes on beyond its end
    cannot be looked at (`Undecodable`)."""

    def __init__(
        self, blob: Buffer, key: bytes, *, depth: int = DEPTH, whole: bool = True, nominator: Nominator = NOMINATOR,
        bare: Nominator | None = None,
    ) -> None:  # fmt: skip
        """The blob is not copied: it stays as it is until the last step. `bare`: what is also looked for with anything
        but letters and digits left out, by literals of these."""
        self._nominator, self._bare = nominator, bare
        self._key, self._depth, self._blob = key, depth, blob
        self._longest = None if whole else OVERLAP
        self._work = Work(len(blob))
        self._seen: dict[int, int] = {}  # texts, each with how many encodings led to it
        self._found: dict[tuple[str, str], Finding] = {}

    def steps(self) -> Iterator[int]:
        """Goes on with each step, and says of how many bytes it was; nothing is found for certain before the last.
        Raises Undecodable."""
        waiting = [self._views(self._blob, ())]
        while waiting:
            found = next(waiting[-1], None)
            if found is None:
                waiting.pop()
            elif isinstance(found, int):
                yield found
            elif self._is_new(*found):
                yield len(found[0])
                yield from self._look(*found)
                waiting.append(self._within(*found))

    def _within(self, text: Text, via: tuple[str, ...]) -> Iterator[View | int]:
        """What is encoded in a text, and between two of a long one an int: so many bytes were gone through. Each is
        gone through to its end before the next is made: they may lie in the same memory, and all of them together may
        be many times as large as the text."""
        for name, said in decoded(text):
            if said:
                yield from self._views(said, (*via, name))
            if len(text) >= LARGE:
                yield len(said) or LARGE

    def _views(self, blob: Buffer, via: tuple[str, ...]) -> Iterator[View | int]:
        for text in texts(blob, is_guess=via[-1:] in GUESSES):
            yield text, via
        if len(blob) >= LARGE:
            yield len(blob)
        before = self._work.left
        for name, said in inflated(blob, self._work.take, self._longest):
            if said:
                yield from self._views(said, (*via, name))
            else:
                yield before - self._work.left
            before = self._work.left

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Each credential once."""
        return tuple(self._found.values())

    def _is_new(self, text: Text, via: tuple[str, ...]) -> bool:
        """Whether it was not here before, by a way as short as this one. What is long is not remembered: a hash of it
        takes long, and what is decoded is charged whatever it is."""
        if isinstance(text, bytes) and len(text) < LARGE:
            mark = hash(text)  # nobody outside can tell which two texts have the same one
            if self._seen.get(mark, len(via) + 1) <= len(via):
                return False
            self._seen[mark] = len(via)
        if via:
            self._charge(text, via)
        return True

    def _charge(self, text: Text, via: tuple[str, ...]) -> None:
        if len(via) > self._depth:
            raise Undecodable(f"more than {self._depth} encodings inside each other")
        self._work.take(len(text))

    def _look(self, text: Text, via: tuple[str, ...]) -> Iterator[int]:
        found: list[tuple[Detector, int, int]] = []
        for begin in range(0, len(text), PART):
            if begin:
                yield PART
            for detector, at in self._nominator.places(text, begin, begin + PART):
                found.extend(self._verified(detector, text, at))
        for detector, begin, end in _by_the_particular(found, text):
            self._tell(detector, text[begin:end], via)
        if self._bare is not None and (not via or len(text) < LARGE):
            yield from self._look_at_letters(text, (*via, LETTERS_ALONE), self._bare)

    def _look_at_letters(self, text: Text, via: tuple[str, ...], nominator: Nominator) -> Iterator[int]:
        known = {name for name, _ in self._found}
        for begin, end in parts(text):
            if begin:
                yield end - begin
            letters = bytes(text[begin:end]).translate(None, BETWEEN)
            for nominated, at in nominator.places(letters):
                for detector, first, last in self._verified(nominated, letters, at):
                    if detector.name not in known:
                        self._tell(detector, letters[first:last], via)

    def _tell(self, detector: Detector, value: Text, via: tuple[str, ...]) -> None:
        shown = fingerprint(bytes(value), self._key)
        before = self._found.get((detector.name, shown))
        if before is None or len(via) < len(before.via):
            self._found[detector.name, shown] = Finding(detector.name, via, shown)

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
    blob: Buffer, key: bytes, *, depth: int = DEPTH, nominator: Nominator = NOMINATOR, bare: Nominator | None = None
) -> tuple[Finding, ...]:  # fmt: skip
    """What is found in these bytes. Raises Undecodable."""
    made = Scan(blob, key, depth=depth, nominator=nominator, bare=bare)
    for _ in made.steps():
        pass
    return made.findings
