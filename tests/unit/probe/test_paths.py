"""The look at paths: real ends, links in order, and what counts as missing. The kernel's own walk is the oracle."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pysandbox.policy.model import Policy
from pysandbox.policy.user_home import home
from pysandbox.probe.facts import STAGING_CANDIDATES, PathFact, PathFacts
from pysandbox.probe.paths import LINK_LIMIT, stamp, stat_all, stat_paths, watch


def fact(path: str | Path) -> PathFact:
    return stat_all([str(path)], cwd="/", home="/")[str(path)]


def make_tree(top: Path) -> None:
    (top / "d/e").mkdir(parents=True)
    (top / "d/f").write_text("f")
    (top / "d/up").symlink_to("..")
    (top / "d/e/far").symlink_to(top / "d")
    (top / "near").symlink_to("d/e")
    (top / "twice").symlink_to("near/far/f")
    (top / "lost").symlink_to("nowhere/at/all")
    (top / "round").symlink_to("round")
    (top / "self").symlink_to(".")
    os.mkfifo(top / "pipe")


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("tree").resolve()
    make_tree(top)
    return top


NAMES = ("d", "e", "f", "up", "far", "near", "twice", "lost", "round", "self", "pipe", "..", ".", "", "absent")


@settings(database=None, deadline=None)
@given(names=st.lists(st.sampled_from(NAMES), max_size=7))
def test_the_walk_ends_where_the_kernel_ends(top: Path, names: list[str]) -> None:
    path = "/".join((str(top), *names))
    seen = fact(path)
    try:
        there = os.stat(path)
    except OSError:
        assert seen.kind == "missing"
        return
    assert (seen.dev, seen.ino) == (there.st_dev, there.st_ino)
    assert seen.real == os.path.realpath(path)
    assert (seen.kind == "dir") == stat.S_ISDIR(there.st_mode)
    assert (seen.kind == "file") == stat.S_ISREG(there.st_mode)


def test_links_are_recorded_in_the_order_they_are_met(top: Path) -> None:
    assert fact(top / "twice").links == (
        (f"{top}/twice", "near/far/f"),
        (f"{top}/near", "d/e"),
        (f"{top}/d/e/far", f"{top}/d"),
    )


def test_a_path_without_links_records_none(top: Path) -> None:
    assert fact(top / "d/f").links == ()


def test_a_missing_path_ends_at_its_first_missing_component(top: Path) -> None:
    assert fact(top / "d/absent/below") == PathFact(f"{top}/d/absent/below", f"{top}/d/absent", "missing")


def test_what_the_caller_may_not_look_for_is_unseen(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lstat = os.lstat

    def refusing(path: str) -> os.stat_result:
        if path.startswith(f"{top}/d/"):
            raise PermissionError
        return lstat(path)

    assert not fact(top / "d/absent").unseen
    monkeypatch.setattr(os, "lstat", refusing)
    found = fact(top / "d/absent/below")
    assert (found.kind, found.real, found.unseen) == ("missing", f"{top}/d/absent", True)


def test_a_dangling_link_is_missing_and_keeps_its_link(top: Path) -> None:
    lost = fact(top / "lost")
    assert (lost.real, lost.kind, lost.links) == (f"{top}/nowhere", "missing", ((f"{top}/lost", "nowhere/at/all"),))


def test_a_name_below_a_file_is_missing(top: Path) -> None:
    assert fact(top / "d/f/below").kind == "missing"
    assert fact(top / "d/f/..").kind == "missing"


def test_a_loop_of_links_ends_at_the_kernel_limit(top: Path) -> None:
    loop = fact(top / "round")
    assert (loop.kind, len(loop.links)) == ("missing", LINK_LIMIT)


def test_a_chain_as_long_as_the_limit_is_followed_and_one_longer_is_not(tmp_path: Path) -> None:
    (tmp_path / "0").write_text("end")
    for number in range(1, LINK_LIMIT + 2):
        (tmp_path / str(number)).symlink_to(str(number - 1))
    assert fact(tmp_path / str(LINK_LIMIT)).kind == "file"
    assert fact(tmp_path / str(LINK_LIMIT + 1)).kind == "missing"
    with pytest.raises(OSError, match="symbolic links"):  # so says the kernel, too
        os.stat(tmp_path / str(LINK_LIMIT + 1))


def test_what_is_neither_file_nor_directory_is_other(top: Path) -> None:
    assert fact(top / "pipe").kind == "other"


def test_the_root_is_a_directory() -> None:
    assert (fact("/").real, fact("/").kind, fact("/").ino) == ("/", "dir", os.stat("/").st_ino)
    assert fact("/../..").real == "/"


def test_a_path_of_a_thousand_components_is_walked(top: Path) -> None:
    assert fact(f"{top}/{'self/' * 20}{'d/../' * 500}d").real == f"{top}/d"


def test_a_look_holds_cwd_home_and_the_staging_candidates(top: Path) -> None:
    seen = stat_all([], cwd=str(top), home="/absent-home")
    assert (seen.cwd, seen.home) == (str(top), "/absent-home")
    assert {str(top), "/absent-home", *STAGING_CANDIDATES} == set(seen.facts)


def test_an_ancestor_is_examined_once_in_a_look(top: Path, looks: list[str]) -> None:
    stat_all([f"{top}/d/e", f"{top}/d/f", f"{top}/d"], cwd="/", home="/")
    assert len(looks) == len(set(looks))


@pytest.fixture
def wanted_module(monkeypatch: pytest.MonkeyPatch, top: Path) -> Iterator[ModuleType]:
    module = ModuleType("pysandbox.policy.paths_wanted")
    module.wanted_paths = lambda policy, cwd: [grant.path for grant in policy.allow] + [f"{cwd}/d"]  # type: ignore[attr-defined]
    module.granted_paths = module.hidden_patterns = lambda policy, cwd: ()  # type: ignore[attr-defined]
    module.guarded_trees = module.granted_paths  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    yield module


def test_a_look_takes_the_paths_that_the_policy_wants(wanted_module: ModuleType, top: Path) -> None:
    from pysandbox.policy.model import Grant

    seen = stat_paths(Policy(allow=(Grant("/absent"),)), cwd=str(top))
    assert (seen["/absent"].kind, seen[f"{top}/d"].kind) == ("missing", "dir")
    assert seen.home == home()


# ---- whether it still holds ----------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path) -> PathFacts:
    make_tree(tmp_path.resolve())
    wanted = [str(tmp_path / name) for name in ("d/e", "d/f", "near", "twice", "absent", "lost")]
    return stat_all(wanted, cwd=str(tmp_path), home="/")


def test_an_untouched_look_is_fresh(kept: PathFacts) -> None:
    assert watch(kept)()


def test_new_contents_leave_a_look_fresh(kept: PathFacts) -> None:
    Path(kept.cwd, "d/f").write_text("other contents")
    Path(kept.cwd, "d/new").write_text("a neighbour")
    assert watch(kept)()


def test_a_replaced_file_makes_a_look_stale(kept: PathFacts) -> None:
    Path(kept.cwd, "d/other").write_text("f")
    Path(kept.cwd, "d/other").replace(Path(kept.cwd, "d/f"))
    assert not watch(kept)()


def test_a_removed_path_makes_a_look_stale(kept: PathFacts) -> None:
    Path(kept.cwd, "d/f").unlink()
    assert not watch(kept)()


def test_a_link_that_leads_elsewhere_makes_a_look_stale(kept: PathFacts) -> None:
    Path(kept.cwd, "near").unlink()
    Path(kept.cwd, "near").symlink_to("d")
    assert not watch(kept)()


@pytest.mark.parametrize("name", ["absent", "nowhere/at/all"])
def test_a_missing_path_that_appears_makes_a_look_stale(kept: PathFacts, name: str) -> None:
    Path(kept.cwd, name).mkdir(parents=True)
    assert not watch(kept)()


def test_equal_looks_have_equal_stamps_whatever_the_order(kept: PathFacts) -> None:
    again = stat_all(reversed([*kept.facts]), cwd=kept.cwd, home=kept.home)
    assert hash(stamp(again)) == hash(stamp(kept))
    assert stamp(again) == stamp(kept)


def test_a_look_at_something_else_has_another_stamp(kept: PathFacts) -> None:
    before = stamp(kept)
    Path(kept.cwd, "near").unlink()
    Path(kept.cwd, "near").symlink_to(f"{kept.cwd}/d/e")  # the same end by another way
    assert stamp(stat_all(kept.facts, cwd=kept.cwd, home=kept.home)) != before


# ---- home ----------------------------------------------------------------------------------------------------
