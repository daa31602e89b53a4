"""One [[network.dlp.detector]] block: what a user's own credentials look like, and where they may go.

What a column may hold is here, and what is made of a block for whoever scans (`ScanDetector`): its pattern bounded by
`expression`, the literals that nominate a place, the homes. Pure. Nothing imports this before a policy has one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from pysandbox.policy.detector_names import LISTABLE, NOWHERE, OF_PACKS
from pysandbox.policy.expression import LONG_LITERAL, MOST_STEPS, SHORT_LITERAL, SLOWER, WINDOW, bounded
from pysandbox.policy.option import column
from pysandbox.policy.refusal import CommandRefused, did_you_mean, shown
from pysandbox.shapes import MISSING, Any, Field, NamedTuple, dataclass, fields

MOST = 64  # blocks of a policy
TAKEN = "canary_"  # how the names of false credentials begin
CALLBACK = "leak_fn"  # what the host program's own refusals are called
MOST_LITERALS = 256  # of all blocks; the table of a scan has room for these besides its own
NEAR = 64  # bytes between a word and what it announces
STEPS_OF_A_BYTE = 4  # that take as long as a byte takes to be decoded


@dataclass(frozen=True, kw_only=True)
class OwnDetector:
    """A detector of the user's own, by its name."""

    name: str = column(
        "network.dlp.detector", "name", "What its finds are called, such as acme_token.", merge="last",
        item="text",
    )  # fmt: skip
    pattern: str = column(
        "network.dlp.detector", "pattern", "A regular expression of Python for printable ASCII; what could be slow "
        "on some text is refused.",
        merge="last", item="text",
    )  # fmt: skip
    hosts: tuple[str, ...] = column(
        "network.dlp.detector", "hosts", "Names and patterns of the hosts that it may be sent to; without one, it may "
        "be sent nowhere.",
        default=(), merge="union", item="domain",
    )  # fmt: skip
    context: tuple[str, ...] = column(
        "network.dlp.detector", "context", "It counts only where one of these words stands in the 64 bytes before it, "
        "in small letters, in capitals, with a capital or as it is written here.",
        default=(), merge="union", item="text",
    )  # fmt: skip

    @property
    def given(self) -> dict[str, Any]:
        """The columns that differ from their default."""
        return {each.name: getattr(self, each.name) for each in COLUMNS if getattr(self, each.name) != each.default}

    def __str__(self) -> str:
        near = f" near {', '.join(self.context)}" if self.context else ""
        return f"{self.name} ({self.pattern}{near}; to {', '.join(self.hosts) or 'no host'})"


COLUMNS = fields(OwnDetector)


class ScanDetector(NamedTuple):
    """A block, as a scan has it (`pysandbox.dlp.detector`). `price` is what a try is charged."""

    name: str
    literals: tuple[str, ...]
    expression: str
    hosts: tuple[str, ...]
    lead: int
    longest: int
    price: int


def detectors_of(values: Iterable[object], coerced: Callable[[Field[Any], object], Any]) -> tuple[OwnDetector, ...]:
    """Reads tables; each block once. Raises CommandRefused."""
    read: dict[OwnDetector, int] = {}
    for number, value in enumerate(values):
        try:
            read.setdefault(_detector_of(value, coerced), number)
        except CommandRefused as refused:
            raise CommandRefused(refused.message, refused.suggestion, (number, *refused.at)) from None
    names: set[str] = set()
    for each, number in read.items():
        if each.name in names:
            message = f"two detectors are called {each.name}, and say different things"
            raise CommandRefused(message, "give one of them another name", (number, "name"))
        names.add(each.name)
    literals = sum(len(scan_detector(each).literals) for each in read)
    if len(read) > MOST or literals > MOST_LITERALS:
        raise CommandRefused(f"more than {MOST} detectors, or {MOST_LITERALS} literals in them", "leave some out")
    return tuple(read)


