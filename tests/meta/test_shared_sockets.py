"""Sockets that another process gets are made in `pysandbox/descriptors/sockets.py`, so that they wait whatever the host
program has said of its own (`socket.setdefaulttimeout`)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pysandbox

MAKES_THEM = "descriptors/sockets.py"
# They run in processes of their own, in which no program has said anything.
OWN_PROCESSES = {"gate/inspection/__main__.py", "pipeline/worker.py"}


def pairs(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "socketpair":
            yield node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module in ("socket", "_socket"):
            yield from (node.lineno for name in node.names if name.name == "socketpair")


def test_what_is_looked_for_is_found() -> None:
    assert [*pairs(ast.parse("import socket\nsocket.socketpair()"))] == [2]
    assert [*pairs(ast.parse("from _socket import socketpair"))] == [1]


def test_no_other_file_makes_a_pair() -> None:
    root = Path(pysandbox.__file__).parent
    found = {str(path.relative_to(root)) for path in root.rglob("*.py") if [*pairs(ast.parse(path.read_text()))]}
    assert found - OWN_PROCESSES == {MAKES_THEM}
