"""Starting a cage through the C extension, and the other calls into it that serve one; what a failure in it means.

A Plan becomes C structs in `launch.structs`, orders and reports have `launch.orders`, a cage's network `launch.netns`.
What Python and C must agree on is declared once, in csrc/abi.h; these files name fields and never count bytes. A
failure comes back as {step, errno, path} and leaves here as StartError. Cheap to import: a start that needs no compiler
(`launch.image`) comes through here.
"""

from __future__ import annotations

import errno
import os

from pysandbox._native import ffi, lib
from pysandbox.errors import StartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pysandbox.shapes import Any

PACKAGE = os.path.dirname(os.path.dirname(__file__))
INIT_PATH = f"{PACKAGE}/cage-init"
UNCAGED_INIT_PATH = f"{PACKAGE}/uncaged-init"  # the same, under a name to which no security policy is attached

INFINITY = 0xFFFFFFFFFFFFFFFF  # RLIM_INFINITY
TRIES = 8
WALL = 0x40000000  # __WALL, wait(2): children with another exit signal than SIGCHLD
RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS = 0x01, 0x02, 0x04  # openat2(2)
RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_CACHED = 0x08, 0x10, 0x20

HINTS = {
    ("idmap", errno.EINVAL): "its file system, or one that is mounted below it, cannot be mapped to the cage's user; "
    "try again: a new plan sees that",
    ("idmap", errno.EPERM): "it cannot be mapped to the cage's user; try again: a new plan sees that",
    ("clone", errno.EPERM): "this host forbids user namespaces: run `pysandbox check`, or use isolation = \"landlock\"",
    ("clone", errno.EACCES): "a security module forbids user namespaces: run `pysandbox check`",
    ("clone", errno.ENOSPC): "the limit of namespaces is reached: raise user.max_user_namespaces",
    ("setgroups", errno.EACCES): "this host takes the power from user namespaces: run `pysandbox check`",
    ("clone", errno.EBUSY): "the cage's cgroup has controllers for groups below it, so no process may enter it",
    ("uid_map", errno.EPERM): "this host forbids mapping ids in a user namespace: run `pysandbox check`",
    ("propagation", errno.EACCES): "a security module forbids mounts: run `pysandbox check`",
    ("proc", errno.EPERM): "/proc of this host is masked (a container?): give it an unmasked /proc, or use "
    "isolation = \"landlock\"",
    ("source", errno.EACCES): "the path may not be read by you, so it cannot be granted",
    ("source_changed", errno.ESTALE): "it was replaced while the cage was being made; try again",
    ("target", errno.EACCES): "it lies in a directory that the cage's user may not enter",
    ("upper", errno.EACCES): "the directory may not be read by you: copy-on-write needs that",
    ("chdir", errno.EACCES): "you may not enter the working directory: begin in another one (cwd=, or -w)",
    ("chdir", errno.ENOENT): "the working directory is not visible in the cage: grant it, or begin in another one "
    "(cwd=, or -w)",
    ("listener", errno.EBUSY): "this process lives under a supervisor of its own, and the kernel allows only one",
    ("door_enter", errno.EPERM): "a security module keeps this program from entering the cage's network namespace",
    ("exec", errno.ENOENT): "no such program in the cage: is its directory granted, and its interpreter?",
    ("exec", errno.ENOTDIR): "a part of the path is not a directory",
    ("exec", errno.EACCES): "the program is not executable in the cage: see its mode, and process.allow_execve",
    ("exec", errno.ENOEXEC): "not a program: a script needs a #! line",
    ("exec", errno.E2BIG): "the arguments and environment exceed the kernel's limit",
    ("fork", errno.EAGAIN): "the cage is at its process limit (process.max_pids), or its user at theirs (ulimit -u)",
    ("terminal", errno.ENOTTY): "descriptor 0 is not a terminal",
    ("overlay", errno.EINVAL): "copy-on-write takes a directory on a file system that overlayfs can use, without "
    "mounts below it; if something was mounted just now, trying again tells what; else storage = \"copy\" lays none",
    ("overlay", errno.EPERM): "this host forbids overlays in user namespaces: run `pysandbox check`",
    ("overlay", errno.ENODEV): "this host has no overlayfs: as root, modprobe overlay",
    ("landlock_rule", errno.ENOSYS): "a filter of system calls refuses openat2 here, as in another cage: in one, "
    "or a container like it, no cage can be made",
    ("init_fds", errno.EINVAL): "a cage begins with descriptors from 64 on: raise the limit on open files (ulimit -n)",
}  # fmt: skip
OF_ANY_STEP = {
    errno.EMFILE: "this program has as many files open as it may: close some, or raise the limit (ulimit -n)",
    errno.ENOSYS: "this kernel lacks a call that cages need, or a filter of system calls (a container's) refuses it",
    errno.ENFILE: "the whole host has as many files open as it may (fs.file-max)",
}


