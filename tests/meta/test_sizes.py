"""No function and no file that a reader cannot hold in his head: what grows past these is two ideas."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from _support.tree import PACKAGE, REPOSITORY, around, modules

LONGEST_FUNCTION = 45  # lines, with signature, docstring and blank ones
LONGEST_STEPS = 30  # of compile_plan, which says its order
LONGEST_CLASS, LONGEST_FILE = 300, 400

C_FUNCTION = re.compile(r"^[a-z_][\w ]*[ *](\w+)\([^;{}]*\) *\{\n.*?^\}", re.MULTILINE | re.DOTALL)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def shown(path: Path) -> str:
    return path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else REPOSITORY).as_posix()


def lengths() -> dict[str, int]:
    """Each function, nested ones too, with its number of lines."""
    found: dict[str, int] = {}
    for path in (*modules(), *around()):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, Function) and node.end_lineno is not None:
                name, lines = f"{shown(path)}:{node.name}", node.end_lineno - node.lineno + 1
                found[name] = max(lines, found.get(name, 0))
    return found


def test_no_function_is_too_long() -> None:
    found = lengths()
    assert len(found) > 1000
    long = {name: lines for name, lines in found.items() if lines > LONGEST_FUNCTION}
    assert not long, f"longer than {LONGEST_FUNCTION} lines: {long}"


def c_lengths() -> Iterator[tuple[str, int]]:
    """Each function of csrc, from its first line to the brace that closes it."""
    for path in (REPOSITORY / "csrc").rglob("*.c"):
        for found in C_FUNCTION.finditer(path.read_text(encoding="utf-8")):
            yield f"{shown(path)}:{found[1]}", found[0].count("\n") + 1


def test_no_function_of_c_is_too_long() -> None:
    found = dict(c_lengths())
    assert len(found) > 700 and "csrc/setup/setup.c:set_up_and_become_init" in found
    long = {name: lines for name, lines in found.items() if lines > LONGEST_FUNCTION}
    assert not long, f"longer than {LONGEST_FUNCTION} lines: {long}"


def sizes() -> Iterator[tuple[str, int, int]]:
    """Each class and file, of Python and of C, with its lines and the bar for it."""
    for path in (*modules(), *around()):
        name, text = shown(path), path.read_text(encoding="utf-8")
        yield name, text.count("\n"), LONGEST_FILE
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.end_lineno is not None:
                yield f"{name}:{node.name}", node.end_lineno - node.lineno + 1, LONGEST_CLASS
    for path in (REPOSITORY / folder for folder in ("csrc", "tests", "bench")):
        yield from ((shown(each), each.read_text(encoding="utf-8").count("\n"), LONGEST_FILE)
                    for each in path.rglob("*.[ch]"))  # fmt: skip


def test_no_class_and_no_file_is_too_long() -> None:
    found = list(sizes())
    known = {"cage.py", "policy/model.py:Policy", "csrc/setup/setup.c", "tests/conftest.py"}
    assert known <= {name for name, _, _ in found}
    long = {name: lines for name, lines, bar in found if lines > bar}
    assert not long, f"longer than a file or class may be: {long}"


def test_the_compiler_is_a_list_of_steps() -> None:
    source = (PACKAGE / "compile" / "compiler.py").read_text(encoding="utf-8")
    (found,) = (node for node in ast.parse(source).body if isinstance(node, Function) and node.name == "compile_plan")
    began, end = found.body[1].lineno, found.end_lineno  # after the docstring
    assert end is not None and end - began + 1 <= LONGEST_STEPS
