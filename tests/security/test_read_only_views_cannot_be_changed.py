"""Claim: in a read-only view nothing changes: not content, names, modes, owners, times or attributes.

Landlock does not see chmod, chown, utimes and setxattr: test_landlock_mode_names_its_gaps has these.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .conftest import Ground
from .harness import Expected, caged, policy, program, uncaged

pytestmark = pytest.mark.guest

SEEN_BY_LANDLOCK = """
    file, box = TREE + "/file", TREE + "/box"
    attempt("write", overwrite, file)
    attempt("append", os.open, file, os.O_WRONLY | os.O_APPEND)
    attempt("open truncating", os.open, file, os.O_RDONLY | os.O_TRUNC)
    attempt("truncate", os.truncate, file, 0)
    attempt("create", os.open, TREE + "/new", os.O_CREAT | os.O_WRONLY)
    attempt("unnamed file", os.open, TREE, os.O_TMPFILE | os.O_WRONLY)
    attempt("unlink", os.unlink, file)
    attempt("rmdir", os.rmdir, box)
    attempt("mkdir", os.mkdir, TREE + "/new")
    attempt("symlink", os.symlink, "x", TREE + "/new")
    attempt("mkfifo", os.mkfifo, TREE + "/new")
    attempt("link", os.link, file, TREE + "/new")
    attempt("rename", os.rename, file, TREE + "/new")
    attempt("write by its descriptor", overwrite, f"/proc/self/fd/{os.open(file, os.O_RDONLY)}")
"""

METADATA = """
    file = TREE + "/file"
    fd = os.open(file, os.O_RDONLY)
    attempt("chmod", os.chmod, file, 0o777)
    attempt("fchmod", os.fchmod, fd, 0o777)
    attempt("chown", os.chown, file, os.getuid(), os.getgid())
    attempt("fchown", os.fchown, fd, os.getuid(), os.getgid())
    attempt("utime", os.utime, file, (0, 0))
    attempt("futime", os.utime, fd, (0, 0))
    attempt("setxattr", os.setxattr, file, "user.mine", b"x")
    attempt("fsetxattr", os.setxattr, fd, "user.mine", b"x")
    attempt("removexattr", os.removexattr, file, "user.there")
    attempt("chmod by fchmodat2", call, "fchmodat2", -100, file, 0o777, 0)
"""

NAMES = ("write", "append", "open truncating", "truncate", "create", "unnamed file", "unlink", "rmdir", "mkdir",
         "symlink", "mkfifo", "link", "rename", "write by its descriptor")  # fmt: skip
META = ("chmod", "fchmod", "chown", "fchown", "utime", "futime", "setxattr", "fsetxattr", "removexattr")
REFUSED: dict[str, Expected] = {
    "full": {**dict.fromkeys(NAMES, "EROFS"), "truncate": ("EROFS", "EPERM")},  # by the filter before Linux 6.2
    "landlock": {**dict.fromkeys(NAMES, "EACCES"), "link": ("EACCES", "EXDEV"), "rename": ("EACCES", "EXDEV")},
}


def state(tree: Path) -> list[tuple[str, int, int, int, float, bytes]]:
    found = [tree, *sorted(tree.rglob("*"))]
    return [
        (str(each), each.stat().st_mode, each.stat().st_uid, each.stat().st_gid, each.stat().st_mtime,
         each.read_bytes() if each.is_file() else b"")
        for each in found
    ]  # fmt: skip


def plant(tree: Path) -> None:
    (tree / "file").write_text("as it was")
    (tree / "box").mkdir()
    os.setxattr(tree / "file", "user.there", b"1")


def test_nothing_is_written_made_or_removed(ground: Ground, isolation: str) -> None:
    plant(ground.inside)
    before = state(ground.inside)

    report = caged(program(SEEN_BY_LANDLOCK, TREE=str(ground.inside)), policy(isolation, allow=[str(ground.inside)]))

    assert report.differs(REFUSED[isolation]) == {}
    assert state(ground.inside) == before


def test_no_metadata_changes(ground: Ground) -> None:
    plant(ground.inside)
    before = state(ground.inside)

    report = caged(program(METADATA, TREE=str(ground.inside)), policy(allow=[str(ground.inside)]))

    # fchmodat2 came with Linux 6.6
    assert report.differs({**dict.fromkeys(META, "EROFS"), "chmod by fchmodat2": ("EROFS", "ENOSYS")}) == {}
    assert state(ground.inside) == before
    assert os.listxattr(ground.inside / "file") == ["user.there"]


def test_a_writable_grant_can_be_changed(ground: Ground, isolation: str) -> None:
    plant(ground.inside)

    report = caged(program(METADATA, TREE=str(ground.inside)), policy(isolation, allow_write=[str(ground.inside)]))

    assert report["chmod"].errno is None and report["utime"].errno is None
    assert (ground.inside / "file").stat().st_mode & 0o777 == 0o777


def test_uncaged_all_of_it_can_be_done(ground: Ground) -> None:
    plant(ground.inside)

    metadata = uncaged(program(METADATA, TREE=str(ground.inside)))
    (ground.inside / "file").chmod(0o600)
    write = uncaged(program('attempt("write", overwrite, TREE + "/file")', TREE=str(ground.inside)))

    assert metadata.differs({**dict.fromkeys(META), "chmod by fchmodat2": (None, "ENOSYS")}) == {}
    assert write["write"].errno is None
