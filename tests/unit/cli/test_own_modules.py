"""Our own modules are found at once, and are those that Python would have found: none that is stale."""

from __future__ import annotations

import importlib.util
import os
import py_compile
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

from pysandbox.cli import own_modules
from pysandbox.cli.own_modules import OwnModules, find_own_modules

NAMES = ["pysandbox.cli", "pysandbox.cli.main", "pysandbox.policy.model", "pysandbox.gate.tcp"]


@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_what_python_would_have_found(name: str) -> None:
    ours = OwnModules.find_spec(name)
    package = importlib.import_module(name.rpartition(".")[0])
    theirs = PathFinder.find_spec(name, package.__path__)
    assert ours is not None and theirs is not None
    for part in ("name", "origin", "cached", "has_location", "submodule_search_locations", "parent"):
        assert getattr(ours, part) == getattr(theirs, part), part


@pytest.mark.parametrize("name", ["os", "pysandbox", "pysandboxes.cli", "pysandbox.cli.none", "pysandbox._native"])
def test_what_is_no_file_of_ours_is_left_to_others(name: str) -> None:
    assert OwnModules.find_spec(name) is None


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of a package that lies elsewhere, compiled, with another text of the same length beside it."""
    monkeypatch.setattr(own_modules, "DIRECTORY", str(tmp_path))
    source = tmp_path / "said.py"
    source.write_text("said = 'first'\n")
    os.utime(source, (1_000_000_000, 1_000_000_000))
    assert said() == "first"
    py_compile.compile(str(source), doraise=True)
    return source


def said() -> str:
    spec = OwnModules.find_spec("pysandbox.said")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.said)


def test_what_was_compiled_is_run_while_the_source_is_the_same(module: Path) -> None:
    was = module.stat()
    module.write_text("said = 'other'\n")
    os.utime(module, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert said() == "first"  # as Python has it: time and size are the same
    os.utime(module)
    assert said() == "other"


def test_a_source_of_another_size_is_read(module: Path) -> None:
    was = module.stat()
    module.write_text("said = 'longer'\n")
    os.utime(module, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert said() == "longer"


@pytest.mark.parametrize("at", [0, 4])
def test_what_another_python_compiled_or_by_another_rule_is_not_run_unread(module: Path, at: int) -> None:
    spec = OwnModules.find_spec("pysandbox.said")
    assert spec is not None and spec.cached is not None
    content = bytearray(Path(spec.cached).read_bytes())
    content[at] ^= 2  # the magic number, or the flags
    Path(spec.cached).write_bytes(content)
    assert said() == "first"


def test_compiled_code_that_was_cut_off_is_not_run(module: Path) -> None:
    spec = OwnModules.find_spec("pysandbox.said")
    assert spec is not None and spec.cached is not None
    content = Path(spec.cached).read_bytes()
    for length in (0, 10, 16, len(content) - 3):
        Path(spec.cached).write_bytes(content[:length])
        assert spec.loader is not None
        assert spec.loader._compiled() is None  # type: ignore[attr-defined]


def test_where_code_is_compiled_otherwise_python_finds_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "pycache_prefix", "/elsewhere")
    find_own_modules()
    assert OwnModules not in sys.meta_path
