"""No function and no file that a reader cannot hold in his head: what grows past these is two ideas."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from _support.tree import PACKAGE, REPOSITORY, modules

LONGEST_FUNCTION = 45  # lines, with signature, docstring and blank ones
LONGEST_STEPS = 30  # of compile_plan, which says its order
LONGEST_CLASS, LONGEST_FILE = 300, 400
# What is longer still, and by how much at most; only ever to be taken from here.
STILL_LONGER: dict[str, int] = {}
STILL_LARGER: dict[str, int] = {}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function of a file, nested ones too, with its number of lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, Function) and node.end_lineno is not None:
            yield f"{path.relative_to(PACKAGE).as_posix()}:{node.name}", node.end_lineno - node.lineno + 1


def lengths() -> dict[str, int]:
    found: dict[str, int] = {}
    for path in modules():
        for name, lines in functions(path):
            found[name] = max(lines, found.get(name, 0))
    return found


def test_no_function_is_too_long() -> None:
    found = lengths()
    assert len(found) > 1000
    long = {name: lines for name, lines in found.items() if lines > STILL_LONGER.get(name, LONGEST_FUNCTION)}
    assert not long, f"longer than {LONGEST_FUNCTION} lines: {long}"


def test_what_may_still_be_longer_is_longer() -> None:
    found = lengths()
    mended = [name for name in STILL_LONGER if found.get(name, 0) <= LONGEST_FUNCTION]
    assert not mended, f"take {mended} from STILL_LONGER"


def sizes() -> Iterator[tuple[str, int, int]]:
    """Each class and file of the package, and each file of csrc, with its lines and the bar for it."""
    for path in modules():
        name, text = path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")
        yield name, text.count("\n"), LONGEST_FILE
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.end_lineno is not None:
                yield f"{name}:{node.name}", node.end_lineno - node.lineno + 1, LONGEST_CLASS
    for path in (REPOSITORY / "csrc").rglob("*.[ch]"):
        yield path.relative_to(REPOSITORY).as_posix(), path.read_text(encoding="utf-8").count("\n"), LONGEST_FILE


def test_no_class_and_no_file_is_too_long() -> None:
    found = list(sizes())
    assert {"cage.py", "policy/model.py:Policy", "csrc/setup/setup.c"} <= {name for name, _, _ in found}
    long = {name: lines for name, lines, bar in found if lines > STILL_LARGER.get(name, bar)}
    assert not long, f"longer than a file or class may be: {long}"


def test_the_compiler_is_a_list_of_steps() -> None:
    source = (PACKAGE / "compile" / "compiler.py").read_text(encoding="utf-8")
    (found,) = (node for node in ast.parse(source).body if isinstance(node, Function) and node.name == "compile_plan")
    began, end = found.body[1].lineno, found.end_lineno  # after the docstring
    assert end is not None and end - began + 1 <= LONGEST_STEPS
