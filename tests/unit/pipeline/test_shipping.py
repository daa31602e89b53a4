"""What goes into a cage of a function's module: what it looks up there, and nothing that is only called alike."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pysandbox.pipeline.shipping import Definition, needed_source, shipped

SCRIPT = """
import math as m
from json import dumps

BASE = 2
LIMITS = {"one": BASE}
rows = open("/nowhere/at/all") if False else []
each = result = [1]


class Shape:
    sides = LIMITS


def helper(value):
    return m.sqrt(value)


def wanted(result, *, deep=BASE):
    rows = [each for each in result]
    def inner():
        return helper(rows[0]), Shape
    with Shape() as result:
        return inner(), lambda each: each


def caller():
    global rows
    rows = dumps(1)
"""


DECORATED = """
from pysandbox import Policy, sandboxed
TOKEN = "secret"
SECONDS = {TOKEN: 5}
@sandboxed(Policy(), timeout=SECONDS[TOKEN])
def inner(): return 1
def outer(): return inner()
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "script_of_names.py").write_text(SCRIPT)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("script_of_names")
    del sys.modules["script_of_names"]


def needed(module: ModuleType, name: str) -> str:
    return needed_source(module, frozenset([Definition(name, getattr(module, name).__code__.co_firstlineno)]))


def test_a_variable_of_its_own_brings_nothing_that_is_called_alike(script: ModuleType) -> None:
    source = needed(script, "wanted")
    assert "/nowhere" not in source and "each = result" not in source and "dumps" not in source


def test_all_that_it_looks_up_comes_along_and_what_that_looks_up(script: ModuleType) -> None:
    source = needed(script, "wanted")
    for part in ("BASE = 2", "LIMITS =", "class Shape", "def helper", "import math as m"):
        assert part in source, part
    names: dict[str, object] = {"__name__": "elsewhere"}
    exec(compile(source, "<source>", "exec"), names)
    assert names["BASE"] == 2


def test_what_it_binds_at_the_top_of_the_module_is_looked_up_there(script: ModuleType) -> None:
    source = needed(script, "caller")
    assert "rows = open" in source and "dumps" in source


def test_what_only_the_decorator_of_another_sandboxed_function_names_stays_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "script_of_decorated.py").write_text(DECORATED)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("script_of_decorated")
    try:
        source = needed(module, "outer")
    finally:
        del sys.modules["script_of_decorated"]
    assert "def inner" in source
    for part in ("secret", "SECONDS", "sandboxed"):
        assert part not in source, part


@pytest.mark.parametrize("name", ["no_module_of_ours", None])
def test_a_function_of_no_module_is_refused_by_name(name: str | None) -> None:
    names: dict[str, object] = {"__name__": name}
    exec("def made(): return 1", names)
    with pytest.raises(TypeError, match=f"'made' cannot be called in a cage: its module, {name!r}, is not imported"):
        shipped(names["made"])  # type: ignore[arg-type]
