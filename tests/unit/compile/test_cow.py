"""Copy-on-write trees: an overlay where a bind would be, its layers on one memory file system, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from golden.pretend import HOSTS, MODERN, PROJECT, grants, look, no_filter, paths_of, plan_of
from pysandbox.compile.compiler import compile_plan
from pysandbox.compile.cow import cow_steps
from pysandbox.compile.plan import LAYERS, MountKind, Plan
from pysandbox.errors import PolicyError, SandboxCompileError, UnsupportedError
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import PathFact, ProtectedDirectory

LATE = {"MASK_FILE", "MASK_DIR", "DENY_FILE", "DENY_DIR"}


def kinds(plan: Plan) -> list[str]:
    return [step.kind.value for step in plan.mounts]


def test_the_working_directory_is_an_overlay_of_what_was_looked_at() -> None:
    plan = plan_of(Policy(workdir="cow"))
    (step,) = cow_steps(plan)
    fact = look(Policy(workdir="cow"))[PROJECT]
    assert (step.target, step.source, step.dev, step.ino, step.data) == (PROJECT, PROJECT, fact.dev, fact.ino, "0")
    assert PROJECT not in paths_of(plan, "BIND")


def test_the_layers_are_there_before_the_first_overlay_and_gone_before_anything_is_covered() -> None:
    order = kinds(plan_of(Policy(workdir="cow", cow=grants("/data/set"), deny=grants("secret"))))
    assert order.count("UPPER") == order.count("UPPER_GIVEN") == 1
    first, last = order.index("OVERLAY"), max(at for at, kind in enumerate(order) if kind == "OVERLAY")
    assert order.index("UPPER") < first <= last < order.index("UPPER_GIVEN") < order.index("PROC")


def test_every_overlay_has_layers_of_its_own_and_all_have_one_quota() -> None:
    plan = plan_of(Policy(cow=grants("/data/set", PROJECT), cow_mb=3))
    assert [step.data for step in cow_steps(plan)] == ["0", "1"]
    (upper,) = (step for step in plan.mounts if step.kind is MountKind.UPPER)
    assert upper.data == "size=3m,nr_inodes=4096,mode=700"


def test_on_disk_the_layers_are_a_directory_that_the_launcher_names_and_the_watchdog_looks_at() -> None:
    plan = plan_of(Policy(workdir="cow", storage="disk", cow_mb=3))
    (upper,) = (step for step in plan.mounts if step.kind is MountKind.UPPER)
    assert (upper.source, upper.data) == (LAYERS, "")
    assert plan.layers == 3 << 20 and plan.watch is not None and not plan.watch.tmpfs
    assert "resources.cow_mb" in {note.key for note in plan.notes}
    with pytest.raises(UnsupportedError, match="more is written before"):
        plan_of(Policy(workdir="cow", storage="disk", strict=True))


def test_on_disk_nothing_of_it_is_memory_of_the_cage() -> None:
    plan = plan_of(Policy(workdir="cow", storage="disk", memory_mb=64))
    assert plan.watch is not None and PROJECT not in plan.watch.tmpfs


def test_a_storage_of_nothing_changes_no_plan() -> None:
    assert plan_of(Policy(storage="disk")) == plan_of(Policy())


def test_the_root_of_the_cage_is_not_assembled_where_the_layers_lie() -> None:
    policy = Policy(workdir="cow", storage="disk")
    paths = look(policy)
    kept = (ProtectedDirectory("/mnt/state/pysandbox", "what you trust, and your recipes", closed=False),)
    fact = PathFact("/mnt/state/pysandbox", "/mnt/state/pysandbox", "dir", dev=1, ino=4711)
    paths = replace(paths, kept=kept, facts={**paths.facts, fact.path: fact})
    assert compile_plan(policy, MODERN, paths, compile_filter=no_filter).staging == "/media"


def test_a_policy_without_it_has_none_of_it() -> None:
    plan = plan_of(Policy(workdir="write", allow_write=grants("/data/set")))
    assert not {"UPPER", "OVERLAY", "UPPER_GIVEN"} & set(kinds(plan)) and plan.notify is None


@pytest.mark.parametrize(("beside", "access"), [
    ({"workdir": "read"}, "OVERLAY"), ({"workdir": "cow"}, "OVERLAY"), ({"allow": (PROJECT,)}, "OVERLAY"),
])  # fmt: skip
def test_granted_twice_the_wider_access_holds(beside: dict[str, object], access: str) -> None:
    plan = plan_of(Policy(cow=grants(PROJECT), **beside))  # type: ignore[arg-type]
    assert [step.kind.value for step in plan.mounts if step.target == PROJECT and step.source] == [access]


@pytest.mark.parametrize("given", [
    {"workdir": "write", "cow": grants(PROJECT)}, {"allow_write": grants(PROJECT), "cow": grants(PROJECT)},
    {"workdir": "cow", "allow_write": grants(PROJECT)},
])  # fmt: skip
def test_what_is_to_be_kept_apart_is_not_written_by_another_grant(given: dict[str, object]) -> None:
    with pytest.raises(SandboxCompileError, match="would not be kept apart"):
        plan_of(Policy(**given))  # type: ignore[arg-type]


def test_a_tree_that_is_written_inside_stays_the_host_s() -> None:
    plan = plan_of(Policy(workdir="cow", allow_write=grants(f"{PROJECT}/src")))
    placed = [(step.kind.value, step.target) for step in plan.mounts if step.source and step.target.startswith(PROJECT)]
    assert ("OVERLAY", PROJECT) in placed and ("BIND", f"{PROJECT}/src") in placed
    assert placed.index(("OVERLAY", PROJECT)) < placed.index(("BIND", f"{PROJECT}/src"))


def test_what_is_denied_in_it_is_covered_as_anywhere() -> None:
    plan = plan_of(Policy(workdir="cow", deny=grants("src")))
    order = [(step.kind.value, step.target) for step in plan.mounts]
    assert order.index(("OVERLAY", PROJECT)) < order.index(("DENY_DIR", f"{PROJECT}/src"))


def test_a_denied_name_that_is_absent_needs_no_file_of_ours_on_the_host() -> None:
    plan = plan_of(Policy(workdir="cow", strict=True, deny=grants("absent")))
    assert not [step for step in plan.mounts if step.target.endswith("/absent")]


def test_landlock_rules_are_of_the_overlay_and_not_of_what_lies_below() -> None:
    plan = plan_of(Policy(workdir="cow"))
    assert plan.landlock is not None
    (rule,) = (each for each in plan.landlock.rules if each.path == PROJECT)
    assert (rule.dev, rule.ino) == (0, 0) and "WRITE_FILE" in rule.access


def test_what_is_written_counts_as_memory_where_that_is_watched() -> None:
    plan = plan_of(Policy(workdir="cow", memory_mb=2048))
    assert plan.watch is not None and plan.watch.tmpfs[-1] == PROJECT
    other = plan_of(Policy(workdir="write", memory_mb=2048))
    assert other.watch is not None and PROJECT not in other.watch.tmpfs


@pytest.mark.parametrize(("options", "key", "words"), [
    ({"cow": ("/data/set",), "storage": "disk", "isolation": "landlock"}, "workspace.storage", "nothing is laid over"),
    ({"cow": ("/usr/bin/env",)}, "filesystem.cow", "not a directory"),
])  # fmt: skip
def test_what_it_cannot_be_is_refused_by_name(options: dict[str, object], key: str, words: str) -> None:
    with pytest.raises(SandboxCompileError, match=words) as refused:
        plan_of(Policy(**options))  # type: ignore[arg-type]
    assert refused.value.key == key


@pytest.mark.parametrize(("options", "key"), [
    ({"workdir": "cow"}, "filesystem.workdir"), ({"cow": grants("/home/ann")}, "filesystem.cow"),
])  # fmt: skip
def test_a_directory_with_a_mount_below_it_is_refused_by_name(options: dict[str, object], key: str) -> None:
    policy = Policy(**options)  # type: ignore[arg-type]
    mounted = replace(look(policy), mounted=(f"{PROJECT}/data",))
    with pytest.raises(SandboxCompileError, match=f"mounted on '{PROJECT}/data'") as refused:
        compile_plan(policy, MODERN, mounted, compile_filter=no_filter)
    assert refused.value.key == key
    for place in (PROJECT, "/home/ann/projects"):  # the tree itself, or beside it
        compile_plan(Policy(cow=grants(PROJECT)), MODERN, replace(mounted, mounted=(place,)), compile_filter=no_filter)


@pytest.mark.parametrize(("options", "key"), [
    ({"memory_mb": 512}, "resources.cow_mb"), ({"memory_mb": 64, "cow_mb": 64}, "resources.cow_mb"),
    ({"caged": False}, "caged"),
])  # fmt: skip
def test_a_contradiction_is_refused_when_the_policy_is_made(options: dict[str, object], key: str) -> None:
    for apart in ({"workdir": "cow"}, {"cow": ("/data/set",)}):
        with pytest.raises(PolicyError) as refused:
            Policy(**apart, **options)  # type: ignore[arg-type]
        assert refused.value.key == key
    Policy(workdir="write", **options)  # type: ignore[arg-type]


def test_a_host_that_cannot_is_named_where_layers_on_disk_were_asked_for() -> None:
    """Where none were, the directory is copied (test_copies)."""
    on_disk = Policy(workdir="cow", storage="disk")
    with pytest.raises(UnsupportedError) as refused:
        compile_plan(on_disk, replace(MODERN, overlay="overlayfs"), look(on_disk), compile_filter=no_filter)
    assert refused.value.feature == "overlayfs"
    compile_plan(on_disk, replace(MODERN, overlay="tmpfs_xattr"), look(on_disk), compile_filter=no_filter)


def test_renames_are_handed_over_and_nothing_else() -> None:
    plan = plan_of(Policy(workdir="cow"))
    assert plan.notify is not None
    assert plan.notify.calls == ("rename", "renameat", "renameat2")
    assert plan.notify.actions == (("RENAME", "TELL"),)


def test_a_kernel_without_a_supervisor_does_without_renames_of_directories() -> None:
    host = replace(HOSTS["6.1"], user_notif=False)
    policy = Policy(workdir="cow")
    assert compile_plan(policy, host, look(policy), compile_filter=no_filter).notify is None
