"""`pysandbox orphans`: what outlived its host, by intent or not; removed only when asked."""

from __future__ import annotations

from dataclasses import asdict

from pysandbox.cli import cages, console
from pysandbox.cli.flags import Parser
from pysandbox.launch.orphans import Orphan, find_orphans, remove

EPILOG = """\
Examples:
  pysandbox orphans             list them: detached cages, and what killed hosts have left
  pysandbox orphans --json      the same for a program
  pysandbox orphans --remove    end the detached cages and remove the rest

Kinds: `detached` a cage that was told to outlive its host; `spool` the output of one that has ended; `cage` one that
did not end with its host; `record`, `scratch`, `cgroup` files of a host that was killed. Exit code 0, 1 when something
could not be removed.
"""


def main(arguments: list[str], verbose: bool) -> int:
    def act() -> int:
        namespace = parser().read(arguments)
        return tell(removing=namespace.remove, as_json=namespace.json)

    return cages.guarded("orphans", act)


def parser() -> Parser:
    declared = cages.parser("orphans", "List, or remove, what outlived its host.", EPILOG, with_id=False)
    declared.add_argument("--remove", action="store_true", help="End and remove what is listed.")
    declared.add_argument("--json", action="store_true", help="Print one JSON document.")
    return declared


def tell(*, removing: bool, as_json: bool) -> int:
    """Lists them, and removes each where that was asked for; the exit code."""
    found = find_orphans()
    kept = [each for each in found if not _removed(each)] if removing else []
    if as_json:
        console.document([asdict(each) for each in found], indent=2)
    else:
        for each in found:
            pid = f"pid {each.pid}  " if each.pid else ""
            console.out(f"{each.kind:<8}  {each.path}  {pid}{cages.printable(each.detail, 60)}".rstrip())
    return 1 if kept else 0


def _removed(orphan: Orphan) -> bool:
    try:
        remove(orphan)
    except OSError as error:
        console.error(f"{orphan.path} was not removed: {error}")
        return False
    return True
