"""What of a Plan becomes C structs (csrc/abi.h): the cage, its first message, its limits. A pure translation: names to
the kernel's numbers, texts to memory that the structs point to.
"""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox._native import ffi, lib
from pysandbox.compile.plan import (
    DEVICES,
    LAYERS,
    SCRATCH,
    TRUST,
    LandlockPlan,
    LandlockRule,
    MountKind,
    MountStep,
    Plan,
)
from pysandbox.launch.native import NativePlan
from pysandbox.launch.numbers import (
    CLONE_NEW,
    LANDLOCK_ACCESS_FS,
    LANDLOCK_ACCESS_NET,
    LANDLOCK_SCOPE,
    MOUNT_ATTR,
    RLIM_INFINITY,
    mask,
    rlimit,
)
from pysandbox.probe.paths import c_texts
from pysandbox.shapes import Any

BPF_INSTRUCTION_SIZE = 8  # struct sock_filter, linux/filter.h
MOUNT_KINDS = {kind: getattr(lib, f"PSB_MOUNT_{kind.value}") for kind in MountKind}


def encode_plan(plan: Plan, uid: int, gid: int) -> NativePlan:
    """For cages of this user."""
    keep: list[Any] = []
    scoped = bool(plan.landlock and "SIGNAL" in plan.landlock.scoped)
    struct = ffi.new("struct psb_plan *")
    struct.namespaces = mask(CLONE_NEW, plan.namespaces)
    struct.inside_uid = uid if plan.inside_uid < 0 else plan.inside_uid
    struct.inside_gid = gid if plan.inside_gid < 0 else plan.inside_gid
    struct.outside_uid, struct.outside_gid = (lib.PSB_OUTSIDE,) * 2 if plan.unrooted else (uid, gid)
    struct.unrooted, struct.idmap_fd = plan.unrooted, -1
    struct.loopback = plan.loopback
    struct.scope_signals = scoped and not plan.namespaces
    struct.unconfined = plan.isolation == "none"
    _fill_mounts(struct, plan, keep)
    if plan.landlock is not None:
        if not plan.namespaces:
            _check_looked_at(plan.landlock.rules)
        fill_landlock(struct.landlock, plan.landlock, keep)
    listens = plan.notify is not None
    return NativePlan(
        struct, _setup_message(plan, scoped), keep, listens=listens, scratch=_scratch_places(plan),
        gives_upper=bool([step for step in plan.mounts if step.kind is MountKind.UPPER_GIVEN]),
        trust=[index for index, step in enumerate(plan.mounts) if step.source == TRUST],
        layers=_layer_places(plan),
    )  # fmt: skip


def _fill_mounts(out: Any, plan: Plan, keep: list[Any]) -> None:
    named = [plan.staging]
    for step in plan.mounts:
        named += step.source, step.target, step.data
    texts, memory = c_texts(named)
    mounts = ffi.new("struct psb_mount[]", [_mount(step, texts) for step in plan.mounts])
    keep += mounts, memory
    out.staging, out.mounts, out.n_mounts = texts[plan.staging], mounts, len(plan.mounts)


def _mount(step: MountStep, texts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a struct psb_mount."""
    return {
        "kind": MOUNT_KINDS[step.kind],
        "flags": (lib.PSB_OPTIONAL if step.optional else 0)
        | (lib.PSB_INSIDE_BIND if step.inside_bind else 0)
        | (lib.PSB_VERIFY if step.ino else 0)
        | (lib.PSB_NAMED if step.named else 0)
        | (lib.PSB_MUST_MAP if step.must_map else 0),
        "mode": step.mode,
        "dev": step.dev,
        "ino": step.ino,
        "attrs": mask(MOUNT_ATTR, tuple(attr.value for attr in step.attrs)) if step.attrs else 0,
        "source": texts[step.source],
        "target": texts[step.target],
        "data": texts[step.data],
    }


def _check_looked_at(rules: tuple[LandlockRule, ...]) -> None:
    """Without a root of its own a cage's rules are of the host's paths, each of which is the inode that was looked at,
    but for those that no user can replace, and for the scratch directory and copies of trees, which are filled in."""
    for rule in rules:
        if not rule.ino and rule.path not in (*DEVICES, "") and not rule.path.startswith(("/proc/", LAYERS)):
            raise ValueError(f"{rule.path!r} would be given without having been looked at")


def fill_landlock(out: Any, wanted: LandlockPlan, keep: list[Any]) -> None:
    """`keep` has to live as long as the struct."""
    texts, memory = c_texts([rule.path for rule in wanted.rules])
    rules = ffi.new("struct psb_rule[]", [
        {"path": texts[rule.path], "access": mask(LANDLOCK_ACCESS_FS, rule.access), "optional": rule.optional,
         "dev": rule.dev, "ino": rule.ino}
        for rule in wanted.rules
    ])  # fmt: skip
    keep += rules, memory
    out.enabled = 1
    out.handled_fs = mask(LANDLOCK_ACCESS_FS, wanted.handled_fs)
    out.handled_net = mask(LANDLOCK_ACCESS_NET, wanted.handled_net)
    out.scoped = mask(LANDLOCK_SCOPE, wanted.scoped)
    out.rules, out.n_rules = rules, len(wanted.rules)


def _scratch_places(plan: Plan) -> tuple[list[int], list[int]]:
    """The mounts and the rules that wait for the scratch directory's path."""
    rules = plan.landlock.rules if plan.landlock is not None and not plan.namespaces else ()
    return (
        [index for index, step in enumerate(plan.mounts) if step.source == SCRATCH],
        [index for index, rule in enumerate(rules) if rule.path == ""],
    )


def _layer_places(plan: Plan) -> tuple[dict[int, str], dict[int, str]]:
    """The mounts and the rules that wait for the directory of the layers, or for a copy in it: where below it."""
    rules = plan.landlock.rules if plan.landlock is not None and not plan.namespaces else ()
    return (
        {at: step.source.removeprefix(LAYERS) for at, step in enumerate(plan.mounts) if step.source.startswith(LAYERS)},
        {at: rule.path.removeprefix(LAYERS) for at, rule in enumerate(rules) if rule.path.startswith(LAYERS)},
    )


def _setup_message(plan: Plan, scoped: bool) -> bytes:
    setup = ffi.new("struct psb_setup *")
    setup.kind = lib.PSB_MESSAGE_SETUP
    setup.filter_count = len(plan.seccomp) // BPF_INSTRUCTION_SIZE
    setup.late_count = len(plan.seccomp_late) // BPF_INSTRUCTION_SIZE
    if plan.notify is not None:
        setup.flags |= lib.PSB_SETUP_LISTENER
    if plan.landlock is not None:
        setup.flags |= lib.PSB_SETUP_LANDLOCK
    if not plan.namespaces:
        setup.flags |= lib.PSB_SETUP_SUBREAPER | (lib.PSB_SETUP_SCOPED if scoped else 0)
    if "NET" in plan.namespaces and plan.net is None:
        setup.flags |= lib.PSB_SETUP_NO_WAY_OUT
    return bytes(ffi.buffer(setup)) + plan.seccomp + plan.seccomp_late


def encode_limits(plan: Plan) -> bytes:
    limits = ffi.new("struct psb_limit[]", len(plan.limits) or 1)
    for index, limit in enumerate(plan.limits):
        limits[index].resource = rlimit(limit.resource)
        limits[index].value = RLIM_INFINITY if limit.value is None else limit.value
    return bytes(ffi.buffer(limits))[: len(plan.limits) * ffi.sizeof("struct psb_limit")]
