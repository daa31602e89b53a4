"""What the running kernel answers: the extension's probes, and the release.

The one file of `probe` that imports the extension, and only when asked. It decides nothing: a probe gives an errno
(0: it works), `features` says what that means. The names are those of csrc/host/probe/probe.h without `PSB_PROBE_`.
"""

from __future__ import annotations

import os
from errno import EAGAIN, EINVAL, EMFILE, ENFILE, ENOMEM, ENOSYS, EOPNOTSUPP, EPERM

from pysandbox.descriptors.kept_descriptor import KeptDescriptor
from pysandbox.errors import StartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

LACKING = {
    EAGAIN: "this user can have no further process: end some, or raise the limit (ulimit -u)",
    ENOMEM: "the host is out of memory: end something, and try again",
    EMFILE: "this program can open no further file: close some, or raise the limit (ulimit -n)",
    ENFILE: "the host can open no further file: end something, or raise fs.file-max",
}
SHORTAGES = (EMFILE, ENFILE, ENOMEM)  # that a look may meet
INITIAL_USER_NAMESPACE = 0xEFFFFFFD  # its inode, always (PROC_USER_INIT_INO)


def probe(name: str) -> int:
    """0 when the feature works for this caller here and now, else the errno of the call that failed."""
    from pysandbox._native import lib

    return int(lib.psb_probe(getattr(lib, f"PSB_PROBE_{name}")))


def tell_shortage(error: OSError, path: str) -> None:
    """Raises StartError where the host is short of what a look takes: what was not looked into is not empty. A cage can
    keep so many files open that the whole machine can open no further one (ENFILE), and what nobody saw at that moment
    would be its to write."""
    if error.errno in SHORTAGES:
        raise StartError("source", error.errno, path, hint=LACKING[error.errno]) from None


def works(name: str) -> bool:
    """Whether a probe succeeds. What the caller lacks at the moment says nothing about the kernel, and what is told of
    it would be believed as long as this program runs: StartError."""
    number = probe(name)
    if number in LACKING:
        raise StartError("clone", number, hint=LACKING[number])
    return number == 0


def redirect() -> int:
    """0 when nf_tables takes the redirect of a cage with doors, in a namespace of this caller's, else the errno."""
    from pysandbox._native import lib
    from pysandbox.netfilter.netlink import REDIRECT

    return int(lib.psb_probe_redirect(REDIRECT, len(REDIRECT)))


def file_system(fd: int) -> int:
    """The magic number of the file system behind a descriptor (statfs(2))."""
    from pysandbox._native import lib

    return int(lib.psb_file_system(fd))


def landlock_abi() -> int:
    """The Landlock ABI, 0 when there is none."""
    from pysandbox._native import lib

    return max(0, int(lib.psb_landlock_abi()))


def landlock_errata() -> int | None:
    """The bit mask of fixed Landlock errata; None on a kernel that cannot tell."""
    from pysandbox._native import lib

    mask = int(lib.psb_landlock_errata())
    return mask if mask >= 0 else None


def is_openat2_filtered() -> bool:
    """Whether a kernel that has openat2(2) says that it has not."""
    from pysandbox._native import lib

    fd = int(lib.psb_open_inside(-100, b"/", os.O_PATH, 0, 0))  # AT_FDCWD
    if fd >= 0:
        os.close(fd)
    return fd == -ENOSYS and version() >= (5, 6)


def version(release: str | None = None) -> tuple[int, int]:
    """(major, minor) of a kernel release, such as 6.18.44-cloud or 6.19-rc1; of this kernel when None."""
    major, _, rest = (release or os.uname().release).partition(".")
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return int(major), int(rest[:digits])


# ---- a caller who is root, and starts cages that are not --------------------------------------------------------

# Root's id and one that is nobody's (PSB_OUTSIDE, csrc/abi.h) are swapped on each mount of such a cage
# (csrc/host/spawn/idmap.c). The kernel takes the swap from a user namespace, made once and held open as long as the
# process (`_swap`).
CANNOT_MAP = (EINVAL, EPERM, EOPNOTSUPP, ENOSYS)  # what a file system, or a filter of the host's own, says to it


def has_foreign_proc() -> bool:
    """Whether /proc is that of another PID namespace: each number in it is of another process than here."""
    try:
        return os.readlink("/proc/self") != str(os.getpid())
    except OSError:  # there is none
        return False


def is_true_root() -> bool:
    """Whether this is root in the user namespace that the host began with: root of a container that has its own is
    nobody outside of that already."""
    try:
        return os.geteuid() == 0 and os.stat("/proc/self/ns/user").st_ino == INITIAL_USER_NAMESPACE
    except OSError:
        return os.geteuid() == 0


def id_swap() -> int:
    """0 when a true root can start cages that are not root; else the errno. What of a policy can be mapped is
    `unmapped`'s to say."""
    from pysandbox._native import lib

    result = int(lib.psb_has_root_s_powers())
    if result < 0:
        return -result
    try:
        swap()
    except OSError as error:
        return error.errno or EPERM
    return 0


def _make_swap() -> int:
    from pysandbox._native import lib

    made = int(lib.psb_make_idmap())
    if made < 0:
        raise OSError(-made, os.strerror(-made), "a user namespace that swaps root's id")
    return made


_swap = KeptDescriptor(_make_swap)


def swap() -> int:
    """The user namespace that swaps the ids, for mount_setattr(2); not the caller's to close. Raises OSError."""
    return _swap.fileno()


def unmapped(trees: Iterable[str]) -> tuple[str, ...]:
    """The real paths that cannot be mapped, with all that is mounted below them: tried, and not read off a list
    of file systems. Raises StartError where that cannot be tried: a cage that kept root's id because somebody moved a
    directory away for a moment would be his to have."""
    from pysandbox._native import lib

    found = []
    for tree in trees:
        number = -int(lib.psb_try_idmap(os.fsencode(tree), swap()))
        if number > 0 and number not in CANNOT_MAP:
            raise StartError("idmap", number, tree, "it was changed, or the host lacks room, while it was looked at")
        if number > 0:
            found.append(tree)
    return tuple(found)
