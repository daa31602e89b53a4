"""What modules do, as they run, to what a function uses: the function finds it done in its cage, too."""

from __future__ import annotations

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


def test_what_fails_there_is_told_with_its_line(program: Path) -> None:
    (program / "plugins" / "by_item.py").write_text(
        "from registry import HANDLERS\nHANDLERS['x'] = open('own').read()\n"
    )
    (program / "own").write_text("")
    done = subprocess.run([sys.executable, "main.py"], cwd=program, capture_output=True, text=True, timeout=120)
    assert "FileNotFoundError" in done.stderr and "by_item" in done.stderr
