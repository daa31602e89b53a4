"""Which statements change an object: told by what they say, and by what their names stand for here."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pysandbox.pipeline.effects import effects_on
from pysandbox.pipeline.gathering import gathered
from pysandbox.pipeline.harmless import is_about_cages
from pysandbox.pipeline.shipping import Definition, needed_source

FOUND = """import os
FOUND = {}
LIST = []
class Kept: space = {}
def note(name, more): more_than(name)
def more_than(name): FOUND[name] = 1
def take(name, function): FOUND[name] = function
def at_once(function): LIST.append(function())
def fill():
    for each in range(3): LIST.append(each)
def reads(name): FOUND[name] = os.getcwd()
def ends(name=''):
    import sys
    FOUND[name] = len(sys.argv)
def local(FOUND): FOUND['x'] = 1
def again(n=1): again(n - 1) if n else None
def of_name(name):
    def decorate(function):
        FOUND[name] = function
        return function
    return decorate
class Registry:
    def __init__(self): self.all = {}
    def keep(self, name, function): self.all[name] = function
    def load(self, name): self.all[name] = os.getcwd()
REGISTRY = Registry()
SECRET = 'secret'
"""
USES = {"whole": "[*FOUND, *LIST, Kept.space, REGISTRY.all]", "by key": "[FOUND['x'], FOUND.get('y'), 'z' in FOUND]"}
BY_DECORATOR = "@of_name('x')\ndef more(): pass"
Asked = Callable[..., bool]


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """Whether a statement goes along: of the module of the function itself (`near`), or of another one."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def asked(statement: str, *, near: bool = False, used: str = "whole") -> bool:
        for name in ("own_other", "own_found"):
            sys.modules.pop(name, None)
        (tmp_path / "own_found.py").write_text(f"{FOUND}def function(): return {USES[used]}\n")
        (tmp_path / "own_other.py").write_text(
            "import os, own_found\nfrom own_found import *\n"
            f"TOKEN, KEY, OTHER = 'token', 'key', {{}}\ndef own(): return 1\n{statement}\n"
        )
        importlib.invalidate_caches()
        importlib.import_module("own_found")
        importlib.import_module("own_other")
        callers = ["own_found", *(["own_other"] if near else [])]
        lines = {each.line for name, each in effects_on(sent(), callers) if name == "own_other" and not each.column}
        return lines == {6 if statement.startswith("@") else 5} if lines else False

    def sent() -> dict[str, str]:
        found = sys.modules["own_found"]
        line = found.function.__code__.co_firstlineno
        return {"own_found": needed_source(found, frozenset((Definition("function", line),)))}

    yield asked
    for name in ("own_found", "own_other"):
        sys.modules.pop(name, None)


FILLS = (
    "FOUND['x'] = 1", "own_found.FOUND['x'] = 1", "own_found.FOUND.update(x=1)", "LIST.append(2)", "FOUND[KEY] = TOKEN",
    "for each in range(3): LIST.append(each)", "Kept.space['x'] = 1", "note('x', 1)", "fill()",
    "own_found.more_than('x')", "if KEY:\n    with open('/dev/null'): LIST.insert(0, 1)", "taken = LIST.append(1)",
    "FOUND['x'] = 1; del FOUND['x']", "REGISTRY.all = 1", "REGISTRY.keep('x', TOKEN)",
)  # fmt: skip
REGISTERS = (
    "FOUND['x'] = own", "FOUND[KEY] = own", "FOUND.update(x=own)", "FOUND.update({'x': lambda: TOKEN})",
    "take('x', own)",
    "own_found.take('x', own)", "LIST.append(own)", "LIST.append(('x', own))", "REGISTRY.keep('x', own)",
    "LIST.clear()",
    "for each in (own,): FOUND['x'] = each", "if True: FOUND['x'] = own", BY_DECORATOR, "FOUND['x'] = FOUND['y'] = own",
)  # fmt: skip


@pytest.mark.parametrize("statement", [*FILLS, *REGISTERS])
def test_what_the_function_s_own_module_does(changed: Asked, statement: str) -> None:
    assert changed(statement, near=True)


@pytest.mark.parametrize("statement", REGISTERS)
def test_what_another_module_registers(changed: Asked, statement: str) -> None:
    assert changed(statement)


@pytest.mark.parametrize("statement", [
    *(each for each in FILLS if "del" not in each and each != "REGISTRY.all = 1"), "if TOKEN: FOUND['x'] = own",
    "FOUND.update(a=own, b=TOKEN)", "if True:\n    OTHER['t'] = TOKEN\n    FOUND['x'] = own", "take(TOKEN, own)",
    "def setup(function): FOUND[TOKEN] = function\nsetup(own)",
    "if True:\n    MORE = 'token'\n    FOUND['x'] = own", "FOUND[os.environ['PATH']] = own",
])  # fmt: skip
def test_the_values_of_another_module_stay_there(changed: Asked, statement: str) -> None:
    assert not changed(statement)


