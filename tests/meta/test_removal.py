"""Nothing of this package removes, walks or opens up a tree by its path: what a cage could write goes through
`launch/removal.py`, by descriptors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pysandbox

BY_PATH = {
    "shutil": {"rmtree", "move", "copytree", "chown"},
    "os": {"chmod", "lchmod", "chown", "lchown", "walk", "fwalk", "removedirs", "renames"},
}
REMOVAL = Path("launch/removal.py")
# What runs in a cage, and reaches nothing of the host's.
IN_A_CAGE: dict[str, set[str]] = {"pipeline/walls.py": {"os.chmod"}}  # of a descriptor, by /proc/self/fd


def calls(tree: ast.AST) -> Iterator[str]:
    """Those by a path alone; with `dir_fd=` it is one name in a directory that is open."""
    below = {id(node.func) for node in ast.walk(tree)
             if isinstance(node, ast.Call) and any(given.arg == "dir_fd" for given in node.keywords)}  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and id(node) not in below:
            if node.attr in BY_PATH.get(node.value.id, ()):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom) and node.module in BY_PATH:
            yield from (f"{node.module}.{name.name}" for name in node.names if name.name in BY_PATH[node.module])


def found_in(root: Path) -> set[tuple[str, str]]:
    files = (path.relative_to(root) for path in root.rglob("*.py"))
    return {
        (str(file), call)
        for file in files
        if file != REMOVAL
        for call in calls(ast.parse((root / file).read_text()))
        if call not in IN_A_CAGE.get(str(file), ())
    }


def test_a_tree_is_removed_in_one_place_only() -> None:
    assert found_in(Path(pysandbox.__file__).parent) == set()


def test_the_guard_sees_both_ways_to_name_a_call(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("import os\nfrom shutil import rmtree\nos.chmod('/x', 0)\nrmtree('/x')\n")
    (tmp_path / "good.py").write_text("import os\nos.chmod('x', 0, dir_fd=3)\nos.chown('x', 0, 0, dir_fd=3)\n")
    assert found_in(tmp_path) == {("bad.py", "os.chmod"), ("bad.py", "shutil.rmtree")}
