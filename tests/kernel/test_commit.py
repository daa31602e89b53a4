"""A commit brings the tree to what was seen in the workspace, or leaves it as it was."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from _support.commits import settled, written
from _support.overlays import Overlay, look
from pysandbox.errors import CommitConflict, CommitError
from pysandbox.workspace.bundle import open_bundle, write_bundle
from pysandbox.workspace.changes import Change, changes_of
from pysandbox.workspace.commit import commit
from pysandbox.workspace.diff import stat as stat_lines
from pysandbox.workspace.recovery import recover
from pysandbox.workspace.undo import last, undo
from pysandbox.workspace.upper import Upper

KINDS = ("absent", "file", "other", "folder", "empty", "link", "linked")
MAKE = """
def make(path, kind, text):
    if kind in ("file", "other"): Path(path).write_text(text + kind)
    if kind in ("folder", "empty"): os.mkdir(path)
    if kind == "folder":
        for name in ("one", "two"): Path(path, name).write_text(text + name)
        os.mkdir(f"{path}/sub"); Path(path, "sub", "three").write_text(text)
    if kind == "link": os.symlink("target-" + text, path)
    if kind == "linked": Path(path).write_text(text); os.link(path, path + ".second")
def clear(path):
    if os.path.islink(path) or os.path.isfile(path): os.unlink(path)
    elif os.path.isdir(path): shutil.rmtree(path)
    if os.path.lexists(path + ".second"): os.unlink(path + ".second")
"""


def without_times(found: dict[str, list[object]]) -> dict[str, list[object]]:
    return {path: [*each[:3], *each[4:]] for path, each in found.items()}


def matrix(overlay: Overlay) -> Upper:
    names: dict[str, object] = {}
    exec("import os, shutil\nfrom pathlib import Path\n" + MAKE, names)
    for old in KINDS:
        for new in KINDS:
            names["make"](str(overlay.lower / f"{old}-{new}"), old, "old")  # type: ignore[operator]
    settled()
    return overlay.write(
        MAKE
        + f"""
for old in {KINDS!r}:
    for new in {KINDS!r}:
        clear(f"{{old}}-{{new}}"); make(f"{{old}}-{{new}}", new, "new")
