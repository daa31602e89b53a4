"""Which statements change an object: told by what they say, and by what their names stand for here."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pysandbox.pipeline.acting import INTO_CAGES, effect_of, statements_of
from pysandbox.pipeline.effects import Effects, running_lines
from pysandbox.pipeline.gathering import gathered
from pysandbox.pipeline.shipping import Definition, needed_source

FOUND = """import os, array
def own(): return 1
FOUND = {}
LIST = []
class Kept:
    space = {}
    def __init_subclass__(cls): pass
class Deaf: pass
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
    def take(self, function): self.all['x'] = function
    @classmethod
    def class_wide(cls, function): cls.wide = function
    @classmethod
    def loaded(cls): return cls()
REGISTRY = Registry()
MODEL, MATRIX = None, array.array('i', [0, 0])
def load():
    global MODEL
    MODEL = 1
def rows():
    for each in ROWS: each.append(1)
ROWS = [[], []]
def marks(function): function.mark = 1
def calls(function): function()
def keeps(given): OTHERS.append(given)
OTHERS = []
SECRET = 'secret'
"""
USES = "[*FOUND, *LIST, Kept.space, REGISTRY.all, MODEL, MATRIX, ROWS, Registry, own, Deaf]"
BY_DECORATOR = "@of_name('x')\ndef more(): pass"
Asked = Callable[..., bool]


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    """Whether a statement goes along, of a module of which a part is sent."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def asked(statement: str) -> bool:
        for name in ("own_other", "own_found"):
            sys.modules.pop(name, None)
        (tmp_path / "own_found.py").write_text(f"{FOUND}def function(): return {USES}\n")
        (tmp_path / "own_other.py").write_text(
            "import os, random, own_found\nfrom own_found import *\n"
            f"TOKEN, KEY, OTHER = 'token', 'key', {{}}\ndef here(): return 1\n{statement}\n"
        )
        importlib.invalidate_caches()
        importlib.import_module("own_found")
        importlib.import_module("own_other")
        lines = {
            each.line for name, each in Effects(frozenset()).on(parts()) if name == "own_other" and not each.column
        }
        return lines == {6 if statement.startswith("@") else 5} if lines else False

    def parts() -> dict[str, str]:
        there, other = sys.modules["own_found"], sys.modules["own_other"]
        line = there.function.__code__.co_firstlineno
        return {
            "own_found": needed_source(there, frozenset((Definition("function", line),))),
            "own_other": needed_source(other, frozenset((Definition("here", 4),))),
        }

    yield asked
    for name in ("own_found", "own_other"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("statement", [
    "FOUND['x'] = 1", "own_found.FOUND['x'] = 1", "own_found.FOUND.update(x=1)", "LIST.append(2)", "FOUND[KEY] = TOKEN",
    "for each in range(3): LIST.append(each)", "Kept.space['x'] = 1", "note('x', 1)", "fill()", "MATRIX[1] = 2",
    "own_found.more_than('x')", "if KEY:\n    with open('/dev/null'): LIST.insert(0, 1)",
    "FOUND['x'] = 1; del FOUND['x']", "REGISTRY.all = {}", "REGISTRY.keep('x', TOKEN)", "FOUND['x'] = here",
    "FOUND.update({'x': lambda: TOKEN})", "take('x', here)", "own_found.take('x', here)", "LIST.append(('x', here))",
    "LIST.clear()", "own_found.MODEL = 2", "if True: FOUND['x'] = here", "FOUND['x'] = FOUND['y'] = here", BY_DECORATOR,
    "load()", "rows()",
    "for row in ROWS: row.append(1)", "if True: row = ROWS[0]; row.append(2)", "random.shuffle(LIST)",
    "setattr(REGISTRY, 'x', 1)",
    "try: FOUND['x']\nexcept KeyError: FOUND['x'] = 1", "LIST.append(len(FOUND))", "local(FOUND)", "calls(fill)",
    "marks(own)", "class Below(Kept): pass", "Registry.class_wide(here)", "@REGISTRY.take\ndef more(): pass",
    "FOUND['x'] = reads('x')", "reads('x')", "ends('x')", "at_once(own)",
])  # fmt: skip
def test_what_changes_an_object_that_is_sent(changed: Asked, statement: str) -> None:
    assert changed(statement)


@pytest.mark.parametrize("statement", [
    "KEY = len(FOUND)", "KEY = FOUND.get('x')", "print(FOUND, FOUND.get('x'))", "local({})", "again()", "keeps(own)",
    "def later(): FOUND['x'] = 1", "later = lambda: FOUND.clear()", "if __name__ == '__main__': FOUND['x'] = 1",
    "OTHER = {}; OTHER['x'] = FOUND", "import sys; sys.own_mark = 1", "os.own_mark = 1", "OTHER['token'] = TOKEN",
    "model = Registry.loaded()", "OTHER.update(x=own)", "made = Registry()", "class Below(Deaf): pass",
    "assert FOUND is not None",
])  # fmt: skip
def test_what_reads_it_or_does_nothing_yet(changed: Asked, statement: str) -> None:
    assert not changed(statement)


CLIENT = """import argparse, enum, logging, os, re, string, sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
SEEN, ROWS, PATTERN, ROOT, ENVIRON, WAYS = [], [{}], re.compile('a'), Path('/'), os.environ, sys.path
TOKEN = 'secret'
class Client:
    def __init__(self, token=''): self.token, self.rows = token, ROWS
    def login(self, token): self.token = token
    def note(self): self._note()
    def _note(self): SEEN.append(1)
class Busy:
    def __init__(self, SEEN=None): self.begin()
    def begin(self): SEEN.append(1)
    @classmethod
    def made(cls): return cls()
    class Inner:
        def __init__(self): SEEN.append(1)
class Below(Busy):
    def begin(self): super().begin()
class Entered:
    def __enter__(self): SEEN.append(1)
    def __exit__(self, *given): pass
    def __setitem__(self, key, value): SEEN.append(value)
@dataclass(frozen=True)
class Settings:
    host: str = ''
    def url(self, token): return self.host + token
SETTINGS = Settings()
IDLE, ITEMS = Client(), Entered()
def number():
    for each, row in enumerate(ROWS): row['n'] = each
def extend(rows): rows += [1]
def either(given=None):
    rows = given or ROWS
    rows.append(1)
def default(rows=ROWS): rows.append(1)
def seen(): return SEEN
def again(): return again().more
def put(rows, each): rows.append(each)
def one(each): SEEN.append(each)
class Colour(enum.Enum):
    RED = 1
    def said(self, token): return token
class Box:
    host = ''
    def url(self, token): return [self.host, token]
def url_of(box, token): return box.host + token
def check(rows, token): return [each for each in rows if each == token]
def counted(function):
    def wrapper(token):
        SEEN.append(1)
        return function(token)
    return wrapper
BOX, LIBRARY = Box(), string.Template('')
PARSER = argparse.ArgumentParser()
OTHER, LATER = {}, []
MORE = lambda each: SEEN.append(each)
PUT, ADD, ALIAS = partial(put, SEEN), SEEN.append, SEEN
def function(): return Colour.RED, SEEN, ROWS, PATTERN, ROOT, ENVIRON, WAYS, SETTINGS, BOX, LIBRARY, PARSER
"""


def what_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str) -> str:
    """The part that `function` has in a cage, of a module with this statement."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_client.py").write_text(f"{CLIENT}{statement}\n")
    importlib.invalidate_caches()
    sys.modules.pop("own_client", None)
    try:
        importlib.import_module("own_client")
        return gathered({"own_client": {Definition("function")}})["own_client"][0]
    finally:
        sys.modules.pop("own_client", None)


@pytest.mark.parametrize("statement", [
    "CLIENT = Client(TOKEN)", "IDLE.login(TOKEN)", "class Worse(Busy): token = TOKEN", "FOUND = PATTERN.findall(TOKEN)",
    "KEY = ROOT.joinpath(TOKEN).exists()", "ENVIRON['OWN_TOKEN'] = TOKEN", "os.environ['OWN_TOKEN'] = TOKEN",
    "sys.path.append(TOKEN)", "URL = SETTINGS.url(TOKEN)", "RED = Colour.RED.said(TOKEN)",
    "logging.getLogger('own').debug('%s %s', SEEN, TOKEN)",
    "Client.token = TOKEN", "number.token = TOKEN", "again.kept = lambda: again().append(TOKEN)",
])  # fmt: skip
def test_a_secret_beside_what_only_could_change_an_object_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setenv("OWN_TOKEN", "")
    monkeypatch.setattr(sys, "path", [*sys.path])
    assert "SEEN.append(TOKEN)" in what_goes(tmp_path, monkeypatch, "SEEN.append(TOKEN)")
    assert "TOKEN" not in what_goes(tmp_path, monkeypatch, statement)


@pytest.mark.parametrize("statement", [
    "IDLE.note()", "Busy()", "Below()", "Busy.made()", "Busy.Inner()", "number()", "[row.clear() for row in ROWS]",
    "extend(SEEN)", "ALIAS += [1]", "either()", "default()", "seen().append(1)", "PUT(1)", "ADD(1)",
    "MORE(1)", "list(map(one, [1]))", "IDLE.rows[0] = 1",
    "with Entered(): pass", "ITEMS['x'] = 1", "setattr(Settings, 'more', 1)",
])  # fmt: skip
def test_what_changes_an_object_by_another_name_or_from_above_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    source = what_goes(tmp_path, monkeypatch, statement)
    assert source.rstrip().replace("\n    ", " ").endswith(statement)
    within = ModuleType("own_within")
    monkeypatch.setitem(sys.modules, "own_within", within)
    exec(source, vars(within))  # with all that it names


@pytest.mark.parametrize("statement, is_told", [
    ("taken = SEEN.append(TOKEN)", True), ("taken = put(SEEN, TOKEN)", True),
    ("ORDER = sorted([TOKEN], key=one)", True),
    ("if ROWS: taken: object = SEEN.append(TOKEN)", True),
    ("SUB = PARSER.add_subparsers()", True), ("TEXT = PARSER.format_help()", False), ("LEFT = BOX", False),
    ("URL = LIBRARY.substitute(token=TOKEN)", False), ("URL = BOX.url(TOKEN)", False), ("BOX.url(TOKEN)", False),
    ("URL = url_of(BOX, TOKEN)", False), ("check(SEEN, TOKEN)", False), ("OTHER['x'] = LATER.append(TOKEN)", False),
    ("string.Formatter().format('', TOKEN, SEEN)", False), ("OTHERS = [SEEN, TOKEN]", False),
    ("@counted\ndef other(token=TOKEN): return token", False),
])  # fmt: skip
def test_what_is_assigned_goes_for_its_name_alone_and_what_it_changes_besides_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, is_told: bool
) -> None:
    monkeypatch.setattr("pysandbox.pipeline.gathering._told", set())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        source = what_goes(tmp_path, monkeypatch, statement)
    assert "TOKEN" not in source
    assert ["an assignment goes along for its name alone" in str(each.message) for each in told] == [True] * is_told


def test_of_statements_in_one_line_only_that_one_goes(changed: Asked) -> None:
    changed("TOKEN = 'other'; LIST.append(own)")
    found = [Definition("", 5, column=17)]
    assert found == [each for name, each in gathered_effects() if name == "own_other"]
    assert "TOKEN" not in needed_source(sys.modules["own_other"], frozenset(found))


def gathered_effects() -> list[tuple[str, Definition]]:
    parts = {"own_found": "LIST = []\n", "own_other": "from own_found import *\n"}
    return list(Effects(frozenset()).on(parts))


def test_what_is_not_over_has_had_no_effect_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_running.py").write_text(
        "from pysandbox.pipeline.effects import *\nSEEN, FOUND = [], []\nFOUND.append(1)\n"
        "SEEN.append(\n    list(Effects(running_lines()).on({'own_running': 'FOUND = []'})))\nFOUND.append(2)\n"
    )
    importlib.invalidate_caches()
    module = importlib.import_module("own_running")
    sys.modules.pop("own_running")
    assert [[("own_running", Definition("", 3))]] == module.SEEN
    assert "own_running" not in {name for name, _ in running_lines()}


# ---- what is the program's own part ----------------------------------------------------------------------------------

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
def deeper(): return pysandbox.Policy()
def work(): return deeper()
class Runner:
    def go(self): return deeper()
"""


