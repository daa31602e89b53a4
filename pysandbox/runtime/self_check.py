"""Whether this installation is whole, asked before anything is started (LIFE-05).

Making a Runtime looks at the programs and at /proc, three calls of the kernel. `Runtime.self_check()` looks at
everything that a later step would stumble over, and starts nothing. Whether the *host* can make cages is another
question, and `pysandbox check` answers it.
"""

from __future__ import annotations

import errno
import os

from pysandbox.errors import StartError, UnsupportedError
from pysandbox.launch import native
from pysandbox.policy.recipe import SHIPPED, shipped_file
from pysandbox.probe import kernel

MARK = b"pysandbox abi "  # csrc/init/main.c
REINSTALL = "this installation of pysandbox is damaged: pip install --force-reinstall pysandbox"
OTHER_BUILD = f"it was built from other sources than the extension; {REINSTALL}"


def check_programs() -> None:
    """Raises StartError for the program that is missing or cannot be executed."""
    for path in (native.INIT_PATH, native.UNCAGED_INIT_PATH):
        if not os.access(path, os.X_OK):
            number = errno.EACCES if os.path.exists(path) else errno.ENOENT
            raise StartError("init_exec", number, path, REINSTALL)


def check_proc() -> None:
    """Raises UnsupportedError where its numbers are not those of our processes: what is looked up there by a number, or
    ended by it, would be another's."""
    if kernel.has_foreign_proc():
        from pysandbox.probe.restriction import FOREIGN_PROC, MOUNT_PROC

        raise UnsupportedError(FOREIGN_PROC, feature="proc", fix=MOUNT_PROC)


def check_installation() -> None:
    """Raises StartError for the first file that is missing, unreadable or of another build."""
    check_programs()
    for name in SHIPPED:
        if not os.access(shipped_file(name), os.R_OK):
            raise StartError("none", errno.ENOENT, shipped_file(name), REINSTALL)
    for path in (native.INIT_PATH, native.UNCAGED_INIT_PATH):
        with open(path, "rb") as file:
            if MARK + native.abi() + b"\0" not in file.read():
                raise StartError("init_exec", errno.ENOEXEC, path, OTHER_BUILD)