"""
    )


def test_every_type_becomes_every_other(overlay: Overlay) -> None:
    upper = matrix(overlay)
    before = look(overlay.lower)
    done = written(upper)
    assert done.skipped == ()
    assert look(overlay.lower) == overlay.view != before
    assert changes_of(upper) == []
    upper.drop()


def test_a_commit_is_taken_back_as_it_was(overlay: Overlay) -> None:
    upper = matrix(overlay)
    before = look(overlay.lower)
    done = written(upper)
    assert last() == done.id
    undo(done.id)
    assert look(overlay.lower) == before
    assert last() == ""
    upper.drop()


def test_what_was_changed_since_is_not_taken_back(overlay: Overlay) -> None:
    settled()
    upper = overlay.write("os.mkdir('new'); Path('new/file').write_text('x'); Path('other').write_text('y')")
    done = written(upper)
    settled()
    (overlay.lower / "new" / "mine").write_text("precious")
    with pytest.raises(CommitConflict, match="changed since"):
        undo(done.id)
    assert (overlay.lower / "new" / "mine").read_text() == "precious" and (overlay.lower / "other").exists()
    upper.drop()


def test_what_is_kept_apart_changes_nothing(overlay: Overlay) -> None:
    before = {}
    upper = matrix(overlay)
    before = look(overlay.lower)
    changes_of(upper)
    upper.drop()
    assert look(overlay.lower) == before


def test_modes_times_attributes_and_links_come_along(overlay: Overlay) -> None:
    (overlay.lower / "old").write_text("old")
    (overlay.lower / "folder").mkdir()
    settled()
    upper = overlay.write("""
        Path("a").write_text("a"); os.chmod("a", 0o640); os.utime("a", ns=(1, 5_000_000_001))
        os.setxattr("a", "user.mine", b"1"); os.link("a", "b"); os.mkdir("d"); os.link("a", "d/c"); os.chmod("d", 0o750)
        os.chmod("old", 0o600); os.chmod("folder", 0o711)
        Path("locked").write_text("x"); os.chmod("locked", 0)
    """)
    assert written(upper).skipped == ()
    assert look(overlay.lower) == overlay.view
    states = [os.stat(overlay.lower / name) for name in ("a", "b", "d/c")]
    assert len({each.st_ino for each in states}) == 1 and states[0].st_mtime_ns == 5_000_000_001
    upper.drop()


def test_set_id_bits_and_marks_of_the_overlay_are_not_carried(overlay: Overlay) -> None:
    settled()
    upper = overlay.write("""
        Path("s").write_text("a"); os.chmod("s", 0o6755); os.mkdir("d"); os.chmod("d", 0o2755)
        os.setxattr("s", "user.overlay.opaque", b"y"); os.setxattr("s", "user.overlay.mine", b"y")
    """)
    found = {each.path: each for each in changes_of(upper)}
    assert "set-id" in found["s"].risk
    written(upper)
    assert stat.S_IMODE(os.stat(overlay.lower / "s").st_mode) == 0o755
    assert stat.S_IMODE(os.stat(overlay.lower / "d").st_mode) == 0o755
    assert os.listxattr(overlay.lower / "s") == []
    upper.drop()


def test_what_no_tree_takes_is_left_and_said(overlay: Overlay) -> None:
    settled()
    upper = overlay.write("""
        os.mkfifo("fifo"); socket.socket(socket.AF_UNIX).bind("socket"); Path("file").write_text("x")
        os.mkdir("d"); os.mkfifo("d/fifo"); Path("d/file").write_text("y")
    """)
    done = written(upper)
    assert {each.path for each in done.skipped} == {"fifo", "socket", "d/fifo"}
    assert sorted(look(overlay.lower)) == ["d", "d/file", "file"]
    upper.drop()


def test_holes_stay_holes_and_a_claim_of_a_terabyte_is_not_believed(overlay: Overlay) -> None:
    settled()
    upper = overlay.write(
        """
        with open("sparse", "wb") as file: file.seek(50 << 20); file.write(b"end")
        with open("huge", "wb") as file: file.truncate(1 << 40)
    """,
        seen=False,
    )
    done = written(upper)
    found = os.stat(overlay.lower / "sparse")
    assert found.st_size == (50 << 20) + 3 and found.st_blocks * 512 < 1 << 20
    assert [each.path for each in done.skipped] == ["huge"]
    upper.drop()


def test_a_part_is_written_with_the_directories_on_the_way(overlay: Overlay) -> None:
    settled()
    upper = overlay.write("""
        os.makedirs("a/b"); Path("a/b/one").write_text("1"); Path("a/two").write_text("2")
        Path("three").write_text("3")
    """)
    written(upper, paths=["a/b/one"])
    assert sorted(look(overlay.lower)) == ["a", "a/b", "a/b/one"]
    done = written(upper, paths=["a"])
    assert [each.path for each in done.written] == ["a/two"]
    done = written(upper)
    assert [each.path for each in done.written] == ["three"]
    assert look(overlay.lower) == overlay.view
    upper.drop()


def test_names_of_any_bytes_arrive_as_they_are(overlay: Overlay) -> None:
    settled()
    upper = overlay.write(r"""
        for name in (b"a\nb", b"\xff\xfe", b"x" * 255, b"-rf", b" ", b"\x1b[2J", b".pysandbox-x-0"):
            os.close(os.open(name, os.O_CREAT, 0o644))
    """)
    assert written(upper).skipped == ()
    assert look(overlay.lower) == overlay.view
    upper.drop()


def test_a_tree_deeper_than_any_path_arrives(overlay: Overlay) -> None:
    settled()
    upper = overlay.write(
        """
        for _ in range(30): os.mkdir("deep" * 50); os.chdir("deep" * 50)
        Path("end").write_text("here")
        """,
        seen=False,
    )
    done = written(upper)
    assert len(done.written) == 31 and changes_of(upper) == []
    upper.drop()


def test_what_the_policy_denies_is_never_written(overlay: Overlay) -> None:
    (overlay.lower / "keys").mkdir()
    (overlay.lower / "keys" / "id").write_text("secret")
    settled()
    upper = overlay.write(
        """
        shutil.rmtree("keys"); Path("absent").write_text("planted"); os.mkdir("around")
        Path("around/in").write_text("")
        Path("around/else").write_text("")
    """,
        denied=(b"keys/id", b"absent", b"around/in"),
    )
    done = written(upper)
    assert {each.path for each in done.skipped} == {"keys", "absent", "around/in"}
    assert sorted(look(overlay.lower)) == ["around", "around/else", "keys", "keys/id"]
    upper.drop()


def test_what_the_host_obeys_is_written_only_where_it_is_named(overlay: Overlay) -> None:
    (overlay.lower / ".git" / "hooks").mkdir(parents=True)
    settled()
    upper = overlay.write("""
        Path(".git/hooks/pre-commit").write_text("#!"); Path("pysandbox.toml").write_text("")
        Path(".envrc").write_text("")
        Path("main.py").write_text("")
    """)
    found = changes_of(upper)
    assert [each.path for each in found][-1] == "main.py"
    done = commit(upper, found)
    assert {each.path for each in done.skipped} == {".git/hooks/pre-commit", "pysandbox.toml", ".envrc"}
    done = written(upper, paths=[".", ".envrc"])
    assert [each.path for each in done.written] == [".envrc"]
    upper.drop()


def test_a_file_of_many_names_is_kept_once_and_stays_one(overlay: Overlay, tmp_path: Path) -> None:
    """A cage may give one as many names as it has room for; the disk of its host has no room for so many copies."""
    settled()
    upper = overlay.write("""
        Path("file").write_bytes(os.urandom(1 << 20))
        for number in range(40): os.link("file", f"name{number}")
    """)
    kept = write_bundle([upper])
    place = tmp_path / "state" / "pysandbox" / "workspaces" / kept
    assert sum(each.stat().st_size for each in place.iterdir()) < 2 << 20
    (again,), _ = open_bundle(kept)
    assert len({each.digest for each in changes_of(again, digests=True)}) == 1
    written(again)
    assert look(overlay.lower) == overlay.view
    assert (overlay.lower / "file").stat().st_nlink == 41
    again.drop()
    upper.drop()


def test_a_bare_repository_is_marked(overlay: Overlay) -> None:
    """git runs what its `config` names for whoever is in it: a name that git alone gives shows that it is one."""
    upper = overlay.write("""
        for name in ("bare", "work/.git"):
            os.makedirs(name)
            for each in ("HEAD", "config", "objects", "refs"): Path(name, each).write_text("x")
    """)
    marked = {each.path: each.risk for each in changes_of(upper) if each.risk}
    assert marked["bare/HEAD"] == ("runs-on-host",) and marked["work/.git/config"] == ("guarded",)
    assert "work/.git/HEAD" not in marked
    upper.drop()


def test_hunks_of_one_name_are_not_those_of_another(overlay: Overlay) -> None:
    settled()
    upper = overlay.write('Path("a").write_text("all"); os.link("a", "b")')
    written(upper, contents={"a": b"part"})
    assert (overlay.lower / "a").read_text() == "part" and (overlay.lower / "b").read_text() == "all"
    upper.drop()


def test_a_name_is_one_line_of_a_list(overlay: Overlay) -> None:
    """A newline in it would make up another change."""
    settled()
    upper = overlay.write(r"""Path("x\nmodified README | +0 -0").write_text("x")""")
    assert list(stat_lines(upper, changes_of(upper))) == [
        'added    "x\\012modified README | +0 -0" | +1 -0  (hidden-name)\n'
    ]
    upper.drop()


def test_content_with_its_size_and_times_put_back_is_a_change(overlay: Overlay) -> None:
    (overlay.lower / "file").write_text("old")
    settled()
    upper = overlay.write("""
        found = os.stat("file"); Path("file").write_text("new")
        os.utime("file", ns=(found.st_atime_ns, found.st_mtime_ns))
    """)
    assert [each.kind for each in changes_of(upper)] == ["modified"]
    upper.drop()


def kinds(found: list[Change]) -> dict[str, str]:
    return {each.path: each.kind for each in found}


def test_what_was_only_opened_for_writing_is_no_change(overlay: Overlay) -> None:
    (overlay.lower / "file").write_text("old")
    (overlay.lower / "touched").write_text("old")
    settled()
    upper = overlay.write('os.close(os.open("file", os.O_RDWR)); os.utime("touched")')
    assert kinds(changes_of(upper)) == {"touched": "metadata"}
    upper.drop()


def test_two_commits_at_once_wait_for_nobody(overlay: Overlay) -> None:
    from pysandbox.workspace.commit import locked

    settled()
    upper = overlay.write('Path("a").write_text("1")')
    with locked(upper.tree.path, upper.tree.fd), pytest.raises(CommitError, match="under way"):
        written(upper)
    assert look(overlay.lower) == {} and recover() == []
    upper.drop()
