"""Where a cage may write what the next start of Python runs, no such start follows its command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pysandbox.cli.kept_imports import LOADED, SEARCHED, path_files, starts_what_it_writes
from pysandbox.policy.model import Grant, Policy
from pysandbox.policy.paths_wanted import writable_trees
from pysandbox.probe.guards import our_files
from pysandbox.probe.paths import stat_all


def writes(tree: Path, **options: object) -> bool:
    policy = Policy(workdir="none", allow_write=(Grant(str(tree)),), **options)  # type: ignore[arg-type]
    facts = stat_all((*writable_trees(policy, "/"), "/"), cwd="/", home="/")
    return starts_what_it_writes(policy, facts)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "tree" / "lib").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "tree" / "lib")
    return tmp_path / "tree"


def test_what_nothing_is_run_from_may_be_written(tree: Path) -> None:
    assert not writes(tree)


@pytest.mark.parametrize("place", ["tree", "tree/lib", "link", "."])
@pytest.mark.parametrize("at", [0, len(sys.path)])
def test_modules_that_it_writes_count_wherever_they_are_in_the_order(
    tree: Path, monkeypatch: pytest.MonkeyPatch, place: str, at: int
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path[:at], str(tree.parent / place), *sys.path[at:]])
    assert writes(tree)


def test_an_empty_name_is_the_working_directory(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree)
    monkeypatch.setattr(sys, "path", [*sys.path, ""])
    assert writes(tree)


def test_bytecode_counts(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tree / "bytecode"))
    assert writes(tree)


@pytest.mark.parametrize("name", [*SEARCHED, *LOADED])
def test_what_the_loader_and_openssl_are_led_to_counts(tree: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, f"/usr/nowhere:{tree}/lib/x.so")
    assert writes(tree)


@pytest.mark.parametrize(("name", "value"), [("LD_LIBRARY_PATH", ""), ("LD_PRELOAD", "x.so"), ("LD_BIND_NOW", "1")])
def test_what_is_looked_for_elsewhere_does_not_count(
    tree: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.chdir(tree)
    monkeypatch.setenv(name, value)
    assert not writes(tree)


def test_our_own_files_count_only_where_no_guard_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(our_files()))
    above = Path(our_files()[0]).parent
    assert not writes(above)
    assert writes(above, unguarded=("pysandbox",))


def test_what_adds_a_place_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site-packages"
    site.mkdir()
    for name in ("installed.pth", "module.py"):
        (site / name).touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(site), str(tmp_path / "none" / "dist-packages")])
    expected = [str(site), str(site / "installed.pth"), str(tmp_path / "none" / "dist-packages")]
    assert list(path_files()) == expected
