"""`pysandbox diff`: what a kept workspace would change."""

from __future__ import annotations

from pysandbox.cli import cages, console, decide
from pysandbox.cli.flags import Parser
from pysandbox.shapes import TYPE_CHECKING
from pysandbox.workspace.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable

EPILOG = """\
Examples:
  pysandbox diff                  the newest kept workspace, as a patch; control characters are escaped
  pysandbox diff --stat           one line for each file
  pysandbox diff --summary        as the end of `pysandbox run` shows it
  pysandbox diff 7Q2M --json      with sizes, modes, digests and marks
  pysandbox diff --list           what is kept
"""


def main(arguments: list[str], verbose: bool) -> int:
    return cages.guarded("diff", lambda: _show(arguments))


def parser() -> Parser:
    declared = decide.parser("diff", "Show what a kept workspace would change.", EPILOG)
    decide.add_paths(declared)
    add = declared.add_argument
    add("--stat", action="store_true", help="One line for each file.")
    add("--summary", action="store_true", help="What may run on the host first, large directories as one line.")
    add("--json", action="store_true", help="One JSON document.")
    add("--list", action="store_true", help="List the kept workspaces: id, trees, command.")
    return declared


def _show(arguments: list[str]) -> int:
    namespace = parser().read(arguments)
    if namespace.list:
        decide.tell_recovered()
        decide.listed(Workspace.kept(), as_json=namespace.json)
        return 0
    workspace, paths = decide.opened(namespace.id), decide.paths_of(namespace)
    try:
        if namespace.summary:
            decide.shown(workspace.changes(paths), workspace.trees)
            return 0
        shape = "json" if namespace.json else "stat" if namespace.stat else "unified"
        if shape == "json":
            console.generated(workspace.diff("json", paths) + "\n")  # ASCII, without control characters
        else:
            show_patch(workspace.diff_lines(shape, paths))  # type: ignore[arg-type]
    finally:
        workspace.close()
    return 0


def show_patch(parts: Iterable[str]) -> None:
    """Line by line; a tab is a tab, every other control character is escaped. Each part ends with a line's end."""
    for part in parts:
        for line in part.split("\n")[:-1]:
            console.out_with_tabs(line)
