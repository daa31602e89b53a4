"""Copy-on-write trees: overlays whose upper layers lie on one memory file system, or in one directory on disk, which
the host reads (csrc/setup/overlay.c).

What a cage may write there, `resources.cow_mb` and as many files as it has pages, is held by the memory file system:
the cage finds a full disk. On disk the watchdog looks at it (`live.disk_use`). The guards, denials and masks of a tree
are laid over it as over any tree that a cage writes. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pysandbox.compile.limits import FEWEST_INODES, MIB, PAGE
from pysandbox.compile.plan import LAYERS, MountKind, MountStep, Plan, WatchPlan
from pysandbox.compile.shown import View
from pysandbox.errors import SandboxCompileError
from pysandbox.policy.match import covers
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import PathFacts
from pysandbox.shapes import replace

COW = "filesystem.cow"
UPPER = "/.upper"  # for as long as the mounts are made


def is_cow(policy: Policy) -> bool:
    return policy.workdir == "cow" or bool(policy.cow)


def is_on_disk(policy: Policy) -> bool:
    return policy.storage != "memory" and is_cow(policy)


def is_copied(policy: Policy) -> bool:
    """The policy is one that `degrade.settled` has seen."""
    return policy.storage == "copy" and is_cow(policy)


def is_overlaid(policy: Policy) -> bool:
    return is_cow(policy) and not is_copied(policy)


def most_on_disk(policy: Policy) -> int | None:
    """Bytes; None where the layers are memory."""
    return policy.cow_mb * MIB if is_on_disk(policy) else None


def endings(policy: Policy) -> tuple[str, str]:
    """What becomes of what was written apart when the cage has ended well, and when it has not."""
    return policy.on_exit, policy.on_error


def not_a_directory(path: str, key: str) -> SandboxCompileError:
    return SandboxCompileError(f"{path!r} is not a directory", key=key,
                               suggestion="copy-on-write is for directories: name the one it lies in")  # fmt: skip


def apart_and_written(path: str, apart: str, written: str) -> SandboxCompileError:
    return SandboxCompileError(
        f"{path!r} is granted by {written}, too, and what is written there would not be kept apart", key=apart,
        suggestion='leave one of the two out; of the working directory, set workdir to "cow"',
    )  # fmt: skip


def refuse_mounts(view: View, paths: PathFacts) -> None:
    """No unprivileged overlay shows what is hidden under a mount that was made before its namespace was: the kernel
    refuses one of a tree with such a mount below it (has_locked_children, EINVAL), and so do we, by name."""
    for real, tree in view.trees.items():
        place = next((each for each in paths.mounted if tree.cow and each != real and covers(real, each)), None)
        if place is not None:
            raise SandboxCompileError(
                f"something is mounted on {place!r}, and copy-on-write takes a directory without mounts below it: the "
                "kernel lays no overlay over one, which would show what the mount hides, and no copy crosses it",
                key=tree.key,
                suggestion=f"name directories in filesystem.cow that hold no mount, {place!r} itself among them, or "
                f"grant {tree.fact.path!r} read-only or writable")  # fmt: skip


def upper_steps(policy: Policy) -> Iterator[MountStep]:
    """Where the layers of all trees lie, where there are any."""
    if is_copied(policy):
        return
    if is_on_disk(policy):
        yield MountStep(MountKind.UPPER, UPPER, LAYERS)
    else:
        inodes = max(policy.cow_mb * (MIB // PAGE), FEWEST_INODES)
        yield MountStep(MountKind.UPPER, UPPER, data=f"size={policy.cow_mb}m,nr_inodes={inodes},mode=700")


def overlays(steps: Iterable[MountStep]) -> Iterator[MountStep]:
    """The steps, with the layers of each overlay under a name of their own; and at the end no path leads there."""
    number = 0
    for step in steps:
        yield replace(step, data=str(number)) if step.kind is MountKind.OVERLAY else step
        number += step.kind is MountKind.OVERLAY
    if number:
        yield MountStep(MountKind.UPPER_GIVEN, UPPER)


def cow_steps(plan: Plan) -> tuple[MountStep, ...]:
    """One for each tree whose changes are kept apart."""
    return tuple(step for step in plan.mounts if step.kind is MountKind.OVERLAY)


def with_uppers(watch: WatchPlan | None, view: View, policy: Policy) -> WatchPlan | None:
    """What is written apart is memory of the cage, where it is not on disk: any of its overlays tells how much that
    is."""
    if is_on_disk(policy):
        return watch or WatchPlan()
    first = next((real for real, tree in view.trees.items() if tree.cow), None)
    if watch is None or not watch.tmpfs or first is None:
        return watch
    return replace(watch, tmpfs=(*watch.tmpfs, first))