# A setting of the host or a security module refuses these; which one, is looked up when it has.
REFUSED_BY_HOST = frozenset(("clone", "setgroups", "uid_map", "gid_map", "hostname", "propagation", "root"))
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSPC)


def start_error(error: Any) -> StartError:
    """A StartError from a struct psb_error."""
    step = ffi.string(lib.psb_step_name(error.step)).decode()
    path = ffi.string(error.path).decode(errors="surrogateescape") or None
    return StartError(step, error.number, path, _hint(step, error.number, path))


def _hint(step: str, number: int, path: str | None = None) -> str | None:
    if (step, number) == ("chdir", errno.ENOENT) and path is not None and not os.path.lexists(path):
        return "there is no such directory: make it, or begin in another one (cwd=, or -w)"
    if step in REFUSED_BY_HOST and number in REFUSALS:
        from pysandbox.probe.restriction import find_restriction

        if (cause := find_restriction()) is not None:
            return cause
    return HINTS.get((step, number)) or OF_ANY_STEP.get(number)


class NativePlan:
    """A Plan as C structs, made once per plan by `launch.structs` and used for every cage of it.

    `struct` is the struct psb_plan, `keep` what it points to, `setup` the first message to cage-init. `scratch` tells
    which mounts and which rules of Landlock are those of the scratch directory, by their index.
    """

    def __init__(
        self, struct: Any, setup: bytes, keep: Sequence[Any], *, listens: bool = False, gives_upper: bool = False,
        scratch: tuple[Sequence[int], Sequence[int]] = ((), ()), trust: Sequence[int] = (),
        layers: tuple[Mapping[int, str], Mapping[int, str]] = ({}, {}),
    ) -> None:  # fmt: skip
        self.listens, self.gives_upper = listens, gives_upper
        self.keeps_apart = gives_upper or any(layers)
        self.struct, self.setup, self._keep, self._scratch = struct, setup, keep, scratch
        self._trust = trust  # the mounts whose source is TRUST
        self._layers = layers  # the mounts and the rules that lead to LAYERS, with the rest of their path

    def open(
        self, init_fd: int, hostname: str, scratch: str, cgroup_fd: int = -1, trust: str = "", layers: str = ""
    ) -> Opened:
        """Starts one cage: its init is set up and waits for orders. Raises StartError; nothing is left behind then.

        `scratch` is the host directory that stands for SCRATCH in the plan; "" where the plan has none. `trust` is
        the file that stands for TRUST, `layers` the directory that stands for LAYERS, likewise. The cage is born in the
        cgroup `cgroup_fd`; -1 leaves it in the caller's.
        """
        held = [ffi.new("char[]", hostname.encode()), ffi.new("char[]", os.fsencode(scratch))]
        plan = ffi.new("struct psb_plan *", self.struct[0])
        plan.hostname, plan.cgroup_fd = held[0], cgroup_fd
        if plan.unrooted:
            plan.idmap_fd = _swap()
        if scratch:
            held += self._place_scratch(plan, held[1], os.lstat(scratch))
        if trust:
            held += _place(plan, dict.fromkeys(self._trust, trust), "what the cage is to trust was removed")
        if layers:
            held += self._place_layers(plan, layers)
        opened, upper = ffi.new("struct psb_opened *", {"pid": -1, "pidfd": -1, "control": -1}), -1
        try:
            if lib.psb_open_cage(plan, init_fd, opened):
                raise start_error(opened.error)
            upper = _take_upper(opened.control) if self.gives_upper else -1
            _send_setup(opened.control, self.setup)
            listener = self._take_listener(opened)
            return Opened(opened, listener, plan.outside_uid if plan.unrooted else 0, upper)
        except BaseException:  # Ctrl-C and want of memory as well
            _undo(opened)
            if upper >= 0:
                os.close(upper)
            raise

    def _place_scratch(self, plan: Any, path: Any, found: os.stat_result) -> list[Any]:
        """Copies of the arrays in which the placeholder stands, with its path and inode in its place."""
        of_mounts, of_rules = self._scratch
        mounts = ffi.new("struct psb_mount[]", max(1, plan.n_mounts))
        ffi.memmove(mounts, plan.mounts, plan.n_mounts * ffi.sizeof("struct psb_mount"))
        for index in of_mounts:
            mounts[index].source, mounts[index].dev, mounts[index].ino = path, found.st_dev, found.st_ino
            mounts[index].flags |= lib.PSB_VERIFY
        rules = ffi.new("struct psb_rule[]", max(1, plan.landlock.n_rules))
        ffi.memmove(rules, plan.landlock.rules, plan.landlock.n_rules * ffi.sizeof("struct psb_rule"))
        for index in of_rules:
            rules[index].path, rules[index].dev, rules[index].ino = path, found.st_dev, found.st_ino
        plan.mounts, plan.landlock.rules = mounts, rules
        return [mounts, rules]

    def _place_layers(self, plan: Any, top: str) -> list[Any]:
        """Raises StartError."""
        lost = "where the cage's layers are to lie was removed"
        of_mounts, of_rules = ({at: top + rest for at, rest in table.items()} for table in self._layers)
        held = _place(plan, of_mounts, lost)
        rules = ffi.new("struct psb_rule[]", max(1, plan.landlock.n_rules))
        ffi.memmove(rules, plan.landlock.rules, plan.landlock.n_rules * ffi.sizeof("struct psb_rule"))
        for index, source in of_rules.items():
            found, path = _look_at(source, lost), ffi.new("char[]", os.fsencode(source))
            rules[index].path, rules[index].dev, rules[index].ino = path, found.st_dev, found.st_ino
            held.append(path)
        plan.landlock.rules = rules
        return [*held, rules]

    def _take_listener(self, opened: Any) -> int:
        """The listener of the cage's filter, -1 where it has none. Raises StartError."""
        if not self.listens:
            return -1
        listener = int(lib.psb_take_listener(opened.control, opened.pidfd))
        if listener < 0:
            raise StartError("listener", -listener, None, HINTS.get(("listener", -listener)))
        return listener


