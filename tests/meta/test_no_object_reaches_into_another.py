"""What begins with an underscore belongs to the object, or the module, that defines it: nobody else reads or sets it.

`other._x` ties two classes together where neither says so. What another one needs is a public method, or data that
both hold. Also counted: getattr and setattr with such a name, and such a name imported from a module of ours.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.tree import PACKAGE, modules

OWN = ("self", "cls", "mcs")
# Public all the same: the methods of named tuples, which would be taken for fields otherwise, os._exit(2), the
# frames of threads, and, for which nothing else stands in, how a thread learns its number after a fork, and who tells
# the chain of a server's certificates (before Python 3.13).
PUBLIC = frozenset(
    ("_replace", "_asdict", "_fields", "_make", "_exit", "_getframe", "_current_frames", "_set_native_id", "_sslobj")
)
REACHES = ("getattr", "setattr", "hasattr", "delattr")


def is_private(name: object) -> bool:
    return isinstance(name, str) and name[:1] == "_" and name[:2] != "__" and name not in PUBLIC


def is_own(node: ast.expr) -> bool:
    """`self`, and what makes one: `super()`."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in OWN


def reaches(source: str) -> Iterator[tuple[int, str]]:
    """The private names of others that a source uses, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own(node.value):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.name):
            private = [alias.name for alias in node.names if is_private(alias.name) and alias.name != "_native"]
            yield from ((node.lineno, f"{node.module}.{name}") for name in private)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REACHES:
            named = node.args[1].value if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else ""
            if is_private(named) and not is_own(node.args[0]):
                yield node.lineno, ast.unparse(node)


@pytest.mark.parametrize("path", modules(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_module_uses_what_is_private_to_another_object(path: Path) -> None:
    name = path.relative_to(PACKAGE).as_posix()
    found = [f"{name}:{line}: {what}" for line, what in reaches(path.read_text(encoding="utf-8"))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "def f(other):\n    return other._x",
        "class A:\n    def f(self, other):\n        other._x = 1",
        "class A:\n    def f(self):\n        self.other._x()",
        "class A:\n    def f(self, other):\n        return getattr(other, '_x', None)",
        "from pysandbox.a import _x",
        "import pysandbox.a\n\npysandbox.a._x",
        "A()._x",
    ],
)
def test_a_reach_is_found(source: str) -> None:
    assert list(reaches(source))


@pytest.mark.parametrize(
    "source",
    [
        "class A:\n    def f(self):\n        return self._x + self.__dict__['y'] + super()._x()",
        "class A:\n    @classmethod\n    def f(cls):\n        return cls._x",
        "import os\n\nos._exit(0)",
        "def f(pair):\n    return pair._replace(a=1)",
        "from pysandbox._native import lib",
        "def f(other):\n    return getattr(other, 'x')",
    ],
)
def test_what_is_ones_own_is_none(source: str) -> None:
    assert not list(reaches(source))