@pytest.mark.parametrize("statement, leads", [
    *((each, True) for each in (
        "main()", "run(main)", "RESULTS.append(main())", "RESULTS.append(own_deep.work())", "imports()",
        "RESULTS.append(Runner().go())", "for each in range(2): RESULTS.append(work())",
        "with pysandbox.Template() as template: RESULTS.append(template)",
    )),
    ("RESULTS.append(main)", False),
])  # fmt: skip
def test_what_leads_into_cages_by_whatever_it_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, leads: bool
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_deep.py").write_text(DEEP)
    (tmp_path / "own_cages.py").write_text(f"{CAGES}if RESULTS: {statement}\n" if ":" not in statement else
                                           f"{CAGES}if RESULTS:\n    {statement}\n")  # fmt: skip
    importlib.invalidate_caches()
    module = importlib.import_module("own_cages")
    try:
        acts = effect_of(module, statements_of(module)[-1], {}).acts
    finally:
        for name in ("own_cages", "own_deep"):
            sys.modules.pop(name)
    assert (INTO_CAGES in acts) is leads and (id(module.RESULTS) in acts)


@pytest.mark.parametrize("statement, line", [
    ("if RESULTS is not None:\n    RESULTS.append(1)\n    main()", 12),
    ("try: RESULTS.append(1); main()\nfinally: pass", 11),
    ("with open('/dev/null'):\n    main()\n    @RESULTS.append\n    def more(): pass", 14),
    ("for each in (): RESULTS.append(main())", 0),
    ("if RESULTS is None: main()", 0), ("if RESULTS is not None: RESULTS.append(1)", 0),
])  # fmt: skip
def test_what_stays_beside_a_call_into_a_cage_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, line: int
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_cages.py").write_text(f"{CAGES.replace('own_deep', 'own_beside')}{statement}\n")
    (tmp_path / "own_beside.py").write_text(
        "class Runner: pass\ndef work():\n    import pysandbox\n    return pysandbox\n"
    )
    importlib.invalidate_caches()
    try:
        importlib.import_module("own_cages")
        told = [*Effects(frozenset()).left_out({"own_cages": "RESULTS = []\n"})]
    finally:
        for name in ("own_cages", "own_beside"):
            sys.modules.pop(name)
    assert [each.partition(" of ")[0] for each in told] == ([f"line {line}"] if line else [])
    assert all("'own_cages.RESULTS', which a cage gets without that" in each and "line 11" in each for each in told)