class Opened:
    """A waiting cage-init: its pid and pidfd in the host, and the control socket whose closing ends the cage.

    Whoever takes them over says `given`; otherwise the cage ends with this object, or with `undo`.
    """

    def __init__(self, opened: Any, listener: int = -1, user: int = 0, upper: int = -1) -> None:
        self._held = opened
        self.pid: int = opened.pid
        self.pidfd: int = opened.pidfd
        self.control: int = opened.control
        self.user = user  # whom it is outside, where root has started it as another; else 0
        self.listener = listener  # of its filter, -1 when nothing is decided at run time
        self.upper = upper  # the directory of the layers of its copy-on-write trees, -1 where it has none

    def release(self) -> None:
        self._held = None

    def take_upper(self) -> int:
        """From now on the caller's to close; -1 where it has none."""
        upper, self.upper = self.upper, -1
        return upper

    def __del__(self) -> None:
        if getattr(self, "_held", None) is not None:
            self.undo()

    def undo(self) -> None:
        """Ends the cage, unless it was given to somebody."""
        held, self._held = getattr(self, "_held", None), None
        if held is not None:
            _undo(held)
            for fd in (self.listener, self.take_upper()):
                if fd >= 0:
                    os.close(fd)


def _place(plan: Any, sources: Mapping[int, str], lost: str) -> list[Any]:
    """A copy of the mounts in which these have a file or a directory of the host as their source, which must still be
    what it is now. Raises StartError."""
    held = [ffi.new("struct psb_mount[]", max(1, plan.n_mounts))]
    mounts = held[0]
    ffi.memmove(mounts, plan.mounts, plan.n_mounts * ffi.sizeof("struct psb_mount"))
    for index, source in sources.items():
        found, path = _look_at(source, lost), ffi.new("char[]", os.fsencode(source))
        mounts[index].source, mounts[index].dev, mounts[index].ino = path, found.st_dev, found.st_ino
        mounts[index].flags |= lib.PSB_VERIFY
        held.append(path)
    plan.mounts = mounts
    return held


def _look_at(source: str, lost: str) -> os.stat_result:
    try:
        return os.lstat(source)
    except OSError as error:
        raise StartError("source", error.errno or 0, source, lost) from None


def _swap() -> int:
    from pysandbox.probe.kernel import swap

    try:
        return swap()
    except OSError as error:
        raise StartError("idmap", error.errno or 0, None, HINTS.get(("idmap", errno.EPERM))) from None


def _send_setup(control: int, setup: bytes) -> None:
    try:
        send(control, setup, ())
    except OSError as error:  # killed meanwhile, by whoever is short of memory
        raise StartError("control", error.errno or 0, None, "cage-init was killed while it started") from None


def _take_upper(control: int) -> int:
    """What the setup has sent of a cage with copy-on-write trees. Raises StartError."""
    upper = int(lib.psb_take_upper(control))
    if upper < 0:
        raise StartError("upper", -upper, None)
    return upper


def _undo(opened: Any) -> None:
    """Ends what `psb_open_cage` has started, if it has; once."""
    control, pidfd, opened.control = opened.control, opened.pidfd, -1
    if control < 0:
        return
    os.close(control)
    take_report(pidfd)
    os.close(pidfd)


def take_report(pidfd: int) -> None:
    """Waits for the end of a child, and takes the report of it. One that fails is tried again: what is let go of after
    the end must not wait for it."""
    for _ in range(TRIES):
        try:
            os.waitid(os.P_PIDFD, pidfd, os.WEXITED | WALL)
            return
        except ChildProcessError:
            return  # the host waited for any child, or ignores SIGCHLD
        except OSError:
            continue


