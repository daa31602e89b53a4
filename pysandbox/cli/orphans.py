"""`pysandbox orphans`: what outlived its host, by intent or not; removed only when asked."""

from __future__ import annotations

from pysandbox.cli import cages, console
from pysandbox.cli.flags import Parser
from pysandbox.records.orphans import Orphan, find_orphans, remove
from pysandbox.shapes import TYPE_CHECKING, asdict

if TYPE_CHECKING:
    from collections.abc import Iterator

EPILOG = """\
Examples:
  pysandbox orphans             list them: detached cages, and what killed hosts have left
  pysandbox orphans --json      the same for a program
  pysandbox orphans --remove    end the detached cages, finish or undo the commits, remove the rest

Kinds: `detached` a cage that was told to outlive its host; `spool` the output of one that has ended; `cage` one that
did not end with its host; `record`, `scratch`, `cgroup` files of a host that was killed; `layers` what its cage wrote
to copy-on-write directories on disk; `commit` one of a workspace to its tree, which was interrupted. The next command
that touches a workspace removes the layers, and finishes or undoes the commit. Exit code 0, 1 when something could not
be removed.
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
    found = (*find_orphans(), *_commits())
    kept = [each for each in found if not _removed(each)] if removing else []
    if as_json:
        console.document([asdict(each) for each in found], indent=2)
    else:
        for each in found:
            pid = f"pid {each.pid}  " if each.pid else ""
            console.out(f"{each.kind:<8}  {each.path}  {pid}{cages.printable(each.detail, 60)}".rstrip())
    return 1 if kept else 0


def _commits() -> Iterator[Orphan]:
    from pysandbox.workspace import store
    from pysandbox.workspace.recovery import interrupted

    for each in interrupted():
        yield Orphan("commit", f"{store.directory()}/{each.id}", each.id, detail=f"to {each.tree}, {each.outcome}")


def _removed(orphan: Orphan) -> bool:
    try:
        if orphan.kind == "commit":
            from pysandbox.workspace.recovery import give_up

            give_up(orphan.id)
        else:
            remove(orphan)
    except OSError as error:
        console.error(f"{orphan.path} was not removed: {error}")
        return False
    return True
