"""`pysandbox dlp`: what would be found in a file if a cage sent it, and what is looked for at all.

Exit code of `scan`: 0 when nothing was found, 1 when something was, 2 when a file could not be looked at as a whole.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from argparse import Namespace
from collections.abc import Container, Iterator
from contextlib import suppress

from pysandbox.cli import console
from pysandbox.cli.actions import Action, act, answer, parser_of
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.descriptors.polling import wait_readable
from pysandbox.dlp import canary
from pysandbox.dlp.detector import Detector
from pysandbox.dlp.engine import DEPTH, Finding
from pysandbox.dlp.lines import with_lines
from pysandbox.dlp.scope import may_go
from pysandbox.dlp.wanted import Wanted
from pysandbox.dlp.work import Undecodable
from pysandbox.policy.names import BadName, canonical, matches
from pysandbox.policy.way_out import any_bearer
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pysandbox.policy.model import Policy
    from pysandbox.policy.own_detector import ScanDetector

FOUND, NOT_SCANNED = 1, 2
LARGEST = 64 << 20  # bytes of a file
WRITER_SECONDS = 5.0  # for a pipe's writer to come
OWN = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,9})")  # a descriptor of this process
HELP = """\
Usage: pysandbox dlp ACTION ...

Actions:
  scan FILE...   find credentials in files, in plain or encoded; - is standard input
  detectors      list what is looked for, and where each may be sent

Each takes -r POLICY, for the detectors of your own that it has, and --json; --help says more.

Examples:
  pysandbox dlp scan build.log
  pysandbox dlp scan -r ./policy.toml build.log
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


# ---- what is looked for ------------------------------------------------------------------------------------------


def _declare_wanted(parser: Parser) -> None:
    parser.add_argument("-r", "--recipe", "--policy", action="append", default=[], metavar="POLICY",
                        help="Also what this recipe, or file, has looked for. Repeatable.")  # fmt: skip
    parser.add_argument("--pack", action="append", default=[], metavar="NAME",
                        help="Also this pack of detectors, such as gitleaks. Repeatable.")  # fmt: skip
    parser.add_argument("--detector", action="append", default=[], metavar="NAME=PATTERN",
                        help="Also a detector of your own: [[network.dlp.detector]]. Repeatable.")  # fmt: skip


def _policy(namespace: Namespace) -> Policy | None:
    """None where the command line says nothing of one. Raises PolicyError, UsageError."""
    if not (namespace.recipe or namespace.detector or namespace.pack):
        return None
    from pysandbox.policy.compose import resolve

    rows = []
    for text in namespace.detector:
        name, equals, pattern = text.partition("=")
        if not equals:
            raise UsageError(f"--detector: {text!r} is not NAME=PATTERN, such as acme=acme_[a-z0-9]{{32}}")
        rows.append({"name": name, "pattern": pattern})
    said = {"dlp_detectors": rows, "dlp_packs": namespace.pack}
    return resolve(namespace.recipe, extra={name: value for name, value in said.items() if value}).policy


def _wanted(policy: Policy | None) -> Wanted:
    """In a cage also the false credentials that it was given."""
    depth = policy.dlp_max_decode_depth if policy else DEPTH
    takes_any = policy is None or any_bearer(policy)
    return Wanted(_rows(policy), canary.given(os.environ), depth, any_bearer=takes_any)


def _rows(policy: Policy | None) -> tuple[ScanDetector, ...]:
    if policy is None:
        return ()
    from pysandbox.compile.detectors import scan_detectors

    return scan_detectors(policy)


# ---- scan --------------------------------------------------------------------------------------------------------


def _declare_scan(parser: Parser) -> None:
    parser.usage = "pysandbox dlp scan [-r POLICY]... [--pack NAME]... [--detector NAME=PATTERN]... [--to HOST] FILE..."
    parser.add_argument("files", nargs="+", metavar="FILE", help="What to look at; - is standard input.")
    parser.add_argument("--to", metavar="HOST", help="Leave out what may be sent to this host.")
    _declare_wanted(parser)


def _scan(namespace: Namespace) -> int:
    policy, key = _policy(namespace), os.urandom(16)
    wanted, host = _wanted(policy), _host(namespace.to)
    belongs = frozenset() if host is None else _at_home(wanted, host, policy)
    scanned = [_scan_file(name, key, wanted, belongs) for name in namespace.files]
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


def _at_home(wanted: Wanted, host: str, policy: Policy | None) -> frozenset[str]:
    """The names of what may be sent there."""
    scopes = dict(policy.dlp_extra_scopes) if policy else {}
    listed = _listed(policy, host) if policy else ()
    return frozenset(each.name for each in wanted.rows if may_go(each, host, scopes.get(each.name, ()), listed))


def _listed(policy: Policy, host: str) -> tuple[str, ...]:
    """What the block says that is most of all this host's."""
    from pysandbox.compile.doors import host_grants

    found = [each for rule in policy.hosts for each in host_grants(rule, True) if matches(each.pattern, host)]
    nearest = max(found, key=lambda each: ("*" not in each.pattern, len(each.pattern)), default=None)
    return nearest.contract.credentials if nearest and nearest.contract else ()


class NothingWritten(Exception):
    """A pipe that nobody writes to."""


def _scan_file(name: str, key: bytes, wanted: Wanted, belongs: Container[str]) -> ScannedFile:
    try:
        text = _read(name)
    except NothingWritten:
        return ScannedFile(name, [], f"it is a pipe, and nobody has written to it for {WRITER_SECONDS:g} seconds")
    if len(text) > LARGEST:
        return ScannedFile(name, [], f"it has more than {LARGEST >> 20} MiB; split it")
    try:
        found = wanted.found(text, key)
    except Undecodable as error:
        return ScannedFile(name, [], str(error))
    kept = tuple(each for each in found if each.detector not in belongs)
    return ScannedFile(name, with_lines(text, kept, key, wanted), "")


def _read(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read(LARGEST + 1)
    with open(name, "rb", opener=_open) as file:
        if stat.S_ISFIFO(os.fstat(file.fileno()).st_mode) and not wait_readable(file.fileno(), WRITER_SECONDS):
            raise NothingWritten
        os.set_blocking(file.fileno(), True)
        return file.read(LARGEST + 1)


def _open(name: str, flags: int) -> int:
    """Opens a file, and a pipe without waiting for its writer. What this process has already is not opened again: the
    writer of `<(...)` may have said all it had, and no other pipe would tell that."""
    if (number := OWN.fullmatch(name)) is not None:
        with suppress(OSError):  # there is none; to open it says so by name
            return os.dup(int(number[1]))
    return os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)


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


def _declare_detectors(parser: Parser) -> None:
    parser.usage = "pysandbox dlp detectors [-r POLICY]... [--pack NAME]..."
    _declare_wanted(parser)


def _detectors(namespace: Namespace) -> int:
    wanted = Wanted(_rows(_policy(namespace))).rows
    rows = [{"name": each.name, "homes": list(each.homes), "never": each.never} for each in wanted]
    width = max(len(each.name) for each in wanted)
    return answer(namespace, rows, (f"{each.name:<{width}}  {_where(each)}" for each in wanted))


def _where(detector: Detector) -> str:
    if detector.never:
        return "nowhere"
    return ", ".join(each for each in detector.homes if not each.startswith("**.")) or "where a host lists it"


ACTIONS: dict[str, Action] = {
    "scan": (_scan, _declare_scan, "Find credentials in files, in plain or encoded."),
    "detectors": (_detectors, _declare_detectors, "List what is looked for, and where each may be sent."),
}
