"""A NativePlan as plain data and back, so that what was compiled yesterday needs no compiler today.

The C structs are kept as they lie in memory, with every pointer empty, and the strings beside them in the order in
which the pointers want them. Nothing is interpreted: whoever keeps an image (`launch.plans`) vouches for its bytes, and
that they are of this very build. Cheap to import.
"""

from __future__ import annotations

from pysandbox._native import ffi
from pysandbox.launch.native import NativePlan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Image = tuple[bytes, bytes, bytes, bytes, bytes]  # plan, mounts, rules, strings, setup message

# The structs as this file knows them: with a field more, there is more to a plan than an image holds.
KNOWN = {
    "struct psb_plan": (
        "namespaces", "inside_uid", "inside_gid", "outside_uid", "outside_gid", "loopback", "scope_signals",
        "unconfined", "unrooted", "idmap_fd", "cgroup_fd", "hostname", "staging", "n_mounts", "mounts", "landlock",
    ),
    "struct psb_mount": ("kind", "flags", "mode", "attrs", "dev", "ino", "source", "target", "data"),
    "struct psb_landlock": ("enabled", "n_rules", "handled_fs", "handled_net", "scoped", "rules"),
    "struct psb_rule": ("path", "access", "dev", "ino", "optional", "pad"),
}  # fmt: skip


def image_of(native: NativePlan) -> Image | None:
    """None for a plan with parts that an image cannot hold."""
    known = all(tuple(name for name, _ in ffi.typeof(struct).fields) == fields for struct, fields in KNOWN.items())
    if native.listens or not known:
        return None
    plan = ffi.new("struct psb_plan *", native._struct[0])
    mounts = _copy("struct psb_mount", plan.mounts, plan.n_mounts)
    rules = _copy("struct psb_rule", plan.landlock.rules, plan.landlock.n_rules)
    strings = [_taken(plan, "staging")]
    for mount in mounts:
        strings += [_taken(mount, "source"), _taken(mount, "target"), _taken(mount, "data")]
    strings += [_taken(rule, "path") for rule in rules]
    plan.mounts = plan.landlock.rules = plan.hostname = ffi.NULL
    return (
        bytes(ffi.buffer(plan)),
        bytes(ffi.buffer(mounts)),
        bytes(ffi.buffer(rules)),
        b"\0".join(strings),
        native._setup,
    )


def plan_of(image: Image) -> NativePlan:
    raw_plan, raw_mounts, raw_rules, strings, setup = image
    text = ffi.new("char[]", strings)  # all of them, each ended by the NUL that joins them
    mounts = ffi.from_buffer("struct psb_mount[]", bytearray(raw_mounts))
    rules = ffi.from_buffer("struct psb_rule[]", bytearray(raw_rules))
    plan = ffi.new("struct psb_plan *")
    ffi.memmove(plan, raw_plan, ffi.sizeof("struct psb_plan"))
    places = iter(_places(text, strings))
    plan.staging = next(places)
    for mount in mounts:
        mount.source, mount.target, mount.data = next(places), next(places), next(places)
    for rule in rules:
        rule.path = next(places)
    plan.mounts, plan.landlock.rules = mounts, rules
    return NativePlan(plan, setup, [text, mounts, rules])


def _copy(struct: str, source: Any, count: int) -> Any:
    copied = ffi.new(f"{struct}[]", count)
    ffi.memmove(copied, source, count * ffi.sizeof(struct))
    return copied


def _taken(struct: Any, field: str) -> bytes:
    """The string at a pointer, which is empty afterwards."""
    value: bytes = ffi.string(getattr(struct, field))
    setattr(struct, field, ffi.NULL)
    return value


def _places(text: Any, strings: bytes) -> list[Any]:
    places, at = [], 0
    for each in strings.split(b"\0"):
        places.append(text + at)
        at += len(each) + 1
    return places
