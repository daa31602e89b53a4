"""A tree of the host, and what somebody wrote in a copy of it: by the copier that a cage's copies are made with."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from _support.overlays import LOOK, PRELUDE, WROTE, Overlay
from pysandbox.compile.plan import CopiedTree
from pysandbox.live.copier import CopyBudget
from pysandbox.live.copies import Copy, copy_tree
from pysandbox.workspace.snapshot import CopyUpper
from pysandbox.workspace.upper import Tree, Upper


def copied(source: Path, place: Path, *, most: int = 1 << 30, hollow: tuple[tuple[str, int], ...] = ()) -> Copy:
    """A new copy of `source` at `place`."""
    found = source.stat()
    tree = CopiedTree(str(source), "", found.st_dev, found.st_ino, hollow)
    return copy_tree(str(place), tree, CopyBudget(most, lambda: None))


def tree_of(made: Copy, denied: tuple[bytes, ...] = ()) -> Tree:
    return Tree(made.tree.path, made.source, made.opening, denied)


class Snapshot(Overlay):
    """A tree that is filled first, and then written over in its copy."""

    made: Copy

    @property
    def layer(self) -> Path:
        return self.place / "copy"

    def again(self, upper: Upper) -> Upper:
        made = self.made._replace(source=os.dup(self.made.source), sink=os.dup(self.made.sink))
        return CopyUpper(upper.tree._replace(fd=made.source), made, lambda: True, None)

    def write(self, program: str, *, denied: tuple[bytes, ...] = (), seen: bool = True) -> Upper:
        """Runs a Python program in the copy, as root of a user namespace; what it wrote."""
        self.made = copied(self.lower, self.layer)
        upper = CopyUpper(tree_of(self.made, denied), self.made, lambda: True, None)
        code = PRELUDE + LOOK + textwrap.dedent(program) + (WROTE if seen else "")
        environment = {**os.environ, "VIEW": str(self.place / "view.json")}
        command = ["unshare", "-Ur", sys.executable, "-c", code]
        ended = subprocess.run(command, cwd=self.layer, capture_output=True, text=True, check=False, env=environment)
        assert ended.returncode == 0, ended.stderr
        return upper


BOTH = (Overlay, Snapshot)  # what keeps apart what was written
