"""What it means that a call missed a file: whether the cage is why, by which policy key, and the line for it. Pure.

The errno is the kernel's, found in the cage's own root while the caller was held. Whether the cage is why is a
comparison: what would the user's own rights have given on the host? A file that the host lacks too, or keeps from him
too, is nobody's refusal.
"""

from __future__ import annotations

import posixpath
import re
from errno import EACCES, ENOENT, EROFS

from pysandbox.compile.plan import Attr, MountKind, Plan
from pysandbox.handlers import fix
from pysandbox.policy.guarded import WORDS
from pysandbox.policy.match import covers
from pysandbox.shapes import NamedTuple, dataclass
from pysandbox.supervise.rights import require_rights

MAKES = frozenset({"CREATE", "MAKE"})
WRITES = MAKES | {"WRITE", "CHANGE", "REMOVE"}
COVERS = frozenset({MountKind.DENY_FILE, MountKind.DENY_DIR})
MASKS = frozenset({MountKind.MASK_FILE, MountKind.MASK_DIR})
# What Landlock would have to allow: of the file, or (MAKE_*, REMOVE_*) of the directory that it is in.
OF_THE_FILE = {"READ": "READ_FILE", "WRITE": "WRITE_FILE", "CREATE": "WRITE_FILE", "RUN": "EXECUTE"}
OF_ITS_DIRECTORY = {"CREATE": "MAKE_REG", "MAKE": "MAKE_REG", "REMOVE": "REMOVE_FILE"}


# What every program of a distribution looks for and none needs: nobody asks why it is not there.
UNNEEDED = re.compile(r"/etc/(?:host\.conf|locale\.alias|ld\.so\.preload|python3(?:\.\d+)?/sitecustomize\.py)")


@dataclass(frozen=True, slots=True)
class Missed:
    """`wanted` is a name of enum psb_wanted (csrc/host/notify/notify.h); `path` as the cage names it, absolute."""

    path: str
    wanted: str
    number: int
    directory: bool = False

    @property
    def makes(self) -> bool:
        return self.wanted in MAKES


class OnHost(NamedTuple):
    """What the user finds at the same path outside: the file, its directory, whether he may write what the call would
    write, and where the path really leads."""

    there: bool
    above: bool
    writable: bool
    real: str


def judged(missed: Missed, host: OnHost, plan: Plan) -> tuple[str, str] | None:
    """The policy key that refused it, and the line that would allow it ("": none does); None: no refusal of ours."""
    if plan.notify is not None and plan.notify.on_host:
        return _by_landlock(missed, host, plan)
    if missed.number == ENOENT:
        return _not_in_view(missed, host)
    if missed.number == EROFS:
        return _read_only(missed, host, plan)
    if missed.number == EACCES and host.there and _is_under(missed.path, host.real, plan, COVERS):
        return "filesystem.deny", ""
    return None


def _not_in_view(missed: Missed, host: OnHost) -> tuple[str, str] | None:
    if missed.makes and not host.there:
        return ("filesystem.allow_write", _line_to_write(missed, host)) if host.above else None
    if not host.there or UNNEEDED.fullmatch(host.real):
        return None
    if missed.wanted in WRITES:
        return "filesystem.allow_write", _line_to_write(missed, host)
    return "filesystem.allow", fix.of_file("allow", host.real)


def _read_only(missed: Missed, host: OnHost, plan: Plan) -> tuple[str, str] | None:
    if _is_under(missed.path, host.real, plan, MASKS):
        return "filesystem.mask", ""
    word = next((word for word in WORDS if f"/{word}/" in f"{host.real}/"), "")
    if word and _is_granted(host.real, plan):
        return "filesystem.unguarded", fix.of_word("unguarded", word)
    return "filesystem.allow_write", _line_to_write(missed, host)


def _line_to_write(missed: Missed, host: OnHost) -> str:
    """For what the user may write himself: no grant gives more than he has."""
    if not host.writable:
        return ""
    named = (missed.makes and not host.there) or missed.wanted == "REMOVE"
    return fix.of_file("allow_write", posixpath.dirname(host.real) if named else host.real)


def _is_under(path: str, real: str, plan: Plan, kinds: frozenset[MountKind]) -> bool:
    return any(step.kind in kinds and (covers(step.target, path) or covers(step.target, real)) for step in plan.mounts)


def _is_granted(real: str, plan: Plan) -> bool:
    """Whether a writable grant holds the path, so that it is a guard that keeps it from being written."""
    trees = {step.target for step in plan.mounts if step.kind is MountKind.BIND and covers(step.target, real)}
    return any(step.kind is MountKind.PROTECT and step.target in trees and Attr.RDONLY not in step.attrs
               for step in plan.mounts)  # fmt: skip


def _by_landlock(missed: Missed, host: OnHost, plan: Plan) -> tuple[str, str] | None:
    asked = {OF_THE_FILE.get(missed.wanted, "")} if host.there else set()
    above = {OF_ITS_DIRECTORY.get(missed.wanted, "")} if not host.there or missed.wanted == "REMOVE" else set()
    if missed.directory:
        asked = {"READ_DIR"} if missed.wanted == "READ" else set()
        above = {"REMOVE_DIR"} if missed.wanted == "REMOVE" else above
    try:
        require_rights(plan.landlock, host.real, asked - {""})
        require_rights(plan.landlock, posixpath.dirname(host.real), above - {""})
    except PermissionError:
        if missed.wanted in WRITES:
            return "filesystem.allow_write", _line_to_write(missed, host)
        return "filesystem.allow", fix.of_file("allow", host.real)
    return None
