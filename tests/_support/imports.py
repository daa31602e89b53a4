"""Which module of the package imports which: at its top, inside a function, or for a type only."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from _support.tree import PACKAGE, modules

Graph = Mapping[str, frozenset[str]]


def name_of(path: Path) -> str:
    parts = (PACKAGE.name, *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def import_graph() -> Graph:
    sources = {name_of(path): path.read_text(encoding="utf-8") for path in modules()}
    return {name: frozenset(imported(source, frozenset(sources))) - {name} for name, source in sources.items()}


def imported(source: str, known: frozenset[str]) -> Iterator[str]:
    """The modules, out of those that are known, that a source imports anywhere or names in a string, as lazy facades
    do (`import_module("pysandbox.cage")`)."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, "relative imports are not followed"
            both = [(f"{node.module}.{alias.name}", node.module) for alias in node.names]
            yield from (inner if inner in known else outer for inner, outer in both if {inner, outer} & known)
        elif isinstance(node, ast.Constant) and node.value in known and "." in node.value:
            yield node.value


def circles(graph: Graph) -> list[frozenset[str]]:
    """The strongly connected components of more than one module (Tarjan), the largest first."""
    return sorted(_Tarjan(graph).run(), key=len, reverse=True)


class _Tarjan:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._index: dict[str, int] = {}
        self._low: dict[str, int] = {}
        self._stack: list[str] = []
        self._found: list[frozenset[str]] = []

    def run(self) -> list[frozenset[str]]:
        for name in self._graph:
            if name not in self._index:
                self._visit(name)
        return self._found

    def _visit(self, name: str) -> None:
        self._index[name] = self._low[name] = len(self._index)
        self._stack.append(name)
        for target in sorted(self._graph.get(name, ())):
            if target not in self._index:
                self._visit(target)
                self._low[name] = min(self._low[name], self._low[target])
            elif target in self._stack:
                self._low[name] = min(self._low[name], self._index[target])
        if self._low[name] == self._index[name]:
            self._close(name)

    def _close(self, root: str) -> None:
        at = self._stack.index(root)
        component, self._stack[at:] = frozenset(self._stack[at:]), []
        if len(component) > 1:
            self._found.append(component)
