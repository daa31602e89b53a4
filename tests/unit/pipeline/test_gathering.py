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
    "def one(x): return area(x), json.dumps(x)\ndef two(x) -> Any: return vars(whole)\ndef three(): return Any\n"
    "def four(): return whole.A.real\n",
    "keys.py": "SECRET = 'secret'\nNAME = 'name'\nfrom . import shapes\nglobals()['MADE'] = 1\n",
    "lazy.py": "SECRET = 'secret'\ndef __getattr__(name):\n    if name != 'ANY': raise AttributeError\n",
    "names.py": "import own_package.keys\nimport own_package.keys as k\nfrom own_package import lazy\n"
    "def by_path(): return own_package.keys.NAME\ndef by_name(): return k.NAME, k.__name__\n"
    "def unused():\n    import own_package.keys\ndef passed(): return getattr(k, 'NAME')\n"
    "def by_dict(): return own_package.keys.__dict__\ndef through(): return k.shapes.area(1)\n"
    "def asked(): return lazy.ANY\ndef made():\n    from own_package.keys import MADE\n"
    "def later():\n    import own_package.late\n    return own_package.late.LATE\n"
    "def again():\n    import own_package.keys_again\n    return own_package.keys_again.NAME\n",
    "late.py": "LATE = 1\n",
    "alike/__init__.py": "from .alike import alike\n",
    "alike/alike.py": "SECRET = 'secret'\ndef alike(): return 1\n",
    "calls_alike.py": "from own_package.alike import alike\ndef call(): return alike()\n",
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


@pytest.mark.parametrize(
    ("function", "also", "of_keys"),
    [
        ("by_path", set(), "NAME"),
        ("by_name", set(), "NAME"),
        ("unused", set(), ""),
        ("made", set(), ""),
        ("passed", {"shapes"}, "NAME SECRET MADE"),
        ("by_dict", {"shapes"}, "NAME SECRET MADE"),
        ("through", {"shapes"}, "shapes"),
    ],
)
def test_of_a_module_that_is_imported_what_is_asked_of_it(
    package: ModuleType, function: str, also: set[str], of_keys: str
) -> None:
    found = sources(importlib.import_module("own_package.names"), function)
    assert set(found) - {"own_package"} == {"names", "keys", *also}
    assert not found.get("own_package", "").strip()
    held = {each for each in ("NAME", "SECRET", "MADE", "shapes") if each in found["keys"]}
    assert held - ({"shapes"} if also else set()) == set(of_keys.split()) - ({"shapes"} if also else set())


def test_a_module_that_says_itself_what_it_is_asked_for(package: ModuleType) -> None:
    found = sources(importlib.import_module("own_package.names"), "asked")["lazy"]
    assert "__getattr__" in found and "SECRET" not in found


def test_a_module_that_is_imported_after_the_first_call_is_sent_with_the_next(package: ModuleType) -> None:
    names = importlib.import_module("own_package.names")
    assert "late" not in sources(names, "later")
    importlib.import_module("own_package.late")
    assert "LATE" in sources(names, "later")["late"]


def test_a_module_of_two_names_is_sent_by_the_one_that_is_used(
    package: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = importlib.import_module("own_package.names")
    monkeypatch.setitem(sys.modules, "own_package.keys_again", sys.modules["own_package.keys"])
    assert "NAME" in sources(names, "again")["keys_again"]


def test_a_statement_is_known_by_its_text_whatever_is_sent_with_it(package: ModuleType) -> None:
    line = package.one.__code__.co_firstlineno
    alone = gathered({package.__name__: {Definition("one", line)}})[package.__name__][1]
    more = gathered({package.__name__: {Definition("one", line), Definition("two")}})[package.__name__][1]
    assert {each for each, _ in alone} < {each for each, _ in more}
    assert len({each for each, _ in more}) == len(more)


def test_a_function_that_is_called_as_its_module(package: ModuleType) -> None:
    found = sources(importlib.import_module("own_package.calls_alike"), "call")
    assert "import alike" in found["alike"]
    assert "def alike" in found["alike.alike"] and "SECRET" not in found["alike.alike"]
