"""`pysandbox discard`: forgets a kept workspace."""

from __future__ import annotations

from pysandbox.cli import cages, console, decide
from pysandbox.cli.flags import Parser
from pysandbox.workspace import store
from pysandbox.workspace.workspace import Workspace

EPILOG = """\
Examples:
  pysandbox discard           the newest kept workspace
  pysandbox discard 7Q2M      the one whose id ends (or begins) so
  pysandbox discard --all     all of them

The tree stays as it is.
"""


def main(arguments: list[str], verbose: bool) -> int:
    def act() -> int:
        namespace = parser().read(arguments)
        names = [each.id for each in Workspace.kept()] if namespace.all else [decide.found(namespace.id)]
        for name in names:
            store.remove(name)
        if namespace.json:
            console.document({"forgotten": names})
        else:
            console.say(f"forgotten: {len(names)} of the kept workspaces")
        return 0

    return cages.guarded("discard", act)


def parser() -> Parser:
    declared = decide.parser("discard", "Forget a kept workspace.", EPILOG)
    declared.add_argument("--all", action="store_true", help="All that are kept.")
    declared.add_argument("--json", action="store_true", help="Print one JSON document.")
    return declared
