"""Text under /proc is shaped by whoever runs there. What a limit depends on reads it as bytes, through
`launch/proctext.py`, and does not take every error for "it has ended".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pysandbox

PACKAGE = Path(pysandbox.__file__).parent
WATCHERS = ("live/watchdog.py", "live/tree.py", "live/unreadable.py", "launch/proctext.py")
LAYERS = ("launch/", "live/", "records/", "runtime/", "supervise/")


def modules() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
    }  # fmt: skip


def names_proc(call: ast.Call) -> bool:
    texts = [node.value for argument in call.args[:1] for node in ast.walk(argument) if isinstance(node, ast.Constant)]
    return bool(texts) and isinstance(texts[0], str) and texts[0].startswith("/proc/")


def opened_as_text(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "open"
            and names_proc(node)
        ):
            modes = [arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant)]
            if not any("b" in str(mode) for mode in modes):
                yield node.lineno


def test_nobody_opens_anything_of_a_process_as_text() -> None:
    found = {f"{name}:{line}" for name, tree in modules().items() if name.startswith(LAYERS)
             for line in opened_as_text(tree)}  # fmt: skip
    assert found == {f"records/orphans.py:{line}" for line in opened_as_text(modules()["records/orphans.py"])}, (
        "only the host's own /proc/self may be text"
    )


def test_nobody_splits_lines_as_str_does() -> None:
    found = [
        f"{name}:{node.lineno}" for name, tree in modules().items() if name.startswith(LAYERS)
        for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "splitlines"
    ]  # fmt: skip
    assert found == []


@pytest.mark.parametrize("name", WATCHERS)
def test_a_watcher_swallows_no_error_that_it_does_not_name(name: str) -> None:
    """An `except OSError` here must look at errno, or pass the error on."""
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.ExceptHandler) and isinstance(node.type, ast.Name) and node.type.id == "OSError":
            body = ast.unparse(node)
            assert "errno" in body or "raise" in body or "_nothing(error" in body, f"{name}:{node.lineno}: {body}"


@pytest.mark.parametrize("name", ["live/tree.py", "live/stopping.py"])
def test_what_parses_it_cannot_raise_for_what_is_in_it(name: str) -> None:
    """No bare int() and no fixed place in a list but in the reader, which is fuzzed."""
    tree = modules()[name]
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    assert [node.lineno for node in calls if node.func.id == "int"] == []  # type: ignore[attr-defined]
