"""`pysandbox dlp`: what would be found in a file if a cage sent it, and what is looked for at all.

Exit code of `scan`: 0 when nothing was found, 1 when something was, 2 when a file could not be looked at as a whole.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator

from pysandbox.cli import console
from pysandbox.cli.actions import Action, act, answer, parser_of
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.dlp.detector import Detector
from pysandbox.dlp.engine import Finding, scan
from pysandbox.dlp.lines import with_lines
from pysandbox.dlp.registry import ALL, BY_NAME
from pysandbox.dlp.scope import may_go
from pysandbox.dlp.work import Undecodable
from pysandbox.policy.names import BadName, canonical
from pysandbox.shapes import Any, NamedTuple

FOUND, NOT_SCANNED = 1, 2
LARGEST = 64 << 20  # bytes of a file
HELP = """\
Usage: pysandbox dlp ACTION ...

Actions:
  scan FILE...   find credentials in files, in plain or encoded; - is standard input
  detectors      list what is looked for, and where each may be sent

Each takes --json, and --help says more.

Examples:
  pysandbox dlp scan build.log
  git diff | pysandbox dlp scan -
  pysandbox dlp scan --to api.github.com body.json

Exit codes of scan: 0 nothing found, 1 found, 2 a file could not be looked at as a whole.
"""


class ScannedFile(NamedTuple):
    """`why` is "" for a file that was looked at as a whole."""

    name: str
    findings: list[tuple[Finding, int]]
    why: str


def main(arguments: list[str], verbose: bool) -> int:
    return act("dlp", HELP, ACTIONS, arguments)


def actions() -> dict[str, Parser]:
    return {name: parser_of("dlp", name, action) for name, action in ACTIONS.items()}


# ---- scan --------------------------------------------------------------------------------------------------------


def _declare_scan(parser: Parser) -> None:
    parser.usage = "pysandbox dlp scan [--to HOST] FILE..."
    parser.add_argument("files", nargs="+", metavar="FILE", help="What to look at; - is standard input.")
    parser.add_argument("--to", metavar="HOST", help="Leave out what may be sent to this host.")


def _scan(namespace: Namespace) -> int:
    host = _host(namespace.to)
    key = os.urandom(16)
    scanned = [_scan_file(name, key, host) for name in namespace.files]
    document = {
        "findings": [_row(each.name, *found) for each in scanned for found in each.findings],
        "not_scanned": [{"file": each.name, "why": each.why} for each in scanned if each.why],
    }
    answer(namespace, document, _lines(scanned))
    for each in scanned:
        if each.why:
            console.error(f"{each.name}: not looked at as a whole: {each.why}")
    if any(each.why for each in scanned):
        return NOT_SCANNED
    return FOUND if document["findings"] else 0


def _host(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        return str(canonical(name))
    except BadName as error:
        raise UsageError(f"--to: {error}") from None


def _scan_file(name: str, key: bytes, host: str | None) -> ScannedFile:
    text = _read(name)
    if len(text) > LARGEST:
        return ScannedFile(name, [], f"it has more than {LARGEST >> 20} MiB; split it")
    try:
        found = scan(text, key)
    except Undecodable as error:
        return ScannedFile(name, [], str(error))
    kept = tuple(each for each in found if host is None or not may_go(BY_NAME[each.detector], host))
    return ScannedFile(name, with_lines(text, kept, key), "")


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(LARGEST + 1)
    with open(name, "rb") as file:
        return file.read(LARGEST + 1)


def _lines(scanned: list[ScannedFile]) -> Iterator[str]:
    for each in scanned:
        for finding, line in each.findings:
            place = f"{each.name}:{line}" if line else each.name
            via = f" (in {' in '.join(reversed(finding.via))})" if finding.via else ""
            yield f"{place}: {finding.detector} {finding.fingerprint}{via}"


def _row(name: str, finding: Finding, line: int) -> dict[str, Any]:
    return {
        "file": name, "line": line or None, "detector": finding.detector, "via": list(finding.via),
        "fingerprint": finding.fingerprint,
    }  # fmt: skip


# ---- detectors ---------------------------------------------------------------------------------------------------


def _detectors(namespace: Namespace) -> int:
    rows = [{"name": each.name, "homes": list(each.homes), "never": each.never} for each in ALL]
    width = max(len(each.name) for each in ALL)
    return answer(namespace, rows, (f"{each.name:<{width}}  {_where(each)}" for each in ALL))


def _where(detector: Detector) -> str:
    if detector.never:
        return "nowhere"
    return ", ".join(each for each in detector.homes if not each.startswith("**.")) or "where a host lists it"


ACTIONS: dict[str, Action] = {
    "scan": (_scan, _declare_scan, "Find credentials in files, in plain or encoded."),
    "detectors": (_detectors, lambda parser: None, "List what is looked for, and where each may be sent."),
}
