"""Modules depend on each other in one direction only, imports inside functions and for types alone included.

A module in a circle can be neither read, nor tested, nor moved without the others. What two modules need of each other
belongs into a third one below both: the data they share, or a Protocol for the one that is called.
"""

from __future__ import annotations

from _support.imports import circles, import_graph, imported


def test_no_module_is_in_a_circle() -> None:
    graph = import_graph()
    found = [
        "\n".join(f"{name} -> {', '.join(sorted(graph[name] & circle))}" for name in sorted(circle))
        for circle in circles(graph)
    ]
    assert not found, "\n\n".join(found)


def test_a_circle_is_found_however_it_is_imported() -> None:
    known = frozenset(("p.a", "p.b", "p.c", "p"))
    sources = {
        "p.a": "def f():\n    from p.b import g\n",
        "p.b": "if TYPE_CHECKING:\n    from p import c\n",
        "p.c": "from importlib import import_module\n\ng = import_module('p.a')\n",
        "p": "import p.a\n",
    }
    graph = {name: frozenset(imported(source, known)) for name, source in sources.items()}
    assert circles(graph) == [frozenset(("p.a", "p.b", "p.c"))]


def test_the_graph_holds_the_whole_package() -> None:
    graph = import_graph()
    assert "pysandbox.live.init" in graph["pysandbox.runtime.runtime"]
    assert "pysandbox.cage" in graph["pysandbox"]