def _detector_of(value: object, coerced: Callable[[Field[Any], object], Any]) -> OwnDetector:
    given = value.given if type(value) is OwnDetector else value
    if not isinstance(given, Mapping):
        example = 'write [[network.dlp.detector]] and below it name = "acme_token"'
        raise CommandRefused(f"must be a table, not {shown(value)}", example)
    names = [each.name for each in COLUMNS]
    for key in given:
        if key not in names:
            raise CommandRefused(f"{shown(key)} is not a key of a detector", did_you_mean(str(key), names), (key,))
    columns = {each.name: coerced(each, given[each.name]) for each in COLUMNS if each.name in given}
    if "name" in columns:
        _check_name(columns["name"])
    for number, word in enumerate(columns.get("context", ())):
        _check_word(word, ("context", number))
    for each in COLUMNS:
        if each.default is MISSING and each.name not in columns:
            raise CommandRefused(f"a detector needs the key {each.name}", each.metadata["option"].doc)
    made = OwnDetector(**columns)
    try:
        scan_detector(made)
    except CommandRefused as refused:
        raise CommandRefused(f"pattern: {refused.message}", refused.suggestion, ("pattern",)) from None
    return made


def scan_detector(own: OwnDetector) -> ScanDetector:
    """Raises CommandRefused for a pattern that cannot be bounded, or by which nothing is found."""
    bounds = bounded(own.pattern)
    if own.context:
        return _near(own, bounds.most, bounds.steps)
    if not bounds.literals:
        raise CommandRefused(
            f"{shown(own.pattern)} has no {SHORT_LITERAL} letters in a row that are always there, by which it is found",
            'name words that stand before it: context = ["acme"]',
        )
    steps = bounds.steps * (bounds.lead + 1)  # it is tried at each place where it may begin
    if steps > MOST_STEPS:
        raise CommandRefused(f"could take more than {MOST_STEPS} steps around what it always has", SLOWER)
    literals = tuple(each[:LONG_LITERAL].decode("ascii") for each in bounds.literals)
    return _made(own, literals, own.pattern, bounds.lead, bounds.most, steps)


def _near(own: OwnDetector, most: int, steps: int) -> ScanDetector:
    words = tuple(dict.fromkeys(
        spelled for each in own.context for spelled in (each, each.lower(), each.upper(), each.capitalize())
    ))  # fmt: skip
    steps = sum(map(len, words)) + (NEAR + 1) * (steps + 1)
    if steps > MOST_STEPS:
        raise CommandRefused(f"could take more than {MOST_STEPS} steps near each word of its context", SLOWER)
    longest_first = sorted(words, key=len, reverse=True)
    expression = f"(?:{'|'.join(map(re.escape, longest_first))})[\\x00-\\xff]{{0,{NEAR}}}?(?P<credential>{own.pattern})"
    return _made(own, words, expression, 0, len(longest_first[0]) + NEAR + most, steps)


def _made(
    own: OwnDetector, literals: tuple[str, ...], expression: str, lead: int, longest: int, steps: int
) -> ScanDetector:
    try:
        re.compile(expression.encode())
    except (re.error, RecursionError, OverflowError) as error:
        raise CommandRefused(f"{shown(own.pattern)} is not a regular expression: {error}") from None
    price = max(lead + longest, steps // STEPS_OF_A_BYTE)
    return ScanDetector(own.name, literals, expression, own.hosts, lead, min(longest, WINDOW + NEAR), price)


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]{1,39}", name):
        suggestion = 'a-z, 0-9 and _, such as "acme_token"'
        raise CommandRefused(f"{shown(name)} is not the name of a detector", suggestion, ("name",))
    if name in (*LISTABLE, *NOWHERE, *OF_PACKS, CALLBACK) or name.startswith(TAKEN):
        suggestion = "give it another name; extra_scopes gives a detector more hosts"
        who = "a pack" if name in OF_PACKS else "every scan"
        raise CommandRefused(f"{shown(name)} is what {who} calls something else", suggestion, ("name",))


def _check_word(word: str, at: tuple[str | int, ...]) -> None:
    if not re.fullmatch(rf"[!-~]{{{SHORT_LITERAL},{LONG_LITERAL}}}", word):
        message = f"{shown(word)} is not a word of {SHORT_LITERAL} to {LONG_LITERAL} letters"
        raise CommandRefused(message, 'printable ASCII without blanks, such as "acme"', at)