# ---- other modules ---------------------------------------------------------------------------------------------------


def test_of_a_module_that_is_named_all_goes_along_and_else_it_is_told(changed: Asked) -> None:
    changed("FOUND['x'] = here")
    asks = {"own_found": {Definition("FOUND")}}
    with pytest.warns(UserWarning, match=r"line 5 of 'own_other' changes 'own_found.FOUND'.* modules=\['own_other'\]"):
        assert "own_other" not in gathered(asks)
    sources = gathered(asks, ["own_other"])
    assert "KEY" in sources["own_other"][0] and "FOUND['x'] = here" in sources["own_other"][0]
    assert sources["own_other"][3] and list(sources) == ["own_found", "own_other"]


@pytest.mark.parametrize("statement", [
    "@of_name('x')\ndef more(): pass", "class Below(Kept): pass", "if True:\n    fill()",
    "for e in range(2): LIST.append(e)",
    "taken = note('x', 1)", "taken: object = (\n    note('x', 1)\n)", "own_found.FOUND['x'] = 1", "FOUND |= {}",
    "del LIST[:]", "list(\n    map(fill, []))", "(note('x', 1))", "with open('/dev/null'): fill()",
    "def late(): fill()\nlate()", "OTHER['x'] = note('x', 1)", "while note('x', 1): pass", "assert not note('x', 1)",
    "own_found \\\n    .LIST.append(1)", "'text'; note('x', 1)", "TOKEN = KEY; note('x', 1)",
    "import json; note('x', 1)",
])  # fmt: skip
def test_whatever_another_module_changes_is_told(changed: Asked, statement: str) -> None:
    changed(statement)
    parts = {"own_found": "FOUND, LIST = {}, []\nclass Kept: pass\n"}
    told = [*Effects(frozenset()).left_out(parts)]
    assert len(told) == 1 and "of 'own_other' changes 'own_found." in told[0], told


@pytest.mark.parametrize(
    "statement", ["def late(): fill()", "import json", "OTHER['x'] = own", "class Below(Deaf): own = 1"]
)
def test_what_changes_none_of_it_is_not(changed: Asked, statement: str) -> None:
    changed(statement)
    assert not [*Effects(frozenset()).left_out({"own_found": "FOUND, LIST = {}, []\nclass Kept: pass\n"})]


@pytest.mark.parametrize("name, why", [("json", "is installed"), ("own_nowhere", "was not imported")])
def test_a_module_that_cannot_be_sent_is_refused(name: str, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        gathered({}, [name])
