"""BasePaths: one look at what every policy names, for as long as it holds."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from pysandbox.policy import base_grants
from pysandbox.policy.model import Policy
from pysandbox.policy.option import Grant
from pysandbox.policy.recipe import with_base
from pysandbox.probe import paths
from pysandbox.probe.facts import PathFact
from pysandbox.probe.paths import BasePaths, stat_all, stat_paths


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
    monkeypatch.setattr(paths, "from_root", lambda path: asked.append(path) or ())
    monkeypatch.setattr(paths, "covers", lambda tree, path: asked.append(path))
    base.known([f"/tree/{number}" for number in range(1000)])
    assert not asked
    paths.from_root("/control")
    assert asked
