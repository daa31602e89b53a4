"""Every kernel feature a cage can use: one row each, read by one of a few small readers.

A row says how the feature is found out, what is lost without it and how to get it. `pysandbox check` prints the rows;
`UnsupportedError` quotes them. To add a feature: one row here (and its probe in csrc/host/probe/probe.c if it has to be
tried). The minimum for a cage is what is marked `required`; nothing here decides how a cage does without the rest.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

from pysandbox.probe import cgroups, kernel
from pysandbox.shapes import dataclass


@dataclass(frozen=True, slots=True)
class Host:
    """Where the readers look; tests give them a pretended one."""

    root: str = ""  # put before every path
    release: str | None = None  # None: this kernel's
    probe: Callable[[str], int] = kernel.probe
    redirect: Callable[[], int] = kernel.redirect
    landlock_abi: Callable[[], int] = kernel.landlock_abi
    landlock_errata: Callable[[], int | None] = kernel.landlock_errata


@dataclass(frozen=True, slots=True)
class Reading:
    ok: bool
    detail: str


Reader = Callable[[Host], Reading]


@dataclass(frozen=True, slots=True)
class Feature:
    """`since`: the first kernel that has it. `without` and `fix` are one sentence each."""

    name: str
    reader: Reader
    since: tuple[int, int]
    without: str
    fix: str
    required: bool = False


# ---- readers -------------------------------------------------------------------------------------------------


def tried(probe: str) -> Reader:
    """A probe of the extension."""
    return lambda host: _outcome(host.probe(probe))


def redirects(host: Host) -> Reading:
    """nf_tables takes the rules of a cage with doors."""
    return _outcome(host.redirect())


def _outcome(number: int) -> Reading:
    if number == 0:
        return Reading(True, "works")
    return Reading(False, f"{errno.errorcode.get(number, number)} ({os.strerror(number)})")


def landlock(abi: int) -> Reader:
    """Landlock at this ABI or a newer one."""

    def read(host: Host) -> Reading:
        have, errata = host.landlock_abi(), host.landlock_errata()
        detail = "none" if have == 0 else f"ABI {have}" + (f", errata {errata:#x}" if errata is not None else "")
        return Reading(have >= abi, detail)

    return read


def release(major: int, minor: int) -> Reader:
    """The version of the kernel."""

    def read(host: Host) -> Reading:
        text = host.release or os.uname().release
        return Reading(kernel.version(text) >= (major, minor), text)

    return read


def setting(path: str, fine: Callable[[int], bool]) -> Reader:
    """A number in a file of /proc/sys; a kernel without that file does not restrict."""

    def read(host: Host) -> Reading:
        value = _text(host.root + path)
        if value is None:
            return Reading(True, "not restricted")
        return Reading(value.isdecimal() and fine(int(value)), f"{path.rpartition('/')[2]} = {value}")

    return read


def lifted(probe: str, restriction: Reader) -> Reader:
    """A restriction that does not hold for this program, as the probe shows."""

    def read(host: Host) -> Reading:
        reading = restriction(host)
        if reading.ok or host.probe(probe) != 0:
            return reading
        return Reading(True, f"{reading.detail}, but not for this program")

    return read


def exists(path: str) -> Reader:
    """A path of the host."""

    def read(host: Host) -> Reading:
        there = os.path.exists(host.root + path)
        return Reading(there, path if there else f"no {path}")

    return read


def delegated(*controllers: str) -> Reader:
    """The caller may make groups, with these controllers, in a part of the cgroup v2 tree that was handed to it."""

    def read(host: Host) -> Reading:
        facts = cgroups.find_cgroup(host.root)
        lacking = [name for name in controllers if name not in facts.controllers]
        return Reading(not lacking, facts.reason if lacking else f"{facts.parent} ({' '.join(facts.controllers)})")

    return read


def for_root(asked: Callable[[], int]) -> Reader:
    """What nobody but root needs."""

    def read(host: Host) -> Reading:
        return (
            _outcome(asked()) if os.geteuid() == 0 else Reading(True, "not asked: only cages that root starts need it")
        )

    return read


def cgroup_tree(host: Host) -> Reading:
    """A cgroup v2 tree, wherever it is mounted, and that this process is in it."""
    facts = cgroups.find_cgroup(host.root)
    there = bool(facts.parent) or "mounted" not in facts.reason
    detail = f"there is one; {facts.reason}" if there and not facts.parent else facts.parent or facts.reason
    return Reading(there, detail)


def _text(path: str) -> str | None:
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def mac_system(host: Host) -> str:
    """The mandatory access control system in force: AppArmor, SELinux or none."""
    if _text(host.root + "/sys/module/apparmor/parameters/enabled") == "Y":
        return "AppArmor"
    return "SELinux" if os.path.exists(host.root + "/sys/fs/selinux/enforce") else "none"


# ---- the table -----------------------------------------------------------------------------------------------

_USERNS = (
    "as root: sysctl -w user.max_user_namespaces=65536 kernel.unprivileged_userns_clone=1 (those that exist), and "
    "pysandbox setup where AppArmor or SELinux is active; in Docker: --security-opt seccomp=unconfined"
)
_CONTAINER = "in Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
_UNMASK = "in Docker: --security-opt systempaths=unconfined; in Kubernetes: procMount: Unmasked"

_DELEGATE = (
    "Start below systemd-run --user --scope -p Delegate=yes, or pip install 'pysandbox[systemd]'; in Docker: "
    "--cgroupns=private and a writable cgroup."
)

FEATURES: tuple[Feature, ...] = (
    Feature(
        "kernel", release(5, 6), (5, 6),
        "Cages do not start.",
        "Boot Linux 5.6 or newer (5.19 or newer has all that matters).",
        required=True,
    ),
    Feature(
        "user_namespaces", tried("USER_NS"), (3, 8),
        "Only isolation = \"landlock\" is left: no private view of files, processes or network.",
        f"Allow user namespaces, {_USERNS}.",
        required=True,
    ),
    Feature(
        "userns_count", setting("/proc/sys/user/max_user_namespaces", lambda value: value > 0), (4, 9),
        "Nobody can create user namespaces.",
        "As root: sysctl -w user.max_user_namespaces=65536.",
    ),
    Feature(
        "userns_unprivileged", setting("/proc/sys/kernel/unprivileged_userns_clone", lambda value: value > 0), (4, 4),
        "Users other than root cannot create user namespaces (a Debian setting).",
        "As root: sysctl -w kernel.unprivileged_userns_clone=1.",
    ),
    Feature(
        "userns_apparmor",
        lifted(
            "USER_NS", setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", lambda value: value == 0)
        ), (6, 2),
        "User namespaces of programs without an AppArmor profile have no power (an Ubuntu setting).",
        "As root: pysandbox setup (it gives this Python a profile).",
    ),
    Feature(
        "pid_namespaces", tried("PID_NS"), (3, 8),
        "A cage would see the host's processes.",
        f"Allow user namespaces first; {_CONTAINER}.",
        required=True,
    ),
    Feature(
        "mount_namespaces", tried("MOUNT_NS"), (3, 8),
        "A cage cannot have its own view of the files.",
        f"Allow user namespaces first; {_CONTAINER}.",
        required=True,
    ),
    Feature(
        "network_namespaces", tried("NET_NS"), (3, 8),
        "Only egress = \"direct\", which shares the host's network, and isolation = \"landlock\" are left.",
        "Allow user namespaces first; as root: sysctl -w user.max_net_namespaces=65536.",
        required=True,
    ),
    Feature(
        "nf_tables", redirects, (3, 18),
        "A program that ignores proxy variables reaches a host on ports 80, 443 and those that its policy names alone.",
        "As root: modprobe nf_tables nft_chain_nat (kernel options CONFIG_NF_TABLES, CONFIG_NFT_NAT).",
    ),
    Feature(
        "ipc_namespaces", tried("IPC_NS"), (3, 8),
        "A cage would share System V and POSIX message queues with the host.",
        "Allow user namespaces first; as root: sysctl -w user.max_ipc_namespaces=65536.",
    ),
    Feature(
        "uts_namespaces", tried("UTS_NS"), (3, 8),
        "A cage would see the host's name.",
        "Allow user namespaces first; as root: sysctl -w user.max_uts_namespaces=65536.",
    ),
    Feature(
        "cgroup_namespaces", tried("CGROUP_NS"), (4, 6),
        "A cage would see its place in the host's control groups.",
        "Allow user namespaces first; as root: sysctl -w user.max_cgroup_namespaces=65536.",
    ),
    Feature(
        "proc_mountable", tried("PROC"), (3, 8),
        "Only isolation = \"landlock\" is left: a full cage has a /proc of its own.",
        f"Lift what covers parts of the host's /proc; {_UNMASK}.",
        required=True,
    ),
    Feature(
        "mount_setattr", tried("MOUNT_SETATTR"), (5, 12),
        "Only isolation = \"landlock\" is left: what a full cage may read could be written.",
        f"Boot Linux 5.12 or newer; {_CONTAINER}.",
        required=True,
    ),
    Feature(
        "idmapped_mounts", for_root(kernel.id_swap), (5, 12),
        "A cage that root starts keeps root's id outside: what a hole in another wall opens is root's.",
        "Start cages as an ordinary user; or boot Linux 5.12 or newer, outside of any container.",
    ),
    Feature(
        "tmpfs", tried("TMPFS"), (3, 8),
        "A cage has no root and no /tmp of its own.",
        f"Allow user namespaces first; {_CONTAINER}.",
    ),
    Feature(
        "tmpfs_xattr", tried("TMPFS_XATTR"), (6, 6),
        "Copy-on-write directories are copied: layers in memory cannot re-create a removed directory (EIO).",
        "Boot Linux 6.6 or newer, or keep layers on disk: storage = \"disk\" in [workspace].",
    ),
    Feature(
        "overlayfs", tried("OVERLAY"), (5, 11),
        "Copy-on-write directories (workdir = \"cow\") are copied for each cage.",
        "Boot Linux 5.11 or newer; as root: modprobe overlay.",
    ),
    Feature(
        "binfmt_misc", tried("BINFMT_MISC"), (6, 7),
        "A cage cannot register interpreters for foreign executables of its own.",
        "Boot Linux 6.7 or newer; as root: modprobe binfmt_misc.",
    ),
    Feature(
        "seccomp_filter", tried("SECCOMP_FILTER"), (3, 17),
        "System calls cannot be filtered.",
        "Boot a kernel with CONFIG_SECCOMP_FILTER=y.",
        required=True,
    ),
    Feature(
        "user_notif", tried("USER_NOTIF"), (5, 0),
        "Rules that look at the arguments of a call while it happens are not available.",
        "Boot Linux 5.9 or newer; EBUSY: do not start below another seccomp supervisor.",
    ),
    Feature(
        "notif_addfd", tried("NOTIF_ADDFD"), (5, 9),
        "Connections cannot be opened on behalf of the cage.",
        "Boot Linux 5.9 or newer; EBUSY: do not start below another seccomp supervisor.",
    ),
    Feature(
        "wait_killable", tried("WAIT_KILLABLE"), (5, 19),
        "A signal during an intercepted call repeats the call.",
        "Boot Linux 5.19 or newer.",
    ),
    Feature(
        "sync_wake_up", tried("SYNC_WAKE_UP"), (6, 6),
        "Intercepted calls are answered about ten times slower on a busy machine.",
        "Boot Linux 6.6 or newer; EBUSY: do not start below another seccomp supervisor.",
    ),
    Feature(
        "landlock", landlock(1), (5, 13),
        "There is no second wall behind the mounts, and isolation = \"landlock\" is not available.",
        "Boot Linux 5.13 or newer with landlock in the boot option lsm= (see /sys/kernel/security/lsm).",
    ),
    Feature(
        "landlock_net", landlock(4), (6, 7),
        "Landlock does not restrict TCP; the network namespace still does.",
        "Boot Linux 6.7 or newer.",
    ),
    Feature(
        "landlock_scope", landlock(6), (6, 12),
        "Without a network namespace, abstract sockets of the host can be reached from the cage.",
        "Boot Linux 6.12 or newer.",
    ),
    Feature(
        "pidfd", tried("PIDFD"), (5, 3),
        "Processes of a cage can be named by number only, which is open to re-use.",
        "Boot Linux 5.3 or newer.",
    ),
    Feature(
        "pidfd_thread", tried("PIDFD_THREAD"), (6, 9),
        "The caller of an intercepted call is found by way of /proc.",
        "Boot Linux 6.9 or newer.",
    ),
    Feature(
        "close_range", tried("CLOSE_RANGE"), (5, 11),
        "File descriptors are closed one by one when a cage starts.",
        "Boot Linux 5.11 or newer.",
    ),
    Feature(
        "cgroup_v2", cgroup_tree, (4, 5),
        "A watchdog holds memory_mb and cpu_percent, in cages that are root outside max_pids too; nothing cpu_shares.",
        "Boot with systemd.unified_cgroup_hierarchy=1; in a container, mount the cgroup v2 tree.",
    ),
    Feature(
        "cgroup_memory", delegated("memory"), (4, 15),
        "A watchdog that looks some times a second holds memory_mb, not the kernel.",
        _DELEGATE,
    ),
    Feature(
        "cgroup_pids", delegated("pids"), (4, 15),
        "RLIMIT_NPROC holds max_pids; in landlock isolation, and in a cage that is root outside, a watchdog.",
        _DELEGATE,
    ),
    Feature(
        "cgroup_cpu", delegated("cpu"), (4, 15),
        "A watchdog that stops and continues the cage holds cpu_percent, and cpu_shares fails.",
        _DELEGATE,
    ),
    Feature(
        "clone_into_cgroup", tried("CLONE_INTO_CGROUP"), (5, 7),
        "A cage is moved into its control group just after it was made.",
        "Boot Linux 5.7 or newer; in Docker: a seccomp profile that knows clone3.",
    ),
)  # fmt: skip


def feature(name: str) -> Feature:
    """The row of this name; KeyError for a name that is not one."""
    for row in FEATURES:
        if row.name == name:
            return row
    raise KeyError(name)


def read_all(host: Host | None = None) -> list[tuple[Feature, Reading]]:
    """Every row with what this host says to it."""
    there = host or Host()
    return [(row, row.reader(there)) for row in FEATURES]


def too_old(readings: list[tuple[Feature, Reading]], release: str) -> list[Feature]:
    """The rows that this kernel is too old for; what else is missing has been switched off or forbidden."""
    version = kernel.version(release)
    return [row for row, reading in readings if not reading.ok and version < row.since]


def minimum_met(readings: list[tuple[Feature, Reading]]) -> bool:
    """Whether a cage can start at all."""
    return all(reading.ok for row, reading in readings if row.required)
