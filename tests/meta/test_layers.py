"""The tree keeps its layers, and what is pure stays pure."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from _support.tree import PACKAGE, REPOSITORY, modules

PURE = (
    "compile", "netfilter", "handlers", "policy/fields.py", "policy/merge.py", "policy/model.py", "policy/narrow.py",
)  # fmt: skip
EFFECTS = frozenset(("os", "io", "pathlib", "socket", "subprocess", "time", "random", "threading"))
CALLS = frozenset(("open", "print", "input", "__import__"))  # of the builtins, and `.open`, `.read_text` of any object
METHODS = frozenset(("open", "read_text", "read_bytes", "write_text", "write_bytes", "getenv"))


def pure_modules() -> list[Path]:
    return [path for path in modules() if path.relative_to(PACKAGE).as_posix().startswith(PURE)]


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Every top-level package that is imported anywhere in the source, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.partition(".")[0]


def effects(source: str) -> Iterator[tuple[int, str]]:
    """Every call that reaches the world without an import, with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in CALLS:
            yield node.lineno, node.id
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            yield node.lineno, f".{node.func.attr}"


def test_no_module_imports_from_a_layer_above_it() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_what_decides_does_not_touch_the_world() -> None:
    impure = [
        f"{path.relative_to(PACKAGE)}:{line}: imports {name}"
        for path in pure_modules()
        for line, name in imports(path.read_text(encoding="utf-8"))
        if name in EFFECTS
    ]
    impure += [
        f"{path.relative_to(PACKAGE)}:{line}: uses {name}"
        for path in pure_modules()
        for line, name in effects(path.read_text(encoding="utf-8"))
    ]
    assert not impure, "\n".join(impure)


def test_the_purity_check_sees_a_file_that_is_opened() -> None:
    source = "def f(p):\n    with open(p) as file:\n        return p.read_text() + file.read()\n"
    assert sorted(name for _, name in effects(source)) == [".read_text", "open"]


def test_the_purity_check_sees_nested_and_dotted_imports() -> None:
    source = "def f():\n    import os.path\n    from socket import socket\n"
    assert [name for _, name in imports(source)] == ["os", "socket"]


def test_the_pure_modules_are_found() -> None:
    assert {"compile/plan.py", "policy/model.py"} <= {path.relative_to(PACKAGE).as_posix() for path in pure_modules()}
