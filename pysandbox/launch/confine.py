"""A ConfinementPlan onto the calling process (csrc/host/confine/confine.c), and who stands in the way of it."""

from __future__ import annotations

import os
import threading

from pysandbox._native import ffi, lib
from pysandbox.compile.plan import DEVICES, LandlockRule
from pysandbox.errors import ConfineError
from pysandbox.launch.numbers import RLIM_INFINITY, rlimit
from pysandbox.launch.structs import BPF_INSTRUCTION_SIZE, fill_landlock
from pysandbox.shapes import TYPE_CHECKING, Any, replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pysandbox.compile.confine import ConfinementPlan

IN_FORCE = {"LIMITS": "limits", "CAPS": "no capabilities", "LANDLOCK": "Landlock", "SECCOMP": "the filter"}


def confine(plan: ConfinementPlan) -> None:
    """Lays the plan on this process, for good. Raises ConfineError."""
    keep: list[Any] = []
    out = ffi.new("struct psb_confinement *")
    looked_at = tuple(rule for each in plan.landlock.rules for rule in _looked_at(each))
    fill_landlock(out.landlock, replace(plan.landlock, rules=looked_at), keep)
    program = ffi.from_buffer(plan.seccomp)
    limits = ffi.new("struct psb_limit[]", [
        {"resource": rlimit(each.resource), "value": RLIM_INFINITY if each.value is None else each.value}
        for each in plan.limits
    ])  # fmt: skip
    out.filter, out.filter_count = ffi.cast("uint8_t *", program), len(plan.seccomp) // BPF_INSTRUCTION_SIZE
    out.limits, out.n_limits = limits, len(plan.limits)
    out.flags = lib.PSB_CONFINE_ALL_THREADS if plan.all_threads else 0
    if lib.psb_confine(out):
        raise _error(out)


def _looked_at(rule: LandlockRule) -> Iterator[LandlockRule]:
    """With the inode that it is now, where nobody has looked so far: no user can replace these. None where it is not
    there."""
    if rule.ino:
        yield rule
        return
    if rule.path not in DEVICES and not rule.path.startswith("/proc/"):
        raise ValueError(f"{rule.path!r} would be given without having been looked at")
    try:
        seen = os.stat(rule.path)
    except OSError:
        return
    yield replace(rule, dev=seen.st_dev, ino=seen.st_ino)


def _error(out: Any) -> ConfineError:
    step = ffi.string(lib.psb_step_name(out.error.step)).decode()
    path = ffi.string(out.error.path).decode(errors="surrogateescape") or None
    held = tuple(said for name, said in IN_FORCE.items() if out.confined & getattr(lib, f"PSB_CONFINED_{name}"))
    return ConfineError(step, out.error.number, path, held, other_threads() if step == "threads" else ())


def other_threads() -> tuple[str, ...]:
    """Python's name of each other thread, or the kernel's where Python does not know it; by Python alone where /proc
    cannot be read."""
    main = threading.main_thread()  # which knows its number from before a fork
    known = {thread.native_id: thread.name for thread in threading.enumerate() if thread is not main}
    known[os.getpid()] = main.name
    own = threading.get_native_id()
    try:
        kernel = {int(name): _comm(name) for name in os.listdir("/proc/self/task")}
    except OSError:
        kernel = {}
    found = {number: known.get(number) or kernel.get(number, "") for number in {*known, *kernel} if number}
    return tuple(f"{name!r}" for number, name in sorted(found.items()) if number != own)


def _comm(thread: str) -> str:
    try:
        with open(f"/proc/self/task/{thread}/comm", "rb") as comm:
            return comm.read().decode(errors="replace").strip()
    except OSError:
        return thread
