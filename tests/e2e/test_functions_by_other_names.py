"""Functions that are more than their definition: decorated, cached, sandboxed themselves, methods, of a `python -m`."""

from __future__ import annotations

import functools
import importlib
import multiprocessing
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pysandbox import CageExecutor, Template, sandboxed


def doubled(function: Any) -> Any:
    @functools.wraps(function)
    def twice(*arguments: object) -> object:
        return function(*arguments) * 2

    return twice


@doubled
def decorated(number: int) -> int:
    return number + 1


@functools.cache
def cached(number: int) -> int:
    return number + 2


@functools.singledispatch
def dispatched(number: object) -> str:
    return "any"


@dispatched.register
def _(number: int) -> str:
    return "an int"


@sandboxed
def alone(number: int) -> int:
    return number + 3


def through(function: Any, number: int) -> object:
    return function(number)


@dataclass
class Made:
    number: int

    def more(self, by: int) -> Made:
        return Made(self.number + by)

    def __call__(self) -> Made:
        return self


def made(number: int) -> Made:
    return Made(number)


EXPECTED = [(decorated, 4), (cached, 3), (dispatched, "an int")]


@pytest.fixture(params=["cage", "worker"])
def executor(request: pytest.FixtureRequest) -> Any:
    with CageExecutor(isolate=request.param, max_workers=1) as executor:
        yield executor


def test_a_decorated_function_is_called_as_it_is_here(executor: CageExecutor) -> None:
    for function, expected in EXPECTED:
        assert executor.submit(function, 1).result() == function(1) == expected
        assert executor.submit(through, function, 1).result() == expected


def test_a_template_takes_it_too() -> None:
    with Template() as template:
        for function in (decorated, cached, dispatched):
            assert template.map(function, [1])[0].value == function(1)


def test_what_a_decorator_of_another_module_has_made_is_not_taken_for_the_plain_one() -> None:
    function = sandboxed(dispatched)
    assert function(1) == "an int"
    function.close()


def test_one_with_more_decorators_is_refused_while_nobody_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "import functools",
        "from pysandbox import sandboxed",
        "@sandboxed",
        "@functools.singledispatch",
        "def own(x): pass",
    )
    (tmp_path / "own_decorated.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(TypeError, match="'own' cannot be called in a cage: it has other decorators, too"):
        importlib.import_module("own_decorated")


def test_a_sandboxed_function_goes_by_its_name(executor: CageExecutor) -> None:
    assert pickle.loads(pickle.dumps(alone)) is alone
    assert executor.submit(alone, 1).result() == executor.submit(through, alone, 1).result() == 4
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map(alone, [1, 2]) == [4, 5]


def test_what_is_called_says_what_it_returns(executor: CageExecutor) -> None:
    for function, expected in [(Made, 1), (Made(1).more, 2), (functools.partial(made), 1)]:
        assert executor.submit(function, 1).result() == Made(expected)
    assert executor.submit(Made(7)).result() == Made(7)


def run(cwd: Path, *argv: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *argv], cwd=cwd, input=given, capture_output=True, text=True, timeout=60)


def test_a_package_that_is_run_finds_its_own(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "__init__.py").touch()
    (tmp_path / "own" / "more.py").write_text("def more(number): return number + 10\n")
    lines = "from .more import more", "from pysandbox import sandboxed", "@sandboxed", "def own(n): return more(n)"
    (tmp_path / "own" / "__main__.py").write_text("\n".join((*lines, "print(own(1))")))
    done = run(tmp_path, "-m", "own")
    assert done.stdout == "11\n", done.stderr


TYPED = """
import sys
if "without" in sys.argv: sys.modules["cloudpickle"] = None
from pysandbox import CageExecutor
MORE = 3
def typed(number): return number + MORE
with CageExecutor(max_workers=1) as executor:
    try: print(executor.submit(typed, 1).result())
    except TypeError as error: print(error)
"""


def test_what_was_typed_goes_by_its_value_or_is_refused_with_the_reason(tmp_path: Path) -> None:
    assert run(tmp_path, "-", given=TYPED).stdout == "4\n"
    assert "is in no file" in run(tmp_path, "-", "without", given=TYPED).stdout
