"""What modules do, as they run, to what a function uses: the function finds it done in its cage, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FILES = {
    "registry.py": """
SECRET = 'secret'
HANDLERS, SEEN = {}, []
def register(name):
    def decorate(function):
        HANDLERS[name] = function
        return function
    return decorate
class Named:
    names = []
    def __init_subclass__(cls): Named.names.append(cls.__name__)
class Registry:
    def __init__(self): self.found = []
    def take(self, function):
        self.found.append(function())
        return function
TAKEN = Registry()
""",
    "plugins/__init__.py": "from . import by_item, by_decorator, by_class, by_module, by_method\n",
    "plugins/by_item.py": """
from registry import HANDLERS
KEY = 'hidden'
HANDLERS['item'] = lambda: 'by item'
""",
    "plugins/by_decorator.py": """
from registry import register
@register('decorator')
def decorated(): return 'by decorator'
""",
    "plugins/by_class.py": "from registry import Named\nclass Below(Named): pass\n",
    "plugins/by_module.py": "import registry\nregistry.HANDLERS.update(module=lambda: 'by module')\n",
    "plugins/by_method.py": "import registry\n@registry.TAKEN.take\ndef five(): return 5\n",
    "main.py": """
import json, sys
import plugins
from registry import HANDLERS, SEEN, TAKEN, Named
from pysandbox import CageExecutor, Template, sandboxed
TABLE, SOUGHT = [], {}
for number in range(256):
    TABLE.append(number * 2)
if sys.platform == 'linux':
    SOUGHT['here'] = True
@sandboxed
def called() -> list: return sorted(each() for each in HANDLERS.values())
def filled(number): return [TABLE[number], SOUGHT, Named.names, TAKEN.found, SEEN]
print(json.dumps(called()))
with CageExecutor(max_workers=1) as executor:
    SEEN.append(executor.submit(filled, 200).result())
print(json.dumps(SEEN[0]))
with Template() as template:
    print(json.dumps(template.map(filled, [1])[0].value))
HANDLERS.clear()
""",
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def lines_of(program: Path) -> list[str]:
    done = subprocess.run([sys.executable, "main.py"], cwd=program, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_what_the_program_s_modules_have_done_is_done_in_the_cage(program: Path) -> None:
    (program / "main.py").write_text(FILES["main.py"].replace("HANDLERS.clear()\n", ""))
    called, *filled = lines_of(program)
    assert called == '["by decorator", "by item", "by module"]'
    assert filled == [f'[{number}, {{"here": true}}, ["Below"], [5], []]' for number in (400, 2)]


def test_also_what_takes_it_away_again(program: Path) -> None:
    assert lines_of(program)[0] == "[]"


def test_what_fails_there_is_told_with_its_statement(program: Path) -> None:
    (program / "registry.py").write_text(FILES["registry.py"] + "HANDLERS['x'] = open('own').read()\n")
    (program / "own").write_text("")
    done = subprocess.run([sys.executable, "main.py"], cwd=program, capture_output=True, text=True, timeout=120)
    assert "FileNotFoundError" in done.stderr
    assert (
        "in a statement of 'registry' that goes along with the function: HANDLERS['x'] = open('own').read()"
        in done.stderr
    )


# ---- what is the program's own ---------------------------------------------------------------------------------------

OWN_PARTS = {
    "a loop that calls": "def main():\n    for each in range(2): RESULTS.append(f(each))\nmain()\n",
    "one that ends the program": "def main():\n    RESULTS.append(f(0)); print(f(1)); sys.exit(0)\nmain()\n",
    "one that is deeper": "def one(): RESULTS.append(f(0))\ndef two(): one()\ndef main(): two(); f(1)\nmain()\n",
    "a method": "class App:\n    def run(self):\n        for each in range(2): RESULTS.append(f(each))\nApp().run()\n",
    "one that is given": "def run(function): RESULTS.append(function(0))\nrun(f)\n",
    "one that reads what the host has": "def main(): RESULTS.append(open('data').read())\nmain()\nf(1)\n",
    "one that maps": "def main():\n    RESULTS.append(0)\n    with Template() as template:\n"
                     "        found = template.map(g, [1, 2])\n        assert all(each.ok for each in found), found\n"
                     "main()\n",
    "one that hides it": "def main(): RESULTS.append(1); CALLED[0]()\nCALLED = [lambda: f(1)]\nmain()\n",
    "a module's": "import app\napp.main(RESULTS)\n",
}  # fmt: skip


@pytest.mark.parametrize("what", OWN_PARTS)
def test_no_part_of_the_program_is_made_again_in_a_cage(tmp_path: Path, what: str) -> None:
    (tmp_path / "data").write_text("")
    (tmp_path / "app.py").write_text("def main(results):\n    import __main__\n    results.append(__main__.f(1))\n")
    (tmp_path / "main.py").write_text(
        "import sys\nfrom pysandbox import Template, sandboxed\nRESULTS = []\n"
        "def g(number): return [number, len(RESULTS)]\n"
        "@sandboxed\ndef f(number: int) -> int:\n    assert not RESULTS, RESULTS\n    return number\n"
        f"{OWN_PARTS[what]}print('over')\n"
    )
    done = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("1\n" if "sys.exit" in OWN_PARTS[what] else "over\n")


def test_what_other_modules_set_that_nobody_names_is_not_sent_and_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text("SETTINGS, CONFIG = {}, {}\n")
    (tmp_path / "local.py").write_text(
        "import os, settings\nTOKEN = 'ghp_secret'\nsettings.SETTINGS['token'] = TOKEN\n"
        "settings.SETTINGS['debug'] = 1\n"
        "settings.CONFIG['token'] = os.environ['API_TOKEN']\nsettings.CONFIG.update(other=TOKEN)\n"
    )
    (tmp_path / "main.py").write_text(
        "import local, json\nfrom settings import SETTINGS, CONFIG\nfrom pysandbox import sandboxed\n"
        "@sandboxed\ndef named() -> list: return [SETTINGS.get('debug'), 'local' in __import__('sys').modules]\n"
        "@sandboxed\ndef whole() -> list: return [SETTINGS, CONFIG]\n"
        "@sandboxed\ndef asked() -> str: return SETTINGS['token']\n"
        "@sandboxed\ndef fails() -> str: return CONFIG['token']\n"
        "print(json.dumps([named(), whole(), asked()]))\nfails()\n"
    )
    env = {**os.environ, "API_TOKEN": "secret"}
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=env
    )
    assert done.stdout == '[[1, true], [{}, {}], "ghp_secret"]\n', done.stderr
    assert "settings.CONFIG['token'] = os.environ['API_TOKEN']" in done.stderr and "KeyError" in done.stderr
