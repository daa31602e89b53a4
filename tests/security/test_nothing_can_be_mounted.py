"""Claim: no mount is made, moved, changed or removed and no root is changed from a cage, by the old calls or the
new ones.
"""

from __future__ import annotations

import pytest

from .conftest import Ground
from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.guest

ATTACK = """
    A, B = TREE + "/a", TREE + "/b"
    for each in (A, B):
        os.mkdir(each)
    attempt("mount tmpfs", call, "mount", "none", A, "tmpfs", 0, 0)
    attempt("umount2", call, "umount2", A, 2)
    attempt("mount proc", call, "mount", "proc", A, "proc", 0, 0)
    attempt("mount bind", call, "mount", TREE, B, 0, 4096, 0)
    attempt("mount remount writable", call, "mount", 0, "/usr", 0, 4096 | 32, 0)
    attempt("mount make private", call, "mount", 0, "/", 0, 1 << 18, 0)
    attempt("mount move", call, "mount", A, B, 0, 8192, 0)
    attempt("umount2 of the grant", call, "umount2", TREE, 2)
    attempt("pivot_root", call, "pivot_root", TREE, TREE)
    attempt("fsopen", call, "fsopen", "tmpfs", 0)
    attempt("fspick", call, "fspick", -100, TREE, 0)
    attempt("fsconfig", call, "fsconfig", 0, 6, 0, 0, 0)
    attempt("fsmount", call, "fsmount", 0, 0, 0)
    attempt("open_tree", call, "open_tree", -100, TREE, 1)
    attempt("open_tree_attr", call, "open_tree_attr", -100, TREE, 1, (ctypes.c_uint64 * 4)(), 32)
    attempt("move_mount", call, "move_mount", -100, A, -100, B, 0)
    attempt("mount_setattr", call, "mount_setattr", -100, B, 0, (ctypes.c_uint64 * 4)(0, 1, 0, 0), 32)
    attempt("swapon", call, "swapon", TREE + "/plain", 0)
    attempt("quotactl", call, "quotactl", 0x80000100, 0, 0, 0)
    attempt("chroot", call, "chroot", TREE)
"""

IN_A_NAMESPACE = 'call("unshare", 0x10020000)'

MOUNTS = (
    "mount tmpfs", "mount proc", "mount bind", "mount remount writable", "mount make private", "mount move", "umount2",
    "umount2 of the grant", "pivot_root", "chroot", "fsopen", "fspick", "fsconfig", "fsmount", "open_tree",
    "move_mount", "mount_setattr", "open_tree_attr", "swapon", "quotactl",
)  # fmt: skip


def test_every_mount_call_is_refused(ground: Ground, isolation: str) -> None:
    report = caged(program(ATTACK, TREE=str(ground.inside)), policy(isolation, allow_write=[str(ground.inside)]))

    assert report.differs(dict.fromkeys(MOUNTS, "EPERM")) == {}


def test_being_root_inside_helps_nothing(ground: Ground) -> None:
    report = caged(program(ATTACK, TREE=str(ground.inside)), policy(run_as="root", allow_write=[str(ground.inside)]))

    assert report.differs(dict.fromkeys(MOUNTS, "EPERM")) == {}


def test_the_calls_work_in_a_user_namespace_of_an_uncaged_process(ground: Ground) -> None:
    report = uncaged(program(IN_A_NAMESPACE, ATTACK, TREE=str(ground.inside)))

    worked = (
        "mount tmpfs",
        "mount bind",
        "mount make private",
        "umount2",
        "fsopen",
        "open_tree",
        "mount_setattr",
        "chroot",
    )
    assert {name: report[name].errno for name in worked} == dict.fromkeys(worked)
