"""What modules do, as they run, to what a function uses: the function finds it done in its cage, too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pysandbox import CageExecutor, sandboxed

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
    "tables.py": """
TABLE = []
for number in range(256):
    TABLE.append(number * 2)
""",
    "main.py": """
import json, sys
import plugins, tables
from registry import HANDLERS, SEEN, TAKEN, Named
from pysandbox import CageExecutor, Template, sandboxed
SOUGHT = {}
if sys.platform == 'linux':
    SOUGHT['here'] = True
@sandboxed(modules=['plugins'])
def called() -> list: return sorted(each() for each in HANDLERS.values())
def filled(number): return [tables.TABLE[number], SOUGHT, Named.names, TAKEN.found, SEEN]
print(json.dumps(called()))
with CageExecutor(max_workers=1, modules=[plugins]) as executor:
    SEEN.append(executor.submit(filled, 200).result())
print(json.dumps(SEEN[0]))
with Template(modules=['plugins.by_class', 'plugins.by_method']) as template:
    print(json.dumps(template.map(filled, [1])[0].value))
HANDLERS.clear()
print(json.dumps(called()))
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


@pytest.mark.landlock(6)
def test_what_the_program_s_modules_have_done_is_done_in_the_cage(program: Path) -> None:
    called, *filled, cleared = lines_of(program)
    assert called == '["by decorator", "by item", "by module"]'
    assert filled == [f'[{number}, {{"here": true}}, ["Below"], [5], []]' for number in (400, 2)]
    assert cleared == "[]", "also what takes it away again, once it has"


def test_what_a_module_has_done_that_is_not_sent_is_told(program: Path) -> None:
    (program / "main.py").write_text(FILES["main.py"].replace("modules=['plugins']", ""))
    done = subprocess.run([sys.executable, "main.py"], cwd=program, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("[]\n"), done.stderr
    assert "main.py:12: UserWarning: line 4 of 'plugins.by_item' changes 'registry.HANDLERS'" in done.stderr


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
    "one that maps": "def main():\n    RESULTS.append(0)\n    with Template() as template:\n"
                     "        found = template.map(g, [1, 2])\n        assert all(each.ok for each in found), found\n"
                     "main()\n",
    "one that hides it": "def main(): RESULTS.append(1); CALLED[0]()\nCALLED = [lambda: f(1)]\nmain()\n",
    "a module's": "import app\napp.main(RESULTS)\n",
}  # fmt: skip


@pytest.mark.parametrize("what", OWN_PARTS)
def test_no_part_of_the_program_is_made_again_in_a_cage(tmp_path: Path, what: str) -> None:
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


def test_what_reads_the_host_and_changes_what_is_sent_fails_with_its_statement(tmp_path: Path) -> None:
    """Not silently: who wants it says it below `if __name__ == "__main__"`, or in what calls the function."""
    (tmp_path / "data").write_text("")
    (tmp_path / "main.py").write_text(
        "from pysandbox import sandboxed\nRESULTS = []\ndef main(): RESULTS.append(open('data').read())\nmain()\n"
        "@sandboxed\ndef f() -> int: return len(RESULTS)\nf()\n"
    )
    done = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert "FileNotFoundError" in done.stderr
    assert "in a statement of '__main__' that goes along with the function: main()" in done.stderr


def test_what_other_modules_set_is_not_sent_and_told(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text("SETTINGS, CONFIG, OWN = {}, {}, {}\nOWN['x'] = 1\nSECRET = 'ghp_secret'\n")
    (tmp_path / "local.py").write_text(
        "import os, settings\nTOKEN = 'ghp_secret'\nsettings.SETTINGS['token'] = TOKEN\n"
        "settings.CONFIG['token'] = os.environ['API_TOKEN']\n"
    )
    (tmp_path / "main.py").write_text(
        "import local, json\nfrom settings import SETTINGS, CONFIG, OWN\nfrom pysandbox import sandboxed\n"
        "@sandboxed\ndef whole() -> list:\n    import gc\n"
        "    return [SETTINGS, CONFIG, OWN, '_'.join(('ghp', 'secret')) in str(gc.get_objects())]\n"
        "@sandboxed(modules=['local'])\ndef fails() -> str: return CONFIG['token']\n"
        "print(json.dumps(whole()))\nfails()\n"
    )
    env = {**os.environ, "API_TOKEN": "secret"}
    done = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=env
    )
    assert done.stdout == '[{}, {}, {"x": 1}, false]\n', done.stderr
    assert "UserWarning: line 3 of 'local' changes 'settings.SETTINGS'" in done.stderr
    assert "settings.CONFIG['token'] = os.environ['API_TOKEN']" in done.stderr and "KeyError" in done.stderr


# ---- what modules= takes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("modules, why", [
    (["own_nowhere"], "there is no such module"), ("plugins", r"a list, as \['plugins'\]"), ([3], "and not 3"),
])  # fmt: skip
def test_what_is_no_module_is_refused_at_once(modules: Any, why: str) -> None:
    for made in (lambda: sandboxed(modules=modules), lambda: CageExecutor(modules=modules)):
        with pytest.raises(TypeError, match=why):
            made()


# ---- functions below a condition -------------------------------------------------------------------------------------


def test_a_function_below_a_condition_or_a_try_is_called_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        "import sys, contextlib\nfrom pysandbox import sandboxed\n"
        "try:\n    import nowhere_at_all\n    def helper(): return 'never'\n"
        "except ImportError:\n    def helper(): return 'without'\n"
        "if sys.platform == 'linux':\n    LINUX = 'linux'\n"
        "    @sandboxed\n    def first() -> str: return helper() + LINUX\n"
        "else:\n    @sandboxed\n    def first() -> str: return 'never'\n"
        "with contextlib.suppress(ZeroDivisionError):\n"
        "    class Kept:\n        name = 'kept'\n"
        "    @sandboxed\n    def second() -> str: return Kept.name + first()\n"
        "print(first(), second())\n"
        "if __name__ == '__main__':\n    try:\n        @sandboxed\n        def third(): pass\n"
        "    except TypeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    called, refused = done.stdout.splitlines() or [done.stderr, ""]
    assert called == "withoutlinux keptwithoutlinux" and "'third' cannot be called" in refused and "below" in refused
