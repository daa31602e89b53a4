"""In which line of a file a find stands: looked for only when there is one, by a scan of each line alone."""

from __future__ import annotations

from pysandbox.dlp.engine import Finding
from pysandbox.dlp.wanted import Wanted
from pysandbox.dlp.work import Undecodable

MOST_LINES = 200_000  # that are looked at


def with_lines(
    text: bytes, findings: tuple[Finding, ...], key: bytes, looked_for: Wanted
) -> list[tuple[Finding, int]]:  # fmt: skip
    """Each with the first line, from 1, in which it is found; 0 where no single line has it."""
    lines: dict[tuple[str, str], int] = {}
    wanted = {(each.detector, each.fingerprint) for each in findings}
    for number, line in enumerate(text.split(b"\n", MOST_LINES)[:MOST_LINES], 1):
        if len(lines) == len(wanted):
            break
        for each in _found(line, key, looked_for):
            if (each.detector, each.fingerprint) in wanted:
                lines.setdefault((each.detector, each.fingerprint), number)
    return [(each, lines.get((each.detector, each.fingerprint), 0)) for each in findings]


def _found(line: bytes, key: bytes, looked_for: Wanted) -> tuple[Finding, ...]:
    try:
        return looked_for.found(line, key)
    except Undecodable:
        return ()
