"""Files that have a say in a policy are read in one place, and what is printed goes through one renderer.

Both are laws of `pysandbox/policy` and `pysandbox/cli`: a second way to open such a file would wait for a FIFO again,
and a second way to print would let a stranger's escape sequences through. This test reads the source.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pysandbox

PACKAGE = Path(pysandbox.__file__).parent
FILES = sorted([*PACKAGE.glob("policy/**/*.py"), *PACKAGE.glob("cli/*.py")])
CLI = sorted(PACKAGE.glob("cli/*.py"))

# (file, function): why it may open a file itself.
OPENS = {
    ("policy/reading.py", "read_regular"): "the one way",
    ("policy/trust.py", "pin"): "writes the user's own record",
    ("policy/bake.py", ""): "writes the package's own source, for its developers",
    ("cli/app.py", "_draw"): "writes a report",
    ("cli/apply.py", "write"): "writes a new file, O_EXCL",
    ("cli/cages.py", "_command_line"): "/proc",
    ("cli/dlp.py", "_read"): "what the command line names to be scanned, to a bound; nothing of it is obeyed",
    ("cli/dlp.py", "_open"): "as _read, which it opens for, without waiting",
    ("cli/explain.py", "_draw"): "writes a report",
    ("cli/fetch.py", "_write"): "writes the user's own recipe",
    ("cli/main.py", "_write_nowhere"): "/dev/null",
    ("policy/toolchain/shebang.py", "first_bytes"): "the first line of a program: never blocks, regular files alone",
}
READERS = ("open", "read_text", "read_bytes", "fdopen", "load")
RENDERER = ("out", "out_with_tabs", "show_parts", "generated", "document", "ask", "_line", "say")
PRINTS = {("cli/console.py", name): "the renderer" for name in RENDERER} | {
    ("cli/top.py", name): "lines that went through `plain`, and our own codes" for name in ("_show", "_screen")
}
TELLS = {("cli/setup.py", "_agreed"): "asks our own question", ("cli/explain.py", "_agreed"): "asks through `plain`"}


def calls(file: Path) -> Iterator[tuple[str, ast.Call]]:
    """(the function it stands in, the call) for each call of a file."""

    def walk(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.FunctionDef) else function
            if isinstance(child, ast.Call):
                yield function, child
            yield from walk(child, inner)

    yield from walk(ast.parse(file.read_text()), "")


def called(call: ast.Call) -> tuple[str, str]:
    """(what the name hangs on, the name)."""
    if isinstance(call.func, ast.Attribute):
        return ast.unparse(call.func.value), call.func.attr
    return "", call.func.id if isinstance(call.func, ast.Name) else ""


def where(file: Path, function: str) -> tuple[str, str]:
    return str(file.relative_to(PACKAGE)), function


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_a_file_is_opened_only_where_it_is_said_why(file: Path) -> None:
    opened = {
        where(file, function)
        for function, call in calls(file)
        for on, name in [called(call)]
        if name in READERS and on not in ("json", "marshal") and not (name == "open" and on not in ("", "os", "io"))
    }
    assert opened <= OPENS.keys()


@pytest.mark.parametrize("file", CLI, ids=lambda file: file.name)
def test_only_the_renderer_prints(file: Path) -> None:
    printed = {
        where(file, function)
        for function, call in calls(file)
        for on, name in [called(call)]
        if (on == "" and name in ("print", "input")) or (name in ("write", "writelines") and on.startswith("sys."))
    }
    assert printed <= PRINTS.keys() | TELLS.keys()


def test_the_lists_hold_nothing_that_is_gone() -> None:
    functions = {
        where(file, node.name)
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
    }
    listed = {each for each in (*OPENS, *PRINTS, *TELLS) if each[1]}
    assert listed <= functions
