"""`pysandbox commit`: writes a kept workspace to its tree, all of it, a part, or hunk by hunk; or takes that back."""

from __future__ import annotations

from pysandbox.cli import cages, console, decide
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.errors import CommitConflict
from pysandbox.shapes import TYPE_CHECKING
from pysandbox.workspace.undo import undoable
from pysandbox.workspace.workspace import Workspace

if TYPE_CHECKING:
    from argparse import Namespace

    from pysandbox.workspace.workspace import Commit

EPILOG = """\
Examples:
  pysandbox commit                       the newest kept workspace, all of it or nothing
  pysandbox commit last src Makefile     a part; the rest stays kept
  pysandbox commit --path src            the same, of the newest
  pysandbox commit -p                    asks for each file, and for each hunk of it
  pysandbox commit --path .envrc         what the host obeys is written only where it is named
  pysandbox commit --on-conflict skip    without what was changed in the tree meanwhile
  pysandbox commit --undo                takes the last one back, for an hour
  pysandbox commit --json                one document: what was written, what was left and why

Exit codes: 0 written; 1 the tree was changed meanwhile, and nothing was written; 125 it could not be written.
"""
CONFLICT = 1
LONGEST_SHOWN = 4096  # letters of a path: a cage may nest directories until it is several times as long


def main(arguments: list[str], verbose: bool) -> int:
    def act() -> int:
        namespace = parser().read(arguments)
        try:
            if namespace.json and namespace.patch:
                raise UsageError("--patch asks, and --json is for a program: choose one")
            return _undo(namespace.id, as_json=namespace.json) if namespace.undo else _commit(namespace)
        except CommitConflict as conflict:
            tell_conflict(conflict, as_json=namespace.json)
            return CONFLICT

    return cages.guarded("commit", act)


def parser() -> Parser:
    declared = decide.parser("commit", "Write a kept workspace to its tree.", EPILOG)
    decide.add_paths(declared)
    add = declared.add_argument
    add("-p", "--patch", action="store_true", help="Ask for each file, and for each hunk of a text.")
    add("--on-conflict", choices=("fail", "skip", "force"), default="fail", metavar="WHAT",
        help="Of what was changed in the tree meanwhile: fail (default) writes nothing, skip leaves it out, "
        "force writes over it.")  # fmt: skip
    add("--undo", action="store_true", help="Take back a commit of the last hour: ID is the commit's.")
    add("--json", action="store_true", help="Print one JSON document.")
    return declared


def _commit(namespace: Namespace) -> int:
    from pysandbox.cli.trail import open_audit

    workspace = decide.opened(namespace.id, tell=open_audit())
    try:
        contents: dict[str, bytes] = {}
        paths = decide.paths_of(namespace)
        if namespace.patch:
            from pysandbox.cli.pick import picked

            paths, contents = picked(workspace, paths)
            if not paths:
                console.say("nothing was chosen, so nothing was written; it stays kept")
                return 0
        done = workspace.commit(paths, on_conflict=namespace.on_conflict, contents=contents, exactly=namespace.patch)
        rest = len(workspace.changes())
        if not rest:
            workspace.abort()
        if namespace.json:
            console.document(_document(done, rest))
            return 0
        tell(done)
        if rest:
            console.say("the rest stays kept: pysandbox diff shows it, pysandbox discard forgets it")
    finally:
        workspace.close()
    return 0


def _document(done: Commit, rest: int) -> dict[str, object]:
    """What was written, as `diff --json` has it; `rest`: how many changes stay kept."""
    from pysandbox.workspace.diff import plain_change

    return {
        "commits": list(done.ids),
        "written": [plain_change(each) for each in done.written],
        "skipped": [each._asdict() for each in done.skipped],
        "rest": rest,
    }


def tell(done: Commit) -> None:
    console.say(f"written: {len(done.written)}" + (f", left: {len(done.skipped)}" if done.skipped else ""))
    for each in done.skipped:
        path = each.path if len(each.path) <= LONGEST_SHOWN else f"{each.path[:LONGEST_SHOWN]}..."
        console.show([f"  {path}: {each.reason}"])
    for name in done.ids:
        console.say(f"for an hour, this takes it back: pysandbox commit --undo {name[-8:]}")


def tell_conflict(conflict: CommitConflict, *, as_json: bool) -> None:
    if as_json:
        conflicts = [each._asdict() for each in conflict.conflicts]
        console.document({"commits": [], "written": [], "tree": conflict.tree, "conflicts": conflicts})
        return
    console.error(f"{conflict.tree}: nothing was written, since the tree was changed meanwhile")
    for each in conflict.conflicts:
        console.show([f"  {each.path}: {each.reason}"])
    console.say(
        "--on-conflict skip leaves these out, force writes over them; pysandbox diff shows what would be written"
    )


def _undo(text: str, *, as_json: bool) -> int:
    decide.tell_recovered()
    known = undoable()
    if not known and text == cages.NEWEST:
        raise UsageError("there is no commit of the last hour")
    name = known[-1] if text == cages.NEWEST else decide.by_id(text, known, "commits of the last hour")
    tree = Workspace.undo(name)
    if as_json:
        console.document({"undone": name, "tree": tree})
    else:
        console.say(f"taken back: {tree} is as it was")
    return 0
