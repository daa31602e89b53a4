"""What is told apart where a program's texts are read, and what is not looked at."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pysandbox.pipeline.gathering import gathered
from pysandbox.pipeline.shipping import Definition

Sent = Callable[[str], str]


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sent]:
    """What of a module goes along with `work`, which names TABLE alone."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def gather(text: str) -> str:
        (tmp_path / "own_told.py").write_text(f"TABLE = []\n{text}\ndef work(): return TABLE\n")
        importlib.invalidate_caches()
        importlib.import_module("own_told")
        return gathered({"own_told": {Definition("work")}})["own_told"][0]

    yield gather
    sys.modules.pop("own_told", None)


KEEPER = "def keeper(table):\n    def keep(each): table.append(each)\n    return keep\nOTHER = []\n"
METHODS = (
    "class Runner:\n    def idle(self): pass\n    def fill(self): TABLE.append(1)\n"
    "RUNNER = Runner()\ndef call(function): function()\n"
)


@pytest.mark.parametrize("calls", [
    "other = keeper(OTHER)\nmine = keeper(TABLE)\nother(1)\nmine(2)", "keeper(OTHER)(1)\nkeeper(TABLE)(2)",
    "def give(keep): keep(1)\ngive(keeper(OTHER))\ngive(keeper(TABLE))",
])  # fmt: skip
def test_a_function_in_another_one_is_told_by_what_it_has_from_there(sent: Sent, calls: str) -> None:
    source = sent(f"{KEEPER}{calls}")
    assert calls.splitlines()[-1] in source and "OTHER" not in source


def test_methods_are_told_apart_that_are_made_as_they_are_asked(sent: Sent) -> None:
    source = sent(METHODS + "call(RUNNER.idle)\ncall(RUNNER.fill)\n" * 20)
    assert source.count("call(RUNNER.fill)") == 20 and "call(RUNNER.idle)" not in source


def test_a_function_may_be_called_by_any_number_of_statements(sent: Sent) -> None:
    calls = [f"def each{at}(): pass\nnote(TABLE, each{at})" for at in range(30)]
    source = sent("def note(table, each): table.append(each)\n" + "\n".join(calls))
    assert source.count("note(TABLE, each") == 30


@pytest.mark.parametrize("text", [
    "class Proxy:\n    @property\n    def __class__(self): raise RuntimeError\nTABLE.append(Proxy())",
    "class Proxy:\n    def __getattribute__(self, name): raise RuntimeError\nTABLE.append(Proxy())",
    "import weakref\nclass Gone: pass\nTABLE.append(weakref.proxy(Gone()))",
    "class Rows(tuple):\n    def __iter__(self): raise RuntimeError\nTABLE.append(Rows((1, [])))",
    "class Rows(list):\n    def __iter__(self): raise RuntimeError\nTABLE.append(Rows((1, [])))",
], ids=["class", "attribute", "weak", "tuple", "list"])  # fmt: skip
def test_nothing_is_run_to_look_at_an_object(sent: Sent, text: str) -> None:
    assert text.rpartition("\n")[2] in sent(text)


@pytest.mark.parametrize("statement", [
    "ROW = KNOWN.get('a')", "ROW = TREE.find('b')", "ROW = TREE.get_part()", "ROW = COUNTS.most_common(1)",
])  # fmt: skip
def test_what_reads_an_object_is_not_told_to_change_it(sent: Sent, statement: str) -> None:
    made = (
        "import collections, xml.etree.ElementTree as tree\nKNOWN = {'a': [1]}\nCOUNTS = collections.Counter('a')\n"
        "class Parts:\n    part = []\n    def get_part(self): return self.part\n"
    )
    tree = "Parts()" if "part" in statement else "tree.fromstring('<a><b/></a>')"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        source = sent(f"{made}TREE = {tree}\n{statement}\nTABLE = [KNOWN, TREE, COUNTS]")
    assert "ROW" not in source and "KNOWN" in source
