"""Which statements change an object: told by what they say, and by what their names stand for here."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pysandbox.pipeline.effects import effects_on
from pysandbox.pipeline.gathering import gathered
from pysandbox.pipeline.shipping import Definition

FOUND = """FOUND = {}
LIST = []
class Kept: space = {}
def note(name, more): more_than(name)
def more_than(name): FOUND[name] = 1
def local(FOUND): FOUND['x'] = 1
def again(n=1): again(n - 1) if n else None
SECRET = 'secret'
"""


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], bool]]:
    (tmp_path / "own_found.py").write_text(FOUND)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = importlib.import_module("own_found")

    def asked(statement: str) -> bool:
        (tmp_path / "own_other.py").write_text(f"import own_found\nfrom own_found import *\nKEY = 'key'\n{statement}\n")
        sys.modules.pop("own_other", None)
        importlib.invalidate_caches()
        importlib.import_module("own_other")
        objects = [found.FOUND, found.LIST, found.Kept]
        return ("own_other", Definition("", 4)) in [*effects_on(objects, ["own_found"])]

    yield asked
    for name in ("own_found", "own_other"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("statement", [
    "FOUND['x'] = 1", "own_found.FOUND['x'] = 1", "own_found.FOUND.update(x=1)", "LIST.append(2)",
    "for each in range(3): LIST.append(each)", "Kept.space['x'] = 1", "Kept.more = 1", "note('x', 1)",
    "own_found.more_than('x')", "if KEY:\n    with open('/dev/null'): LIST.insert(0, 1)", "taken = LIST.append(1)",
    "FOUND['x'] = 1; del FOUND['x']",
])  # fmt: skip
def test_a_statement_that_changes_it(changed: Callable[[str], bool], statement: str) -> None:
    assert changed(statement)


@pytest.mark.parametrize("statement", [
    "KEY = len(FOUND)", "KEY = FOUND.get('x')", "print(FOUND)", "local({})", "again()", "def later(): FOUND['x'] = 1",
    "later = lambda: FOUND.clear()", "if __name__ == '__main__': FOUND['x'] = 1", "OTHER = {}; OTHER['x'] = FOUND",
    "import sys; sys.own_mark = 1",
])  # fmt: skip
def test_one_that_reads_it_or_does_nothing_yet(changed: Callable[[str], bool], statement: str) -> None:
    assert not changed(statement)


def test_of_a_module_with_effects_the_rest_stays_here(changed: Callable[[str], bool]) -> None:
    changed("FOUND['x'] = 1")
    other: ModuleType = sys.modules["own_other"]
    sources = gathered({"own_found": {Definition("FOUND")}})
    assert "KEY" not in sources[other.__name__][0] and "FOUND['x'] = 1" in sources[other.__name__][0]
    assert sources[other.__name__][3]
