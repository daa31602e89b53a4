"""Where a text has a literal of a detector: one pass in C (csrc/host/scan/literals.c), whatever their number."""

from __future__ import annotations

from collections.abc import Iterator

from pysandbox._native import ffi, lib
from pysandbox.dlp.detector import Detector
from pysandbox.dlp.passes import Text
from pysandbox.shapes import Any

SHORTEST: int = lib.PSB_SHORTEST_LITERAL
LONGEST: int = lib.PSB_LONGEST_LITERAL


class Nominator:
    def __init__(self, detectors: tuple[Detector, ...]) -> None:
        by_literal: dict[bytes, list[Detector]] = {}
        for each in detectors:
            for literal in each.literals:
                by_literal.setdefault(literal, []).append(each)
        self._rows = [tuple(by_literal[literal]) for literal in sorted(by_literal)]
        self._table = _table(sorted(by_literal))
        self._found = ffi.new("struct psb_nominations *")

    def places(self, text: Text, begin: int = 0, end: int | None = None) -> Iterator[tuple[Detector, int]]:
        """Each detector with each place, from `begin` on and before `end`, that one of its literals nominates. One at a
        time."""
        found, buffer = self._found, ffi.from_buffer(text)
        last = len(text) if end is None else end
        size = min(last + LONGEST - 1, len(text))
        while begin < size:
            found.next = begin
            lib.psb_find_literals(buffer, size, self._table, found)
            begin = found.next
            for index in range(found.count):
                if (at := found.at[index]) < last:
                    for detector in self._rows[found.which[index]]:
                        yield detector, at


def _table(literals: list[bytes]) -> Any:
    """The struct psb_literals of these. They are rows of the program: what does not fit is a mistake in them."""
    sizes = range(SHORTEST, lib.PSB_LONGEST_LITERAL + 1)
    if len(literals) > lib.PSB_MOST_LITERALS or any(len(each) not in sizes for each in literals):
        raise ValueError("too many literals, or one that is too long or too short")
    table = ffi.new("struct psb_literals *")
    for row, literal in enumerate(literals):
        _mark(table.begins, literal)
        _mark(table.either, literal)
        for after in [literal[1:]] if len(literal) > SHORTEST else [literal[1:] + bytes((c,)) for c in range(256)]:
            _mark(table.either, after)
        table.size[row] = len(literal)
        ffi.memmove(table.text[row], literal, len(literal))
    for byte in range(257):
        table.first[byte] = sum(literal[0] < byte for literal in literals)
    return table


def _mark(bitmap: Any, begins: bytes) -> None:
    hashed = lib.psb_hash_of_literal(begins)
    bitmap[hashed >> 3] |= 1 << (hashed & 7)
