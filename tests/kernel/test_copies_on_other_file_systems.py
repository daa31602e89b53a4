"""Btrfs and XFS share the blocks of a file with its copy (FICLONE), and take layers; a FUSE daemon's directory is one
with a clock of its own that exchanges no names: a cage works on it, and no commit writes to it.

The file systems are real, in images of a few gibibytes of which nothing is written but what a test writes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.overlays import look
from _support.snapshots import copied
from pysandbox import Cage, Policy
from pysandbox.errors import CommitConflict, CommitError, StartError
from pysandbox.live.copies import Copy
from pysandbox.testing import drain

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
MIB = 1 << 20
PATIENCE = 10.0  # seconds
DATA = 32 * MIB
FS_IOC_FIEMAP, SHARED, LAST = 0xC020660B, 0x2000, 1
MAKE = {"btrfs": ("mkfs.btrfs", "-q", "-f"), "xfs": ("mkfs.xfs", "-q", "-f")}
OTHERS = {
    "ext4": ("mkfs.ext4", "-q", "-I", "128"),  # no room in an inode for more than seconds
}


@pytest.fixture(params=MAKE)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on such a file system, with the state of this user."""
    mounted = mount(request.param, MAKE[request.param], tmp_path, 2 << 30)
    monkeypatch.setenv("XDG_STATE_HOME", str(mounted / "state"))
    yield mounted
    unmount(mounted)


def mount(kind: str, make: tuple[str, ...], where: Path, size: int) -> Path:
    image, mounted = where / "image", where / "mounted"
    with open(image, "wb") as file:
        file.truncate(size)
    subprocess.run([*make, image], check=True, capture_output=True)
    mounted.mkdir()
    subprocess.run(["mount", "-t", kind, "-o", "loop", image, mounted], check=True)
    return mounted


def unmount(place: Path) -> None:
    """Cages that wait ahead hold what they show; the kernel takes their namespaces apart a moment later."""
    drain()
    until = time.monotonic() + PATIENCE
    while subprocess.run(["umount", place], check=False, capture_output=True).returncode:
        assert time.monotonic() < until, f"{place} is held by somebody"
        time.sleep(0.05)


@pytest.fixture
def tree(place: Path) -> Path:
    return filled(place / "tree")


def filled(tree: Path) -> Path:
    (tree / "folder").mkdir(parents=True)
    (tree / "large").write_bytes(os.urandom(DATA))
    (tree / "folder" / "small").write_bytes(os.urandom(12345))
    os.sync()
    return tree


def used(path: Path) -> int:
    os.sync()
    found = os.statvfs(path)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def is_shared(path: Path) -> bool:
    """Whether all extents of a file are another one's, too (Documentation/filesystems/fiemap.rst)."""
    head, extent, most = struct.Struct("=QQLLLL"), struct.Struct("=QQQQQLLLL"), 256
    with open(path, "rb") as file:
        asked = bytearray(head.pack(0, (1 << 64) - 1, LAST, 0, most, 0) + bytes(extent.size * most))
        fcntl.ioctl(file, FS_IOC_FIEMAP, asked)
    count = head.unpack_from(asked)[3]
    flags = [extent.unpack_from(asked, head.size + extent.size * number)[5] for number in range(count)]
    return bool(flags) and all(each & SHARED for each in flags)


def close(made: Copy) -> None:
    os.close(made.source)
    os.close(made.sink)


def test_a_copy_shares_its_blocks_with_the_tree(place: Path, tree: Path) -> None:
    shutil.copyfile(tree / "large", place / "control")
    subprocess.run(["cp", "--reflink=never", tree / "large", place / "whole"], check=True)
    assert not is_shared(place / "whole")
    before, had = used(place), look(tree)
    made = copied(tree, place / "copy", most=MIB)  # no byte that is shared counts
    assert used(place) - before < DATA // 4
    assert look(place / "copy") == had
    assert is_shared(place / "copy" / "large") and is_shared(place / "copy" / "folder" / "small")
    with open(place / "copy" / "large", "r+b") as file:
        file.write(b"changed")
    assert look(tree) == had
    close(made)


def test_a_copy_on_another_file_system_counts(tree: Path, tmp_path: Path) -> None:
    with pytest.raises(StartError, match="more than 1 MiB"):
        copied(tree, tmp_path / "copy", most=MIB)
    close(made := copied(tree, tmp_path / "other", most=2 * DATA))
    assert look(tmp_path / "other") == look(tree) and not is_shared(tmp_path / "other" / "large") and made


