"""The sources that go with a call: its own module's, and what it needs of modules of one's own that it imports."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pysandbox.pipeline.gathering import gathered
from pysandbox.pipeline.shipping import Definition

FILES = {
    "__init__.py": "VERSION = '1'\nother = 2\n",
    "shapes.py": "import math\nUNUSED = open('/nowhere') if False else 1\ndef area(side): return side * scale()\n"
    "def scale(): return math.pi\ndef not_needed(): return UNUSED\n",
    "inner/__init__.py": "",
    "inner/whole.py": "from . import used\nA = 1\nif __name__ == '__main__':\n    B = 1\n",
    "inner/used.py": "from .. import VERSION\nfrom ..shapes import *\n",
    "inner/main.py": "from __future__ import annotations\nfrom ..shapes import area\nfrom . import whole\n"
    "from typing import *\nimport json\n"
    "def one(x): return area(x), json.dumps(x)\ndef two(x) -> Any: return whole.A\ndef three(): return Any\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    for name, text in FILES.items():
        (tmp_path / "own_package" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own_package" / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("own_package.inner.main")
    for name in [each for each in sys.modules if each.startswith("own_package")]:
        del sys.modules[name]


def sources(module: ModuleType, name: str) -> dict[str, str]:
    line = getattr(module, name).__code__.co_firstlineno
    found = gathered({module.__name__: {Definition(name, line)}})
    assert [each for each, (*_, at_once) in found.items() if at_once] == [module.__name__]
    return {each.removeprefix("own_package."): text for each, (text, *_) in found.items()}


def test_of_a_module_the_part_that_is_named(package: ModuleType) -> None:
    found = sources(package, "one")
    assert set(found) == {"inner.main", "shapes"}
    assert "def area" in found["shapes"] and "math" in found["shapes"]
    assert "not_needed" not in found["shapes"] and "/nowhere" not in found["shapes"]


def test_all_of_a_module_that_is_used_as_one(package: ModuleType) -> None:
    found = sources(package, "two")
    assert set(found) == {"inner.main", "inner.whole", "inner.used", "shapes", "own_package"}
    assert "B = 1" not in found["inner.whole"] and "not_needed" in found["shapes"]
    assert "VERSION" in found["own_package"] and "other" not in found["own_package"]


def test_a_star_brings_what_it_binds(package: ModuleType) -> None:
    assert "from typing import *" in sources(package, "three")["inner.main"]
    assert "import *" not in sources(package, "one")["inner.main"]
