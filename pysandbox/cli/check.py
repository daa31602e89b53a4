"""`pysandbox check`: what this host can do for a cage, what is lost without the rest, and how to get it.

Exit code 0 when the minimum is met (the required rows of `pysandbox.probe.features`), else 1.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from pysandbox.cli import console
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.probe.features import Feature, Host, Reading, mac_system, minimum_met, read_all, too_old
from pysandbox.setup.status import INSTALLED, NOT_INSTALLED, NOT_NEEDED, Status, read_status
from pysandbox.setup.target import find_target
from pysandbox.shapes import Any

BELOW_MINIMUM = 1
LONGEST_TRIAL = 60  # seconds
Line = str | Sequence[str]  # as `console.out` takes it
NETWORK_HELPER = "not needed"  # a cage's network has no way out that a helper would have to make

EPILOG = """\
Examples:
  pysandbox check              a table to read
  pysandbox check --json       the same for a program
  pysandbox check && echo ok   exit code 0: cages can run here; 1: they cannot
"""

Readings = list[tuple[Feature, Reading]]


def main(arguments: list[str], verbose: bool, host: Host | None = None) -> int:
    """Print the report; `host` stands in for this one in tests."""
    try:
        namespace = parser().read(arguments)
    except UsageError as wrong:
        return console.usage_error(str(wrong), "pysandbox check --help")
    except SystemExit as stop:  # argparse printed the help
        return int(stop.code or 0)
    pretended, host = host is not None, host or Host()
    readings = read_all(host)
    failure = _failure_of_a_trial() if minimum_met(readings) and not pretended else ""
    if namespace.json:
        console.document(_document(readings, host, failure), indent=2)
    else:
        palette = console.Palette(sys.stdout)
        console.out(*_table(readings, host, palette, failure, explain_all=verbose or namespace.verbose))
    return 0 if minimum_met(readings) and not failure else BELOW_MINIMUM


def _failure_of_a_trial() -> str:
    """Why no cage can be made here after all: the rows are the reasons that are known, not all that there are."""
    from pysandbox.cage import Cage
    from pysandbox.errors import CageError
    from pysandbox.events import in_turn
    from pysandbox.policy.model import Policy
    from pysandbox.runtime.runtime import Runtime

    policy = Policy(workdir="none", walltime_sec=LONGEST_TRIAL)
    try:
        result = Cage(policy, cwd="/", runtime=Runtime(sink=in_turn(), register=False)).run(["true"])
    except (CageError, OSError) as error:  # the cage is there, where it lacks the program alone
        return "" if getattr(error, "step", "") == "exec" else str(error)
    return "" if result.exit_code == 0 else str(result).partition("\n")[0]


def parser() -> Parser:
    declared = Parser("pysandbox check", "Say what this host can do for a cage, and how to get the rest.", EPILOG)
    declared.add_argument("--json", action="store_true", help="Print one JSON document.")
    return declared


def _document(readings: Readings, host: Host, failure: str) -> dict[str, Any]:
    policy = _policy(host)
    return {
        "version": console.version(),
        "kernel": _release(host),
        "machine": os.uname().machine,
        "minimum_met": minimum_met(readings),
        "trial": failure or "passed",
        "mac": mac_system(host),
        "policy": {"status": policy.word, "path": policy.path},
        "kernel_lacks": [row.name for row in too_old(readings, _release(host))],
        "network_helper": NETWORK_HELPER,
        "features": [_row(row, reading) for row, reading in readings],
    }


def _row(row: Feature, reading: Reading) -> dict[str, Any]:
    return {
        "name": row.name,
        "ok": reading.ok,
        "required": row.required,
        "detail": reading.detail,
        "since": f"{row.since[0]}.{row.since[1]}",
        "without": row.without,
        "fix": row.fix,
    }


def _table(readings: Readings, host: Host, palette: console.Palette, failure: str, *, explain_all: bool) -> list[Line]:
    lines: list[Line] = [palette.paint(console.BOLD, f"pysandbox {console.version()}, Linux {_release(host)}")]
    for heading, required in (("Required", True), ("Optional", False)):
        lines += ["", heading]
        for row, reading in readings:
            if row.required == required:
                lines += _lines(row, reading, palette, explain=explain_all or not reading.ok)
    met = minimum_met(readings)
    lacking = ", ".join(row.name for row in too_old(readings, _release(host))) or "nothing"
    lines += ["", f"Lacking in this kernel: {lacking}", f"Access control (MAC): {mac_system(host)}"]
    lines += [*_policy_lines(_policy(host), met), f"Network helper: {NETWORK_HELPER}", ""]
    verdict = "Cages can run here." if met else "Cages cannot run here: see what is required above."
    if met and (walls := [row.name for row, reading in readings if row.name == "landlock" and not reading.ok]):
        verdict = f"Cages can run here, each without a wall ({', '.join(walls)}): see what is lost above."
    if failure:
        verdict = f"Cages cannot run here: all that is required is there, and one was tried and failed: {failure}"
    return [*lines, palette.paint(console.GREEN if met and not failure else console.RED, verdict)]


def _release(host: Host) -> str:
    return host.release or os.uname().release


def _policy(host: Host) -> Status:
    """The status of the policy for this installation; one whose path no policy can name has none."""
    try:
        return read_status(find_target(), host)
    except ValueError:
        return Status(NOT_NEEDED if mac_system(host) == "none" else NOT_INSTALLED)


def _policy_lines(policy: Status, met: bool) -> list[str]:
    lines = [f"Policy: {policy}"]
    if policy.word not in (INSTALLED, NOT_NEEDED):
        lost = "The cages here are not confined by it as well." if met else "It may be what forbids cages here."
        lines += [f"{'':29}without it: {lost}", f"{'':29}to get it:  As root: pysandbox setup."]
    return lines


def _lines(row: Feature, reading: Reading, palette: console.Palette, *, explain: bool) -> list[Line]:
    colour = console.GREEN if reading.ok else console.RED if row.required else console.YELLOW
    mark = palette.paint(colour, f"{'yes' if reading.ok else 'NO':<3}")
    lines: list[Line] = [("  ", mark, f"  {row.name:<20}  {reading.detail}")]
    if explain:
        lines += [f"{'':29}without it: {row.without}", f"{'':29}to get it:  {row.fix}"]
    return lines
