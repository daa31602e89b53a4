"""An upper directory is read as the kernel wrote it, whatever a cage put into it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.commits import settled, written
from _support.overlays import DirectoryUpper, Overlay
from pysandbox.launch.removal import remove_tree
from pysandbox.workspace import walk
from pysandbox.workspace.changes import changes_of
from pysandbox.workspace.upper import UpperEntry
from pysandbox.workspace.walk import DEEPEST, LONGEST_PATH


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def overlay(tmp_path: Path) -> Iterator[Overlay]:
    made = Overlay(tmp_path)
    (made.lower / "old").mkdir()
    (made.lower / "old" / "file").write_text("old")
    (made.lower / "file").write_text("old")
    (made.lower / "gone").write_text("old")
    yield made
    made.remove()


def entries(upper: DirectoryUpper) -> dict[bytes, UpperEntry]:
    return {each.path: each for each in upper.walk()}


def test_the_marks_of_the_kernel_are_told(overlay: Overlay) -> None:
    upper = overlay.write("""
        os.unlink("gone"); shutil.rmtree("old"); os.mkdir("old"); Path("old/new").write_text("new")
        Path("file").open("a").write("more"); os.symlink("/etc", "link"); os.mkfifo("fifo")
        socket.socket(socket.AF_UNIX).bind("socket"); os.link("old/new", "other")
    """)
    found = entries(upper)
    assert {path: each.kind for path, each in found.items()} == {
        b"gone": "whiteout", b"old": "dir", b"old/new": "file", b"file": "file", b"link": "symlink", b"fifo": "fifo",
        b"socket": "socket", b"other": "file",
    }  # fmt: skip
    assert found[b"old"].opaque and not found[b"file"].opaque
    assert found[b"file"].copied_up and not found[b"old/new"].copied_up
    assert found[b"other"].ino == found[b"old/new"].ino and found[b"other"].nlink == 2
    upper.drop()


def test_a_mark_that_a_cage_made_itself_is_not_the_kernel_s(overlay: Overlay) -> None:
    upper = overlay.write("""
        os.setxattr("old", "user.overlay.opaque", b"y"); os.setxattr("file", "user.mine", b"1")
        os.setxattr("file", "user.overlay.overlay.opaque", b"y")
    """)
    found = entries(upper)
    assert not found[b"old"].opaque and found[b"old"].xattrs == {}
    assert found[b"file"].xattrs == {"user.mine": b"1"}
    upper.drop()


def test_what_the_host_may_not_read_is_read_all_the_same(overlay: Overlay) -> None:
    upper = overlay.write("""
        os.mkdir("locked"); Path("locked/file").write_text("x"); os.chmod("locked/file", 0); os.chmod("locked", 0)
    """)
    found = entries(upper)
    assert found[b"locked"].mode == 0 and found[b"locked/file"].kind == "file"
    assert upper.read(b"locked/file", 10) == b"x"
    assert (overlay.place / "upper" / "locked").stat().st_mode & 0o777 == 0  # as it was
    upper.drop()


def test_the_marks_of_what_the_host_may_not_read_are_told(overlay: Overlay) -> None:
    upper = overlay.write("""
        shutil.rmtree("old"); os.mkdir("old"); os.chmod("old", 0)
        Path("file").open("a").write("more"); os.chmod("file", 0)
    """)
    found = entries(upper)
    assert found[b"old"].opaque and found[b"old"].mode == 0
    assert found[b"file"].copied_up and found[b"file"].mode == 0
    upper.drop()


def test_names_are_the_kernel_s_bytes(overlay: Overlay) -> None:
    upper = overlay.write(r"""
        for name in (b"a\nb", b"\xff\xfe", b"x" * 255, b"-rf", b" ", b"\x1b[2J"): os.close(os.open(name, os.O_CREAT))
    """)
    assert set(entries(upper)) == {b"a\nb", b"\xff\xfe", b"x" * 255, b"-rf", b" ", b"\x1b[2J"}
    upper.drop()


@pytest.mark.parametrize(("levels", "name"), [(90, "d" * 200), (2100, "d")])
def test_what_lies_too_deep_to_be_told_is_one_change_that_nobody_writes(
    overlay: Overlay, levels: int, name: str
) -> None:
    """All paths of it together grow with the square of its depth."""
    settled()
    upper = overlay.write(f"""
        Path("beside").write_text("x")
        os.chdir("old")
        for _ in range({levels}): os.mkdir("{name}"); os.chdir("{name}")
    """, seen=False)  # fmt: skip
    found = changes_of(upper)
    (deep,) = [each for each in found if each.after is not None and each.after.kind == "deep"]
    assert len(deep.path) > LONGEST_PATH or deep.path.count("/") == DEEPEST
    done = written(upper)
    assert [(each.path, each.reason) for each in done.skipped] == [
        (deep.path, "a directory so deep in others is never written to a tree")
    ]
    assert (overlay.lower / "beside").exists() and len(done.written) == len(found) - 1
    remove_tree(str(overlay.lower / "old"))
    upper.drop()


def test_names_that_are_too_many_to_be_told_are_refused(overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    upper = overlay.write('for each in range(9): os.makedirs(f"{each}/deeper")')
    assert len(changes_of(upper)) == 18, "CONTROL"
    monkeypatch.setattr(walk, "MOST_SPELLED", 20)
    with pytest.raises(OSError, match="too deep in each other") as raised:
        changes_of(upper)
    assert raised.value.errno == errno.ENAMETOOLONG
    upper.drop()


def test_a_tree_deeper_than_any_path_is_read_to_its_end(overlay: Overlay) -> None:
    depth = 1000
    upper = overlay.write(f"""
        for _ in range({depth}): os.mkdir("deep"); os.chdir("deep")
    """)
    assert max(path.count(b"/") for path in entries(upper)) == depth - 1
    upper.drop()


def test_attributes_of_a_file_with_many_names_are_bounded(overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are held with each name: one file and its links would fill the memory of whoever reads them."""
    upper = overlay.write("""
        Path("file").write_text("x"); os.setxattr("file", "user.large", b"x" * 1000)
        os.mkdir("sub")
        for number in range(50): os.link("file", f"sub/{number}")
    """)
    assert len(entries(upper)) == 52  # control
    monkeypatch.setattr(walk, "MOST_ATTRIBUTES", 20_000)
    with pytest.raises(OSError, match="more extended attributes than are read") as raised:
        changes_of(upper)
    assert raised.value.errno == errno.E2BIG
    upper.drop()
