"""Why this host refuses what a cage needs, found when it has refused: the settings, and what this process runs under.

A refusal is an errno; the reason is somewhere in /proc. The rows are looked at in order, the first that applies is the
one to name. Nothing here is read while everything works.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from pysandbox.errors import UnsupportedError
from pysandbox.probe import kernel
from pysandbox.shapes import dataclass

SETUP = "as root: pysandbox setup"
CAP_SETFCAP = 31  # since Linux 5.12, to map the id 0 of the namespace above
NO_MAP = "root may not map its own id into a user namespace without CAP_SETFCAP, which was taken, as by --cap-drop=ALL"


@dataclass(frozen=True, slots=True)
class Restriction:
    """`path` says `refuses` of its contents; `cause` may hold {value}."""

    path: str
    refuses: Callable[[str], bool]
    cause: str
    fix: str


def _is_zero(text: str) -> bool:
    return text == "0"


def _confined(label: str) -> bool:
    """Whether an AppArmor label, "NAME (enforce)", confines. SELinux has contexts in the same file, with colons."""
    return label.endswith("(enforce)") and ":" not in label


def _is_root_without(capability: int, status: str) -> bool:
    """Whether /proc/PID/status shows an effective uid of 0 whose effective capabilities lack `capability`."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    ids, held = fields.get("Uid", "").split(), fields.get("CapEff", "").strip()
    return len(ids) > 1 and ids[1] == "0" and bool(held) and not int(held, 16) >> capability & 1


def _none_allowed(kind: str, what: str) -> Restriction:
    name = f"user.max_{kind}_namespaces"
    return Restriction(
        f"/proc/sys/user/max_{kind}_namespaces", _is_zero, f"{name} = 0: nobody may create {what} namespaces",
        f"as root: sysctl -w {name}=65536",
    )  # fmt: skip


RESTRICTIONS = (
    _none_allowed("user", "user"),
    _none_allowed("mnt", "mount"),
    _none_allowed("pid", "process"),
    _none_allowed("net", "network"),
    _none_allowed("ipc", "IPC"),
    _none_allowed("uts", "host name"),
    _none_allowed("cgroup", "cgroup"),
    Restriction(
        "/proc/sys/kernel/unprivileged_userns_clone", _is_zero,
        "kernel.unprivileged_userns_clone = 0: only root may create user namespaces",
        "as root: sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    Restriction(
        "/proc/self/attr/current", _confined,
        "this program is confined by the AppArmor profile {value}",
        "add `userns,` and the mounts to that profile, or start the program without it",
    ),
    Restriction(
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", lambda value: value not in ("", "0"),
        "kernel.apparmor_restrict_unprivileged_userns = {value}: AppArmor takes the power from user namespaces of "
        "programs without a profile",
        f"{SETUP} (it gives this Python one)",
    ),
    Restriction(
        "/sys/fs/selinux/enforce", lambda value: value == "1",
        "SELinux is enforcing",
        f"{SETUP}; `ausearch -m avc -ts recent` shows what was refused",
    ),
    Restriction(
        "/proc/self/status", lambda value: _is_root_without(CAP_SETFCAP, value),
        NO_MAP,
        "start the container with --cap-add=SETFCAP, or run as another user than root",
    ),
    Restriction(
        "/proc/self/status", lambda value: "\nSeccomp:\t2" in value,
        "this program runs under a system-call filter, as in a container",
        "start the container with --security-opt seccomp=unconfined",
    ),
)  # fmt: skip


FOREIGN_PROC = "/proc is that of another PID namespace, so that it tells of other processes than these"
MOUNT_PROC = "mount one of this namespace (mount -t proc proc /proc; unshare --mount-proc)"
READ_ONLY_PROC = f"/proc is read-only, so that no user namespace can be given its ids; {MOUNT_PROC}"
NOT_DUMPABLE = (
    "this program is not dumpable, as after a change of its user (setuid), so that its /proc is root's; execute it "
    "anew, or call prctl(PR_SET_DUMPABLE, 1) where others of this user may read its memory"
)
NO_IDS = "this program's user namespace has no ids; map some first (unshare --map-current-user)"


def _of_own_proc() -> str | None:
    """What is the matter with /proc itself, by which the ids of a user namespace are set (user_namespaces(7))."""
    if not os.path.lexists("/proc/self"):
        return f"/proc is not mounted; {MOUNT_PROC}"
    if kernel.has_foreign_proc():
        return f"{FOREIGN_PROC}; {MOUNT_PROC}"
    if os.statvfs("/proc").f_flag & os.ST_RDONLY:
        return READ_ONLY_PROC
    if _read("/proc/self/uid_map") == "":
        return NO_IDS
    return NOT_DUMPABLE if os.stat("/proc/self/uid_map").st_uid != os.geteuid() else None


