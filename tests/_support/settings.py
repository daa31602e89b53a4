"""Places in which programs run that are not one's own: CI jobs and containers, each played by what it forbids.

`python -m _support.settings NAME COMMAND...` becomes the command there. What a container does with a system call filter
is done with one; what it does with mounts and ids, in a user namespace, where it needs no privilege.
"""

from __future__ import annotations

import errno
import os
import sys

from kernel.inject import ALLOW_ALL, EQUAL, ERRNO, LOAD, NUMBERS, RETURN, install, instruction

JSET = 0x45  # BPF_JMP|JSET|K
NEW_NAMESPACES = 0x7E020080  # CLONE_NEW* of clone(2), and CLONE_NEWTIME
ARGUMENT = 16  # offset of the first in struct seccomp_data
# What the default profiles of Docker and Podman refuse to a container without capabilities, as far as it matters here.
OF_DOCKER = (
    "unshare", "setns", "mount", "umount2", "pivot_root", "mount_setattr", "move_mount", "open_tree", "fsopen",
    "fsmount",
    "keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd", "name_to_handle_at",
)  # fmt: skip
LANDLOCK = ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")


def refused(number: int, *calls: str) -> bytes:
    """A filter, without its end, that answers these calls with an errno."""
    code = b""
    for call in calls:
        code += (
            instruction(LOAD, 0) + instruction(EQUAL, NUMBERS[call], otherwise=1) + instruction(RETURN, ERRNO | number)
        )
    return code


def clone_with(flags: int, number: int) -> bytes:
    masked = instruction(LOAD, ARGUMENT) + instruction(JSET, flags, otherwise=1) + instruction(RETURN, ERRNO | number)
    return instruction(LOAD, 0) + instruction(EQUAL, NUMBERS["clone"], otherwise=3) + masked


FILTERS = {
    "docker": refused(errno.EPERM, *OF_DOCKER)
    + refused(errno.ENOSYS, "clone3")
    + clone_with(NEW_NAMESPACES, errno.EPERM),
    "no landlock": refused(errno.ENOSYS, *LANDLOCK),
    "no seccomp": refused(errno.ENOSYS, "seccomp"),
}
# Scripts of sh as root of a user namespace of its own, with a /proc of its own; "$@" is the command.
SPACES = {
    "masked proc": "mount --bind /dev/null /proc/meminfo && exec \"$@\"",
    "no user namespaces": "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"",
    "cap-drop ALL": "exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"",
    "rootless": "exec \"$@\"",
}  # fmt: skip
SETTINGS = ("none", *FILTERS, *SPACES)


def command(setting: str, *argv: str) -> list[str]:
    """What runs these words in that setting; PYTHONPATH must lead to the tests."""
    if setting in SPACES:
        space = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"]
        return [*space, "sh", "-c", f"mount -t proc proc /proc && {SPACES[setting]}", "sh", *argv]
    return [sys.executable, "-P", "-m", "_support.settings", setting, *argv]


if __name__ == "__main__":
    if sys.argv[1] in FILTERS:
        install(FILTERS[sys.argv[1]] + ALLOW_ALL)
    os.execvp(sys.argv[2], sys.argv[2:])
