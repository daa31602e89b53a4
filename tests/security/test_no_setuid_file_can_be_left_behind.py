"""Claim: a cage cannot leave a set-user-id or set-group-id file on a path the host sees, by any call that takes a
mode.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from .conftest import Ground
from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.guest

ATTACK = """
    os.umask(0)
    SUID, SGID = 0o4755, 0o2755
    file = TREE + "/file"
    os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o755))
    fd = os.open(file, os.O_RDONLY)
    made = iter(f"{TREE}/made{number}" for number in range(100))

    def reset(action, *arguments):
        try:
            return action(*arguments)
        finally:
            attempt_mode.append(os.stat(file).st_mode & 0o6000)
            os.chmod(file, 0o755)

    attempt_mode = []
    for label, mode in (("suid", SUID), ("sgid", SGID), ("both", 0o6777), ("suid, upper bits", SUID | 0xBEEF << 32),
                        ("suid, format bits", SUID | 0o100000), ("suid, bits 16 to 31", SUID | 0x7FFF0000)):
        if "chmod" in NR:
            attempt(f"chmod {label}", reset, call, "chmod", file, mode)
            attempt(f"creat {label}", call, "creat", next(made), mode)
            attempt(f"open {label}", call, "open", next(made), os.O_CREAT | os.O_WRONLY, mode)
            attempt(f"mknod {label}", call, "mknod", next(made), mode | 0o100000, 0)
        attempt(f"fchmod {label}", reset, call, "fchmod", fd, mode)
        attempt(f"fchmodat {label}", reset, call, "fchmodat", -100, file, mode)
        attempt(f"fchmodat2 {label}", reset, call, "fchmodat2", -100, file, mode, 0)
        attempt(f"openat {label}", call, "openat", -100, next(made), os.O_CREAT | os.O_WRONLY, mode)
        attempt(f"openat tmpfile {label}", call, "openat", -100, TREE, os.O_TMPFILE | os.O_WRONLY, mode)
        attempt(f"mknodat {label}", call, "mknodat", -100, next(made), mode | 0o100000, 0)
    how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_WRONLY, SUID, 0)
    attempt("openat2", call, "openat2", -100, next(made), how, 24)
    say("modes", attempt_mode)
"""

TAKE = """
    attempt("link", os.link, "/usr/bin/su", TREE + "/linked")
    attempt("rename", os.rename, "/usr/bin/su", TREE + "/renamed")
    def copy():
        import shutil
        shutil.copy("/usr/bin/su", TREE + "/copied")
    attempt("copy with its mode", copy)
"""

PLAIN = """
    attempt("make executable", os.chmod, TREE + "/plain", 0o755)
    attempt("sticky", os.chmod, TREE + "/plain", 0o1755)
    attempt("create", os.open, TREE + "/new", os.O_CREAT | os.O_WRONLY, 0o755)
    attempt("open without creating", call, "openat", -100, TREE + "/plain", os.O_RDONLY, 0o4755)
    attempt("mkdir", os.mkdir, TREE + "/directory", 0o755)
"""


def with_special_mode(tree: Path) -> list[str]:
    return [each.name for each in tree.rglob("*") if each.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID)]


def test_no_call_leaves_one(ground: Ground, isolation: str) -> None:
    report = caged(program(ATTACK, TREE=str(ground.inside)), policy(isolation, allow_write=[str(ground.inside)]))

    refused = dict.fromkeys(report.attempts, "EPERM")
    assert (
        report.differs({**refused, "openat2": "ENOSYS", "modes": None}) == {}
    )  # openat2: its mode is behind a pointer
    assert len(report.attempts) > 30 and set(report["modes"].value) == {0}
    assert with_special_mode(ground.inside) == []


def test_no_existing_one_is_brought_in(ground: Ground) -> None:
    report = caged(program(TAKE, TREE=str(ground.inside)), policy(allow_write=[str(ground.inside)]))

    crossing = ("EXDEV", "EROFS", "EPERM")
    assert report.differs({"link": crossing, "rename": crossing, "copy with its mode": "EPERM"}) == {}
    assert with_special_mode(ground.inside) == []


def test_uncaged_they_are_left(ground: Ground) -> None:
    report = uncaged(program(ATTACK, TREE=str(ground.inside)))

    assert report["chmod suid"].errno is None and report["openat2"].errno is None
    assert report["modes"].value[0] == stat.S_ISUID
    assert len(with_special_mode(ground.inside)) > 10


def test_ordinary_modes_still_work(ground: Ground, isolation: str) -> None:
    report = caged(program(PLAIN, TREE=str(ground.inside)), policy(isolation, allow_write=[str(ground.inside)]))

    assert (
        report.differs(dict.fromkeys(("make executable", "sticky", "create", "open without creating", "mkdir"))) == {}
    )
    assert os.access(ground.inside / "plain", os.X_OK)