def send(control: int, message: bytes, fds: Sequence[int]) -> None:
    """One message to cage-init. Raises BrokenPipeError and other OSErrors when it is gone."""
    result = -errno.EINTR
    while result == -errno.EINTR:
        result = lib.psb_send(control, message, len(message), fds, len(fds))
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def abi() -> bytes:
    """A digest of what the extension and cage-init must agree on."""
    return bytes(ffi.string(lib.psb_abi()))


def file_system(fd: int) -> int:
    """The magic number of the file system behind a descriptor (statfs(2))."""
    return int(lib.psb_file_system(fd))


def cover(init_pidfd: int, held: int, *, user: int, directory: bool, path: str) -> None:
    """Mounts an unreadable file or directory over what `held` (O_PATH) is, in the cage of this cage-init, which is
    `user` outside (0: the host's own). Raises OSError, which names `path`."""
    result = lib.psb_cover(init_pidfd, held, directory, user)
    if result < 0:
        raise OSError(-result, f"cannot be closed: {os.strerror(-result)}", path)


def open_null() -> int:
    """The null device; its owner cannot change the node by the descriptor. Negative where that cannot be had."""
    return int(lib.psb_open_null())


def take_in(source: int, sink: int, stop: int, null: int) -> None:
    """Passes on what is read of `sink`, until one of the two ends or `stop` is readable (csrc/host/relay/intake.h)."""
    lib.psb_take_in(source, sink, stop, null)


def limit(pid: int, resource: int, value: int | None = None) -> int:
    """The hard limit of a caged process (RLIMIT_*); with `value` soft and hard are that from then on. Infinity is -1.
    Raises OSError."""
    hard = ffi.new("uint64_t *")
    result = lib.psb_limit(pid, resource, value is not None, (value or 0) & INFINITY, hard)
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return -1 if hard[0] == INFINITY else int(hard[0])


def open_inside(
    root_fd: int, path: str, flags: int, mode: int = 0, *, resolve: int, powerless: bool = False, user: int = 0
) -> int:
    """openat2(2) below `root_fd`; `powerless`: with no capability in effect; `user`: likewise, and as that user of a
    cage's (`CageInit.user`), where it is not 0. Raises OSError with the path."""
    if powerless or user:
        fd = lib.psb_open_powerless(root_fd, os.fsencode(path), flags, mode, resolve, user)
    else:
        fd = lib.psb_open_inside(root_fd, os.fsencode(path), flags, mode, resolve)
    if fd < 0:
        raise OSError(-fd, os.strerror(-fd), path)
    return int(fd)


MKDIR, UNLINK, RMDIR, RENAME = (
    lib.PSB_NAME_MKDIR, lib.PSB_NAME_UNLINK, lib.PSB_NAME_RMDIR, lib.PSB_NAME_RENAME
)  # fmt: skip


def change_name(
    change: int, fd: int, name: str, mode: int = 0, other_fd: int = -1, other: str = "", *, user: int = 0
) -> None:
    """Makes, removes or renames one name of an open directory, which is not followed; with no capability in effect, as
    `open_inside` with `user`. Raises OSError with the name."""
    failed = lib.psb_change_name(change, fd, os.fsencode(name), mode, other_fd, os.fsencode(other), user)
    if failed < 0:
        raise OSError(-failed, os.strerror(-failed), name)


NOREPLACE, EXCHANGE = 1, 2  # RENAME_*, renameat2(2)


def rename_name(fd: int, name: str, other_fd: int, other: str, flags: int) -> None:
    """renameat2(2) between two open directories; no name is followed. Raises OSError with both names."""
    failed = lib.psb_rename_name(fd, os.fsencode(name), other_fd, os.fsencode(other), flags)
    if failed < 0:
        raise OSError(-failed, os.strerror(-failed), name, None, other)


def sync_file_system(fd: int) -> None:
    """syncfs(2): all that was written to the file system behind a descriptor is on its disk. Raises OSError."""
    failed = lib.psb_sync_file_system(fd)
    if failed < 0:
        raise OSError(-failed, os.strerror(-failed))


def take_short_turns(nanoseconds: int) -> None:
    """The calling thread is served sooner on a busy host, where the kernel (6.12) and what the host runs under allow
    it; a thread that is refused goes on as it was."""
    lib.psb_take_short_turns(nanoseconds)


def signal_below(proc: int, number: int) -> None:
    """A signal to every process of the PID namespace that this open /proc shows but its first. Raises OSError."""
    failed = lib.psb_signal_below(proc, number)
    if failed < 0:
        raise OSError(-failed, os.strerror(-failed), "/proc of the cage")
