"""`pysandbox audit`: the trail of what ran: its runs, its records, and whether anybody has changed it since.

Exit code of `verify`: 0 when the chain holds, else 1.
"""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable

from pysandbox.audit import files
from pysandbox.audit.read import AuditRecord, last_written, records, verify
from pysandbox.audit.runs import CommandRun, Run, all_runs, find_id
from pysandbox.cli import console
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.cli.progress import Progress
from pysandbox.events import TYPES
from pysandbox.shapes import asdict

BROKEN = 1
PAUSE = 0.2  # seconds between two looks with --follow

EPILOG = """\
Examples:
  pysandbox audit list                 what ran, the last run last
  pysandbox audit show --last          every record of the last run
  pysandbox audit show --follow        records as they are written, until Ctrl-C
  pysandbox audit verify               whether the stream is what was written
  pysandbox audit verify --expect HASH and whether the record of that hash is still in it
  pysandbox audit --list               the types of event there are
  pysandbox audit --orphans            what killed hosts have left, and detached cages; --remove ends and removes it

The stream is $XDG_STATE_HOME/pysandbox/audit/events.jsonl, or what PYSANDBOX_AUDIT names.
"""


def main(arguments: list[str], verbose: bool) -> int:
    try:
        namespace = parser().read(arguments)
        return _command(namespace)(namespace)
    except UsageError as wrong:
        return console.usage_error(str(wrong), "pysandbox audit --help")
    except SystemExit as stop:  # argparse printed the help
        return int(stop.code or 0)


def parser() -> Parser:
    parser = Parser("pysandbox audit", "Show and check the trail of what ran.", EPILOG)
    parser.usage = "pysandbox audit [flags] (list | show [RUN] | verify | --list | --orphans [--remove])"
    add = parser.add_argument
    add("command", nargs="?", choices=tuple(COMMANDS), metavar="COMMAND", help="list, show or verify")
    add("run", nargs="?", metavar="RUN", help="The id of a run, or enough letters of its beginning or end.")
    add("--last", action="store_true", help="show: the last run.")
    add("--follow", action="store_true", help="show: records as they are written.")
    add("--expect", metavar="HASH", help="verify: the hash of a record that must be there.")
    add("--path", metavar="FILE", help="Another stream.")
    add("--json", action="store_true", help="Print JSON, one document a line.")
    add("--list", action="store_true", help="Print the types of event and their fields.")
    add("--orphans", action="store_true", help="List what outlived its host, as `pysandbox orphans` does.")
    add("--remove", action="store_true", help="--orphans: end and remove what is listed.")
    return parser


def _command(namespace: Namespace) -> Callable[[Namespace], int]:
    if namespace.remove and not namespace.orphans:
        raise UsageError("--remove belongs to --orphans: records of the trail are not removed")
    if namespace.orphans and namespace.command is not None:
        raise UsageError(f"--orphans stands alone, without {namespace.command!r}")
    if namespace.orphans:
        return _orphans
    if namespace.list:
        return _types
    if namespace.command is None:
        raise UsageError("say what to do: list, show or verify")
    return COMMANDS[namespace.command]


def stream_path(namespace: Namespace) -> str:
    return namespace.path or files.chosen_path() or files.default_path()


def _types(namespace: Namespace) -> int:
    for each in TYPES.values():
        if namespace.json:
            console.document(asdict(each))
        else:
            console.out(each.name, f"    {each.doc}", f"    {', '.join(each.fields)}")
    return 0


def _orphans(namespace: Namespace) -> int:
    from pysandbox.cli.orphans import tell

    return tell(removing=namespace.remove, as_json=namespace.json)


# ---- list ------------------------------------------------------------------------------------------------------


def _list(namespace: Namespace) -> int:
    runs = all_runs(stream_path(namespace))
    palette = console.Palette(sys.stdout)
    for run in runs:
        if namespace.json:
            console.document(asdict(run))
        else:
            console.out(_line(run, palette))
    if not runs and not namespace.json:
        console.out("Nothing has run.")
    return 0


def _line(run: Run, palette: console.Palette) -> list[str]:
    first = run.commands[0]
    more = f"  (+{len(run.commands) - 1})" if len(run.commands) > 1 else ""
    refused = sum(each.count for each in run.refusals)
    parts = (
        f"{first.began[:19].replace('T', ' ')}  {run.id}",
        palette.paint(console.GREEN if first.exit_code == 0 else console.YELLOW, f"{ending(first):<20}"),
        " ".join(first.argv) + more,
        palette.paint(console.RED, f"  {refused} refused") if refused else "",
        "" if run.caged else palette.paint(console.RED, "  NO CAGE"),
    )
    return [piece for part in parts if part for piece in ("  ", part)][1:]


def ending(command: CommandRun) -> str:
    """How a command ended, in a word or two."""
    if command.failed:
        return "never ran"
    if command.exit_code is None:
        return "no end recorded"
    return command.killed or f"exit {command.exit_code}"


# ---- show ------------------------------------------------------------------------------------------------------


def _show(namespace: Namespace) -> int:
    path = stream_path(namespace)
    if namespace.follow:
        return _follow(path, namespace)
    if namespace.run is None and not namespace.last:
        raise UsageError("which run? give an id, --last, or --follow")
    wanted = find_id(path, None if namespace.last else namespace.run)
    for record in records(path):
        if record.invocation == wanted:
            _print(record, as_json=namespace.json)
    return 0


def _follow(path: str, namespace: Namespace) -> int:
    seen = last_written(path)
    wanted = find_id(path, namespace.run) if namespace.run is not None else None
    try:
        while True:
            if last_written(path) > seen:
                for record in records(path, seen):
                    seen = record.seq
                    if wanted in (None, record.invocation):
                        _print(record, as_json=namespace.json)
                sys.stdout.flush()
            time.sleep(PAUSE)
    except KeyboardInterrupt:
        return 0


def _print(record: AuditRecord, *, as_json: bool) -> None:
    if as_json:
        console.document(asdict(record))
        return
    fields = ", ".join(f"{name}={json.dumps(each)}" for name, each in record.data.items() if name != "invocation_id")
    console.out(f"{record.seq:>6}  {record.time}  {record.type}  {fields}")


# ---- verify ----------------------------------------------------------------------------------------------------


def _verify(namespace: Namespace) -> int:
    path = stream_path(namespace)
    with Progress("verifying the trail"):
        verdict = verify(path)
        expected = namespace.expect is None or any(each.hash == namespace.expect for each in records(path))
    good = verdict.ok and expected
    if namespace.json:
        console.document({**asdict(verdict), "ok": good, "expected_found": expected})
        return 0 if good else BROKEN
    palette = console.Palette(sys.stdout)
    for each in verdict.breaks:
        console.out(palette.paint(console.RED, str(each)))
    for each in verdict.torn:
        console.out(palette.paint(console.YELLOW, str(each)))
    if not expected:
        console.out(palette.paint(console.RED, f"no record has the hash {namespace.expect}"))
    console.out(f"{verdict.records} records ({verdict.first} to {verdict.last.seq}) in {verdict.files} files: {path}")
    console.out(f"last hash: {verdict.last.hash}")
    console.out(
        palette.paint(console.GREEN, "The chain holds.") if good else palette.paint(console.RED, "THE CHAIN IS BROKEN.")
    )
    return 0 if good else BROKEN


COMMANDS: dict[str, Callable[[Namespace], int]] = {"list": _list, "show": _show, "verify": _verify}