@pytest.mark.parametrize("place", ["btrfs"], indirect=True)
def test_a_file_that_cannot_be_shared_keeps_no_other_from_it(place: Path, tree: Path) -> None:
    """One without checksums (chattr +C) is not shared with one that has them."""
    for number in range(8):
        (tree / f"apart-{number}").touch()
        subprocess.run(["chattr", "+C", tree / f"apart-{number}"], check=True)
        (tree / f"apart-{number}").write_bytes(b"x" * 9000)
    (tree / "folder" / "other").write_bytes(os.urandom(12345))
    os.sync()
    made = copied(tree, place / "copy", most=MIB)
    assert (place / "copy" / "apart-0").read_bytes() == b"x" * 9000 and not is_shared(place / "copy" / "apart-0")
    assert all(is_shared(place / "copy" / name) for name in ("large", "folder/small", "folder/other"))
    close(made)


@pytest.mark.parametrize("storage", ["memory", "disk", "copy"])
def test_a_cage_s_changes_are_committed(tree: Path, storage: str) -> None:
    before = look(tree)
    policy = Policy(workdir="cow", storage=storage, cow_mb=64, copy_mb=1)
    with Cage(policy, cwd=str(tree)) as cage:
        done = cage.run(
            ["sh", "-c", "echo more >> large && echo new > new && mv folder moved && echo x >> moved/small"]
        )
        assert done.ok, done.stderr
        assert look(tree) == before
    assert {each.path for each in cage.workspace.changes()} >= {"large", "new", "moved"}
    assert cage.workspace.commit().skipped == ()
    assert (tree / "large").stat().st_size == DATA + 5 and not (tree / "folder").exists()
    assert (tree / "moved" / "small").stat().st_size == 12347
    cage.workspace.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """A directory that a FUSE daemon serves."""
    (tmp_path / "behind").mkdir()
    (tmp_path / "behind" / "file").write_text("old")
    place = tmp_path / "served"
    place.mkdir()
    subprocess.run(["bindfs", tmp_path / "behind", place], check=True)
    yield place
    unmount(place)


@pytest.mark.parametrize("storage", ["memory", "copy"])
def test_a_cage_works_on_what_a_fuse_daemon_serves_and_no_commit_writes_there(served: Path, storage: str) -> None:
    with Cage(Policy(workdir="cow", storage=storage, cow_mb=16), cwd=str(served)) as cage:
        assert cage.run(["sh", "-c", "echo new > file && echo x > added"]).ok
    before = look(served)
    assert before.keys() == {"file"} and (served / "file").read_text() == "old"
    assert {(each.kind, each.path) for each in cage.workspace.changes()} == {("modified", "file"), ("added", "added")}
    with pytest.raises(CommitConflict, match="FUSE"):
        cage.workspace.commit()
    with pytest.raises(CommitError, match="exchange names"):
        cage.workspace.commit(on_conflict="force")
    assert look(served) == before and os.listdir(served) == ["file"]
    assert "+new" in cage.workspace.diff()
    cage.workspace.close()


def test_no_layer_lies_where_a_fuse_daemon_serves(
    served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(served / "state"))
    (tmp_path / "tree").mkdir()
    with pytest.raises(StartError, match="FUSE takes no layer"):
        Cage(Policy(workdir="cow", storage="disk", cow_mb=16), cwd=str(tmp_path / "tree")).run(["true"])


@pytest.fixture
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system whose stamps say less."""
    mounted = mount(request.param, OTHERS[request.param], tmp_path, 64 * MIB)
    (mounted / "tree").mkdir()
    yield mounted / "tree"
    unmount(mounted)


@pytest.mark.parametrize("other", ["ext4"], indirect=True)
def test_a_change_in_the_second_of_the_opening_is_a_conflict(other: Path) -> None:
    """The stamp of such a change is before the moment of the opening."""
    for name in ("mine", "theirs"):
        (other / name).write_text("old")
    time.sleep(1.1 - time.time() % 1)  # a second in which nothing was changed has begun
    time.sleep(0.2)
    with Cage(Policy(workdir="cow"), cwd=str(other)) as cage:
        assert cage.run(["sh", "-c", "echo new > mine && echo new > theirs"]).ok
        (other / "theirs").write_text("of the host")
    stamp = (other / "theirs").stat().st_ctime_ns
    assert not stamp % 1_000_000_000, "control: it is one of whole seconds"
    with pytest.raises(CommitConflict) as told:
        cage.workspace.commit()
    assert [each.path for each in told.value.conflicts] == ["theirs"]
    assert (other / "mine").read_text() == "old"
    cage.workspace.commit(["mine"])
    assert (other / "mine").read_text() == "new\n" and (other / "theirs").read_text() == "of the host"
    cage.workspace.close()
