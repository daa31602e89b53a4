"""The kernel's numbers for the names a Plan uses (UAPI headers: sched.h, mount.h, landlock.h). Tables only."""

from __future__ import annotations

CLONE_NEW = {
    "TIME": 0x00000080,
    "NS": 0x00020000,
    "CGROUP": 0x02000000,
    "UTS": 0x04000000,
    "IPC": 0x08000000,
    "USER": 0x10000000,
    "PID": 0x20000000,
    "NET": 0x40000000,
}

MOUNT_ATTR = {"RDONLY": 0x1, "NOSUID": 0x2, "NODEV": 0x4, "NOEXEC": 0x8}

# landlock.h numbers these in the order they were added; the index is the bit.
LANDLOCK_ACCESS_FS = {
    name: 1 << bit
    for bit, name in enumerate(
        (
            "EXECUTE", "WRITE_FILE", "READ_FILE", "READ_DIR", "REMOVE_DIR", "REMOVE_FILE", "MAKE_CHAR", "MAKE_DIR",
            "MAKE_REG", "MAKE_SOCK", "MAKE_FIFO", "MAKE_BLOCK", "MAKE_SYM", "REFER", "TRUNCATE", "IOCTL_DEV",
        )
    )
}  # fmt: skip
LANDLOCK_ACCESS_NET = {"BIND_TCP": 1, "CONNECT_TCP": 2}
LANDLOCK_SCOPE = {"ABSTRACT_UNIX_SOCKET": 1, "SIGNAL": 2}

RLIM_INFINITY = 2**64 - 1


def rlimit(name: str) -> int:
    """The number of RLIMIT_`name`; they differ between architectures."""
    import resource

    return int(getattr(resource, f"RLIMIT_{name}"))


def mask(table: dict[str, int], names: tuple[str, ...]) -> int:
    """The bits of `names`; KeyError for a name that is not in the table."""
    bits = 0
    for name in names:
        bits |= table[name]
    return bits