@pytest.mark.parametrize("near", [False, True])
def test_a_key_that_the_sent_code_says_goes_along_and_no_other(changed: Asked, near: bool) -> None:
    for key in "xyz":
        assert changed(f"FOUND[{key!r}] = TOKEN", near=near, used="by key")
        assert changed(f"own_found.FOUND.update({key}=TOKEN)", near=near, used="by key")
    for statement in ("FOUND['token'] = TOKEN", "FOUND.update(token=TOKEN)", "FOUND.setdefault('token', TOKEN)"):
        assert not changed(statement, near=near, used="by key")


def test_of_statements_in_one_line_only_that_one_goes(changed: Asked) -> None:
    changed("TOKEN = 'other'; LIST.append(own)")
    source = needed_source(sys.modules["own_found"], frozenset((Definition("LIST"),)))
    (found,) = effects_on({"own_found": source}, ["own_found"])
    assert found == ("own_other", Definition("", 5, column=17))
    assert "TOKEN" not in needed_source(sys.modules["own_other"], frozenset((found[1],)))


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("statement", [
    "reads('x')", "ends('x')", "at_once(own)", "REGISTRY.load('/dev/null')", "if KEY:\n    fill()\n    reads('x')",
    "try: ends()\nfinally: pass", "for each in range(2): ends(each)",
])  # fmt: skip
def test_a_call_that_does_more_than_to_compute_is_the_program_s_own(changed: Asked, statement: str, near: bool) -> None:
    assert not changed(statement, near=near)


@pytest.mark.parametrize("near", [False, True])
@pytest.mark.parametrize("statement", [
    "KEY = len(FOUND)", "KEY = FOUND.get('x')", "print(FOUND)", "local({})", "again()", "def later(): FOUND['x'] = 1",
    "later = lambda: FOUND.clear()", "if __name__ == '__main__': FOUND['x'] = 1", "OTHER = {}; OTHER['x'] = FOUND",
    "import sys; sys.own_mark = 1",
])  # fmt: skip
def test_one_that_reads_it_or_does_nothing_yet(changed: Asked, statement: str, near: bool) -> None:
    assert not changed(statement, near=near)


CAGES = """import own_deep
from own_deep import work, Runner
import pysandbox
RESULTS = []
def inner(): RESULTS.append(work())
def main(): inner()
def run(function): RESULTS.append(function())
def imports():
    from pysandbox import Template
    RESULTS.append(Template)
"""
DEEP = """import pysandbox
def deeper(): return pysandbox.Policy
def work(): return deeper()
class Runner:
    def go(self): return deeper()
"""


@pytest.mark.parametrize("statement", [
    "main()", "run(main)", "RESULTS.append(main())", "RESULTS.append(own_deep.work())", "RESULTS.append(Runner().go())",
    "imports()", "for each in range(2): RESULTS.append(work())",
])  # fmt: skip
def test_one_that_leads_into_cages_by_whatever_it_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_deep.py").write_text(DEEP)
    (tmp_path / "own_cages.py").write_text(CAGES)
    importlib.invalidate_caches()
    module = importlib.import_module("own_cages")
    try:
        assert is_about_cages(ast.parse(statement).body[0], vars(module))
        assert not is_about_cages(ast.parse("RESULTS.append(main)").body[0], vars(module)), "nobody calls it"
    finally:
        for name in ("own_cages", "own_deep"):
            sys.modules.pop(name)


def test_one_that_is_running_has_had_no_effect_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_running.py").write_text(
        "from pysandbox.pipeline.harmless import running_statements\nFOUND = []\n"
        "FOUND.append(\n    running_statements())\nOTHER = running_statements()\n"
    )
    importlib.invalidate_caches()
    module = importlib.import_module("own_running")
    sys.modules.pop("own_running")
    assert ("own_running", 3) in module.FOUND[0]
    assert "own_running" not in {name for name, _ in module.OTHER}, "which changes nothing"


def test_of_a_module_with_effects_the_rest_stays_here(changed: Asked) -> None:
    changed("FOUND['x'] = own")
    other: ModuleType = sys.modules["own_other"]
    sources = gathered({"own_found": {Definition("FOUND")}})
    assert "KEY" not in sources[other.__name__][0] and "FOUND['x'] = own" in sources[other.__name__][0]
    assert sources[other.__name__][3]
