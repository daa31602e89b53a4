"""Copy-on-write trees of which the cage has a copy: when that is, and what the plan has of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from golden.pretend import MODERN, PROJECT, grants, look, no_filter, plan_of
from pysandbox.compile.compiler import compile_plan
from pysandbox.compile.plan import LAYERS, MountKind, MountStep, Plan
from pysandbox.errors import UnsupportedError
from pysandbox.policy.model import Policy

PLACE = f"{LAYERS}/0/project"


def steps(plan: Plan) -> list[MountStep]:
    return [step for step in plan.mounts if step.source.startswith(LAYERS)]


def test_a_copy_is_bound_over_the_path_of_the_tree_that_was_looked_at() -> None:
    plan, fact = plan_of(Policy(workdir="cow", storage="copy", copy_mb=3)), look(Policy(workdir="cow"))[PROJECT]
    (step,) = steps(plan)
    assert (step.kind, step.source, step.target, step.ino) == (MountKind.BIND, PLACE, PROJECT, 0)
    assert plan.copies is not None and plan.copies.most == 3 << 20 and plan.cwd == PROJECT
    (tree,) = plan.copies.trees
    assert (tree.path, tree.place, tree.dev, tree.ino, tree.at_its_place) == (PROJECT, PLACE, fact.dev, fact.ino, True)
    assert not [each for each in plan.mounts if each.kind in (MountKind.OVERLAY, MountKind.UPPER)]
    assert plan.layers == 1024 << 20 and plan.watch is not None and plan.notify is None


def test_each_of_several_has_a_place_of_its_own() -> None:
    plan = plan_of(Policy(cow=grants("/data/set", PROJECT), storage="copy"))
    assert [(step.source, step.target) for step in steps(plan)] == [
        (f"{LAYERS}/0/set", "/data/set"), (f"{LAYERS}/1/project", PROJECT),
    ]  # fmt: skip


@pytest.mark.parametrize(("lacking", "said"), [
    ("overlayfs", "no overlay file system"), ("tmpfs_xattr", "no user attributes"),
    ("not_overlaid", "takes no overlay"),
])  # fmt: skip
def test_where_no_overlay_can_be_had_it_is_a_copy_and_that_is_told(lacking: str, said: str) -> None:
    policy = Policy(workdir="cow")
    host, paths = MODERN, look(policy)
    if lacking == "not_overlaid":
        paths = replace(paths, not_overlaid=((PROJECT, "FAT"),))
    else:
        host = replace(MODERN, overlay=lacking)
    plan = compile_plan(policy, host, paths, compile_filter=no_filter)
    assert plan.copies is not None and [step.source for step in steps(plan)] == [PLACE]
    assert [note.key for note in plan.notes if said in note.message] == ["filesystem.cow"]
    with pytest.raises(UnsupportedError):
        compile_plan(replace(policy, strict=True), host, paths, compile_filter=no_filter)


def test_without_mounts_the_rule_is_on_the_copy_and_none_on_the_tree() -> None:
    plan = plan_of(Policy(workdir="cow", isolation="landlock"))
    assert plan.landlock is not None and plan.mounts == ()
    paths = {rule.path: rule for rule in plan.landlock.rules}
    assert "WRITE_FILE" in paths[PLACE].access and PROJECT not in paths
    assert plan.copies is not None and not plan.copies.trees[0].at_its_place
    assert any("the directories themselves are not shown" in note.message for note in plan.notes)


@pytest.mark.parametrize("isolation", ["full", "landlock"])
def test_what_is_hidden_in_it_is_empty_in_the_copy(isolation: str) -> None:
    plan = plan_of(Policy(workdir="cow", storage="copy", isolation=isolation, deny=grants("src"), mask=grants("link")))
    assert plan.copies is not None
    hollow = dict(plan.copies.trees[0].hollow)
    assert hollow["src"] == 0o500
    assert any(step.target == f"{PROJECT}/src" for step in plan.mounts) == (isolation == "full")


def test_a_policy_without_it_has_none_of_it() -> None:
    assert plan_of(Policy(storage="copy", copy_mb=5)) == plan_of(Policy())
