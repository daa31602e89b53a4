"""What the commands about live cages share: finding one by the beginning of its id, acting on it, and saying which.

A record is only believed where /proc agrees with it; a signal goes through a pidfd that was checked after it was
opened, so never to a process that came by an old pid.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pysandbox.cli.console import plain, usage_error
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.live import processes
from pysandbox.records import registry
from pysandbox.records.registry import CageRecord

SHORTEST = 4  # letters of an id that name a cage
NEWEST = "last"


def parser(name: str, description: str, epilog: str, *, with_id: bool = True) -> Parser:
    made = Parser(f"pysandbox {name}", description, epilog)
    made.usage = f"pysandbox {name} [flags]" + (" ID" if with_id else "")
    if with_id:
        made.add_argument("id", metavar="ID", help="The id of a cage, or enough of its end or its beginning.")
    return made


def parser_with_newest(name: str, description: str, epilog: str, what: str) -> Parser:
    """For a command that is about `what`, and about the newest where it is told of none."""
    made = parser(name, description, epilog, with_id=False)
    made.usage = f"{made.prog} [flags] [ID|{NEWEST}]"
    made.add_argument("id", metavar="ID", nargs="?", default=NEWEST,
                      help=f"{what}, by enough of its id; `{NEWEST}`, the default, is the newest.")  # fmt: skip
    return made


def guarded(name: str, act: Callable[[], int]) -> int:
    """Runs a command; wrong usage is 125 and says where to look."""
    try:
        return act()
    except UsageError as wrong:
        return usage_error(str(wrong), f"pysandbox {name} --help")
    except SystemExit as stop:  # argparse printed the help
        return int(stop.code or 0)


def find(text: str, ids: list[str]) -> str:
    """The one id that begins or ends with `text`. Raises UsageError."""
    wanted = text.upper()
    found = [each for each in ids if each.startswith(wanted) or each.endswith(wanted)]
    if wanted in ids:
        return wanted
    if len(wanted) < SHORTEST:
        raise UsageError(f"{text!r} is too short for an id: give {SHORTEST} letters or more")
    if len(found) != 1:
        many = f"{len(found)} cages" if found else "no live cage"
        raise UsageError(f"{many} with the id {text!r}; `pysandbox ps` lists them")
    return found[0]


def live(text: str) -> CageRecord:
    """The live cage of that id. Raises UsageError."""
    known = {record.id: record for record in registry.live()}
    return known[find(text, list(known))]


@contextmanager
def pinned(record: CageRecord) -> Iterator[int]:
    """A pidfd of its cage-init. Raises UsageError when it has just ended."""
    pidfd = processes.pin(record.init)
    if pidfd is None:
        raise UsageError(f"cage {record.id} has just ended")
    try:
        yield pidfd
    finally:
        os.close(pidfd)


def command_lines(record: CageRecord) -> list[str]:
    """What runs: the command of the record, or of a session whatever its cage-init has started."""
    if record.argv:
        return [" ".join(record.argv)]
    lines = (_command_line(pid) for pid in processes.children(record.init.pid))
    return [line for line in lines if line]


def age(record: CageRecord) -> str:
    seconds = max(0, int(time.time() - record.started))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def printable(text: str, width: int) -> str:
    """One line of `width` columns at most: a command line is the cage's own choice of words."""
    clean = plain(text)
    return clean if len(clean) <= width else clean[: max(0, width - 1)] + "…"


def _command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read(4096).replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""
