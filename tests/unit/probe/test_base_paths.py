"""BasePaths: one look at what every policy names, for as long as it holds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pysandbox.policy import base_grants
from pysandbox.policy.model import Policy
from pysandbox.policy.option import Grant
from pysandbox.policy.recipe import with_base
from pysandbox.probe import base_paths, paths
from pysandbox.probe.base_paths import BasePaths, OwnDirectories
from pysandbox.probe.facts import PathFact, ProtectedDirectory
from pysandbox.probe.paths import stat_all, stat_paths


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that stands for /etc: every policy names two files in it, of which one is there."""
    (tmp_path / "there").write_text("old")
    grants = tuple(Grant(f"{tmp_path}/{name}", optional=True) for name in ("there", "absent"))
    monkeypatch.setattr(base_grants, "ALLOW", grants)
    return tmp_path


def looked_at(known: Iterable[str]) -> dict[str, PathFact]:
    seen = stat_all(known, cwd="/", home="/")
    return {path: seen[path] for path in known}


def test_it_is_what_a_look_of_its_own_says(etc: Path) -> None:
    known = BasePaths().known()
    assert known.facts == looked_at(known.facts)
    assert {f"{etc}/there", f"{etc}/absent"} <= known.facts.keys()


def test_what_holds_is_not_looked_at_again(etc: Path, looks: list[str]) -> None:
    base = BasePaths()
    first = base.known()
    assert looks  # the control: there was a look
    looks.clear()
    assert base.known() is first
    assert not looks


def replaced(etc: Path) -> None:
    (etc / "new").write_text("new")
    os.rename(etc / "new", etc / "there")


def removed(etc: Path) -> None:
    (etc / "there").unlink()


def appeared(etc: Path) -> None:
    (etc / "absent").write_text("")


def linked(etc: Path) -> None:
    (etc / "other").write_text("other")
    (etc / "there").unlink()
    (etc / "there").symlink_to("other")


def linked_to_itself(etc: Path) -> None:
    """A link to the very inode that was there: a mount that follows no link would not find it."""
    (etc / "there").rename(etc / "moved")
    (etc / "there").symlink_to("moved")


@pytest.mark.parametrize("change", [replaced, removed, appeared, linked, linked_to_itself])
def test_what_does_not_hold_is_looked_at_again(etc: Path, change: object) -> None:
    base = BasePaths()
    before = base.known()
    change(etc)  # type: ignore[operator]
    after = base.known().facts
    assert after != before.facts
    assert not paths.still_there((), before.seen)()
    assert after == looked_at(after)


