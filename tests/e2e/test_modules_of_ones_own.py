"""Functions in a cage that use other modules of their program, and what those keep from one call to the next."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysandbox import CageExecutor, Policy, Template

FILES = {
    "tool/__init__.py": "",
    "tool/shapes.py": """
from dataclasses import dataclass
@dataclass
class Square:
    side: int
def area(square): return square.side ** 2
""",
    "tool/deep/__init__.py": "",
    "tool/deep/units.py": """
from .. import shapes
UNIT = 'm2'
def said(square): return f'{shapes.area(square)} {UNIT}'
""",
    "tool/deep/calls.py": """
from __future__ import annotations
from pysandbox import sandboxed
from ..shapes import Square, area
from . import units
@sandboxed
def grown(square: Square) -> Square: return Square(square.side + area(square))
@sandboxed
def told(square: Square) -> str: return units.said(square) + inner(1)
@sandboxed
def inner(number: int) -> str: return '!' * number
@sandboxed
def lost() -> int: return units.nowhere
""",
    "main.py": """
from tool.deep.calls import *
from tool.deep.calls import grown, told, lost
from tool.shapes import Square
from pysandbox import SandboxedError
print(grown(Square(2)), told(Square(3)))
try:
    lost()
except SandboxedError as error:
    print(error.kind, "calls.py" in error.traceback)
""",
}


def test_what_a_package_imports_of_itself_comes_along(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    ran = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines() == ["Square(side=6) 9 m2!", "AttributeError False"], ran.stderr


KEPT: dict[str, object] = {}
LOADED: Square | None = None


class Square:
    def __init__(self, side: int) -> None:
        self.side = side


def load(side: int = 5) -> None:
    global LOADED
    LOADED = Square(side)
    KEPT["pid"] = os.getpid()


def side(more: int) -> tuple[object, bool, list[str]]:
    assert LOADED is not None
    return LOADED.side + more, isinstance(LOADED, Square), list(KEPT)


@pytest.mark.parametrize("isolate", ["cage", pytest.param("worker", marks=pytest.mark.landlock(6))])
def test_what_an_initializer_binds_is_there_for_the_calls(isolate: str) -> None:
    with CageExecutor(Policy(), isolate=isolate, max_workers=2, initializer=load, initargs=(7,)) as executor:
        assert list(executor.map(side, [1, 2])) == [(8, True, ["pid"]), (9, True, ["pid"])]


@pytest.fixture
def template() -> Iterator[Template]:
    with Template(Policy(), preload=load) as opened:
        yield opened


@pytest.mark.landlock(6)
def test_what_a_preload_binds_is_there_for_its_workers(template: Template) -> None:
    assert [each.value for each in template.map(side, [1, 2])] == [(6, True, ["pid"]), (7, True, ["pid"])]