def find_restriction(root: str = "", uid: int | None = None) -> str | None:
    """The cause of a refusal and its fix, in one sentence; None when nothing known restricts."""
    if not root and (cause := _of_own_proc()) is not None:
        return cause
    for row in RESTRICTIONS:
        value = _read(root + row.path)
        exempt = "unprivileged" in row.path and (os.geteuid() if uid is None else uid) == 0
        if value is not None and not exempt and row.refuses(value):
            return f"{row.cause.format(value=value.removesuffix(' (enforce)'))}; {row.fix}"
    return None


def _read(path: str) -> str | None:
    try:
        with open(path, errors="replace") as file:
            return file.read().strip().rstrip("\0")
    except OSError:
        return None


# What each feature stands on, by the probe's name, the deepest first, and what is true where that fails.
STANDS_ON = {
    "user_namespaces": (),
    "network_namespaces": ("NET_NS",),
    "mount_setattr": ("MOUNT_NS", "TMPFS", "MOUNT_SETATTR"),
    "proc_mountable": ("MOUNT_NS", "PID_NS", "TMPFS"),
}
LACKS = {
    "MOUNT_NS": "this host forbids mount namespaces, and so a view of the files that is the cage's own",
    "PID_NS": "this host forbids process namespaces, and so a cage without the host's processes",
    "NET_NS": "this host forbids network namespaces, so a cage would have the host's network",
    "TMPFS": "this host refuses to mount anything, also in a user namespace, and so a view that is the cage's own",
    "MOUNT_SETATTR": "this host refuses mount_setattr, so a granted tree cannot be made read-only with what is mounted "
    "below it",
}
USED_UP = "the limit on such namespaces (user.max_*_namespaces) is reached"
IN_CHROOT = (
    "a security module forbids it, or this program is in a chroot, where the kernel makes none: enter such a tree with "
    "pivot_root (bwrap, systemd-nspawn, a container), or start from outside"
)
UNKNOWN = f"a security module or a filter of system calls refuses it; {SETUP}, and see docs/troubleshooting.md"
WITHOUT = 'or set isolation = "landlock", which needs no namespace'
INSIDE = "this program is in a cage itself, or in a container like one, and no cage is made inside of one"
OUTSIDE = "start both from outside; a program that is confined already needs no second cage"


def explained(error: UnsupportedError) -> UnsupportedError:
    """The refusal with its real cause: the part that the feature stands on and that this host lacks, or the setting
    that forbids it. Unchanged where neither is found."""
    if error.feature not in STANDS_ON:
        return error
    if _is_in_cage():
        return UnsupportedError(INSIDE, feature=error.feature, fix=OUTSIDE)
    lacking = next(((name, number) for name in STANDS_ON[error.feature] if (number := _refusal(name))), None)
    cause = find_restriction() or (_unnamed_cause() if error.feature == "user_namespaces" else None)
    if lacking is not None:
        name, number = lacking
        why = cause or (USED_UP if number == errno.ENOSPC else UNKNOWN)
        message = f"{LACKS[name]} ({errno.errorcode.get(number, number)})"
        return UnsupportedError(message, feature=error.feature, fix=f"{why}; {WITHOUT}")
    if cause is None or error.feature != "user_namespaces":
        return error
    message = str(error).removesuffix(f"; {error.fix}")
    if cause.startswith(NO_MAP):  # others may make them here
        message = "this root cannot make a user namespace, and so none of the others that a cage is made of"
    return UnsupportedError(message, feature=error.feature, fix=f"{cause}; {error.fix}")


def _unnamed_cause() -> str | None:
    """What no file says: the kernel makes no user namespace where the root directory is not that of the mounts."""
    number = _refusal("USER_NS")
    return USED_UP if number == errno.ENOSPC else IN_CHROOT if number == errno.EPERM else None


def _is_in_cage() -> bool:
    """Whether no isolation works here: this process may not look at itself in /proc, as in a cage of "landlock", or a
    filter of system calls answers openat2 as in one of "full"."""
    try:
        os.close(os.open(f"/proc/{os.getpid()}/stat", os.O_RDONLY | os.O_CLOEXEC))
    except PermissionError:
        return True
    except OSError:
        return False
    return kernel.is_openat2_filtered()


def _refusal(name: str) -> int:
    """The errno of a probe. A kernel without mount_setattr refuses nothing: it is older than that."""
    return 0 if name == "MOUNT_SETATTR" and kernel.version() < (5, 12) else kernel.probe(name)