def test_another_user_gets_a_look_of_his_own(etc: Path, looks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    base = BasePaths()
    base.known()
    looks.clear()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    base.known()
    assert looks


def test_a_look_at_a_policy_uses_it_for_these_alone(etc: Path, looks: list[str], tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    rules, known = with_base(Policy(allow=(Grant(str(mine)),))), BasePaths().known()
    looks.clear()
    seen = stat_paths(rules, cwd="/", known=known)
    assert str(mine) in looks and f"{etc}/there" not in looks
    assert seen == stat_paths(rules, cwd="/")


@pytest.mark.parametrize("change", [replaced, appeared, linked])
def test_a_plan_from_it_is_stale_when_it_is(etc: Path, change: object) -> None:
    known = BasePaths().known()
    fresh = paths.watch(stat_paths(with_base(Policy()), cwd="/", known=known), known)
    assert fresh()  # the control
    change(etc)  # type: ignore[operator]
    assert not fresh()


def test_a_plan_of_an_earlier_look_is_watched_by_that_look(etc: Path) -> None:
    base = BasePaths()
    earlier = base.known()
    seen = stat_paths(with_base(Policy()), cwd="/", known=earlier)
    replaced(etc)
    assert paths.watch(seen, base.known())() is False, "of what another look has met it watches nothing"


@pytest.mark.parametrize("place", ["there", "moved", ""])
def test_what_lies_or_leads_where_cages_write_is_not_known(etc: Path, place: str) -> None:
    """The name itself, a link on the way, and where that ends: a cage may have made any of them."""
    (etc / "end").write_text("")
    (etc / "moved").symlink_to("end")
    (etc / "there").unlink()
    (etc / "there").symlink_to("moved")
    base, path = BasePaths(), f"{etc}/there"
    assert path in base.known().facts  # the control
    assert path in base.known([f"{etc}/ther", f"{etc}/none"]).facts
    assert path not in base.known([f"{etc}/{place}".rstrip("/")]).facts
    assert base.known(["/"]).facts == {}


def test_trees_that_cages_write_are_not_held_against_each_path(etc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, asked = BasePaths(), list[str]()
    base.known()
    monkeypatch.setattr(base_paths, "from_root", lambda path: asked.append(path) or ())
    monkeypatch.setattr(paths, "covers", lambda tree, path: asked.append(path))
    base.known([f"/tree/{number}" for number in range(1000)])
    assert not asked
    base_paths.from_root("/control")
    assert asked


# ---- the package's own directories -----------------------------------------------------------------------------------


class Own:
    """Finds one directory of the package by a name in `state`, and counts how often it was asked."""

    def __init__(self, state: Path) -> None:
        self.name, self.asked = state / "pysandbox", 0
        self.name.mkdir(parents=True)
        self.after: list[Callable[[], object]] = []

    def __call__(self) -> OwnDirectories:
        self.asked += 1
        real = os.path.realpath(self.name)
        for each in self.after:
            each()
        self.after.clear()
        return OwnDirectories((ProtectedDirectory(real, "what is kept", closed=True),), (str(self.name),))

    def move(self) -> None:
        """It lies elsewhere from now on, under the same name."""
        self.name.rename(self.name.with_name("moved"))
        self.name.symlink_to("moved")


@pytest.fixture
def own(etc: Path) -> Own:
    return Own(etc / "state")


def test_the_package_s_own_directories_are_found_once(own: Own, looks: list[str]) -> None:
    base = BasePaths(own)
    (kept,) = base.known().kept or ()
    assert kept.path == str(own.name)
    own.asked = 0
    looks.clear()
    assert base.known().kept == (kept,)
    seen = stat_paths(with_base(Policy()), cwd="/", kept=(kept,), known=base.known())
    assert seen[kept.path].kind == "dir"
    assert (own.asked, kept.path in looks) == (0, False)


def test_they_are_found_anew_when_their_name_leads_elsewhere(own: Own) -> None:
    base = BasePaths(own)
    base.known()
    own.move()
    assert [each.path for each in base.known().kept or ()] == [f"{own.name.parent}/moved"]


@pytest.mark.parametrize("change", ["mode", "kind"])
def test_they_are_found_anew_when_what_has_their_name_is_another_s_or_another_kind(own: Own, change: str) -> None:
    """A directory counts by its mode; and a file system gives the number of a file that is gone to the next."""
    if change == "kind":
        own.name.rmdir()
        own.name.touch()
    base = BasePaths(own)
    base.known()
    own.asked = 0
    assert base.known() and not own.asked  # the control
    if change == "mode":
        own.name.chmod(0o700 if own.name.stat().st_mode & 0o077 else 0o755)
    else:
        own.name.unlink()
        own.name.mkdir()
    base.known()
    assert own.asked


@pytest.mark.parametrize("name", base_paths.VARIABLES)
def test_they_are_found_anew_in_another_environment(own: Own, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    base = BasePaths(own)
    base.known()
    own.asked = 0
    monkeypatch.setenv(name, "/elsewhere")
    base.known()
    assert own.asked


def test_they_are_asked_for_where_cages_write_on_the_way_to_them(own: Own) -> None:
    base = BasePaths(own)
    assert base.known(["/none"]).kept is not None  # the control
    assert base.known([str(own.name.parent)]).kept is None


def test_what_changes_while_it_is_found_is_not_kept(own: Own) -> None:
    own.after.append(own.move)
    base = BasePaths(own)
    assert base.known().kept is None
