"""Claim: the copy that a cage gets of a copy-on-write directory holds what lies in that directory and nothing else, is
no larger than `copy_mb`, and leaves the directory as it was, whatever others do to it meanwhile.

Others swap names for links and FIFOs, grow files, fill the disk; the directory holds what no copy can be made of. In
landlock isolation, where the cage works where its copy lies, the directory itself is out of its reach.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from _support.overlays import look
from _support.snapshots import copied, tree_of
from pysandbox import Cage, Policy
from pysandbox.errors import CommitConflict, PolicyError, StartError
from pysandbox.launch.below import open_below
from pysandbox.launch.removal import remove_tree
from pysandbox.live.copies import Copy
from pysandbox.workspace.changes import changes_of
from pysandbox.workspace.commit import commit
from pysandbox.workspace.snapshot import CopyUpper

from .harness import in_cage, program, uncaged

SWAPS = int(os.environ.get("PSB_SWAPS", "200"))
SECRET = "the host's own secret"


def upper_of(made: Copy) -> CopyUpper:
    return CopyUpper(tree_of(made), made, lambda: True, None)


def close(made: Copy) -> None:
    os.close(made.source)
    os.close(made.sink)


@pytest.fixture
def tree(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text(SECRET)
    top = tmp_path / "tree"
    (top / "folder").mkdir(parents=True)
    (top / "folder" / "file").write_text("own")
    (top / "file").write_text("own")
    return top


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """`act` again and again, from another thread."""
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            act()

    other = threading.Thread(target=run)
    other.start()
    try:
        yield
    finally:
        over.set()
        other.join()


def all_of(place: Path) -> str:
    return "\n".join(path.read_text() for path in place.rglob("*") if path.is_file() and not path.is_symlink())


def test_a_name_that_is_swapped_for_a_link_leads_nowhere(tree: Path, tmp_path: Path) -> None:
    folder, aside, link = tree / "folder", tree / "aside", tmp_path / "link"
    link.symlink_to(tmp_path / "outside")
    shutil.copytree(link, tmp_path / "followed")
    assert SECRET in all_of(tmp_path / "followed"), "CONTROL: who follows the link has the secret"

    def swap() -> None:
        os.rename(folder, aside)
        os.rename(link, folder)
        os.rename(folder, link)
        os.rename(aside, folder)
        os.unlink(tree / "file")
        os.symlink(tmp_path / "outside" / "file", tree / "file")
        os.unlink(tree / "file")
        (tree / "file").write_text("own")

    with meanwhile(swap):
        for number in range(SWAPS):
            close(copied(tree, tmp_path / f"copy{number}"))
            assert SECRET not in all_of(tmp_path / f"copy{number}")
            shutil.rmtree(tmp_path / f"copy{number}")


def test_a_file_that_becomes_a_fifo_holds_nobody_up(tree: Path, tmp_path: Path) -> None:
    def swap() -> None:
        os.unlink(tree / "file")
        os.mkfifo(tree / "file")
        os.unlink(tree / "file")
        (tree / "file").write_text("own")

    with meanwhile(swap):
        for number in range(SWAPS):
            close(copied(tree, tmp_path / f"copy{number}"))


def test_what_others_change_meanwhile_is_never_written_over(tree: Path, tmp_path: Path) -> None:
    made = copied(tree, tmp_path / "copy")
    (tree / "file").write_text("the host's, newer")
    (tree / "folder" / "file").write_text("the host's, newer")
    upper = upper_of(made)
    assert changes_of(upper) == [], "what the cage has left alone is no change, whatever the host does"
    (tmp_path / "copy" / "file").write_text("the cage's")
    with pytest.raises(CommitConflict):
        commit(upper, changes_of(upper))
    assert (tree / "file").read_text() == "the host's, newer"
    upper.drop()


def test_a_file_that_grows_is_copied_as_large_as_it_was(tree: Path, tmp_path: Path) -> None:
    large = tree / "large"
    large.write_bytes(b"x" * (2 << 20))

    def swell() -> None:
        os.truncate(large, 1 << 40)
        os.truncate(large, 2 << 20)

    def grow(file: IO[bytes]) -> None:
        file.write(b"y" * 65536)

    with meanwhile(swell):
        for number in range(20):
            close(copied(tree, tmp_path / f"copy{number}", most=4 << 20))
    with large.open("ab", buffering=0) as file, meanwhile(lambda: grow(file)):
        made = copied(tree, tmp_path / "growing", most=1 << 30)
    assert (tmp_path / "growing" / "large").stat().st_size <= large.stat().st_size
    close(made)


def test_odd_things_are_what_they_were_and_no_change(tree: Path, tmp_path: Path) -> None:
    os.link(tree / "file", tree / "folder" / "second name")
    with (tree / "sparse").open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 30)
        file.write(b"data")
    os.mkfifo(tree / "fifo")
    for name in (b"new\nline", b"invalid \xff utf-8", b"n" * 255, b"-rf", b".pysandbox-0-1"):
        (tree / os.fsdecode(name)).write_text("odd")
    (tree / "script").write_text("#!/bin/sh\n")
    os.chmod(tree / "script", 0o4755)
    os.setxattr(tree / "script", "user.mine", b"1")
    os.chmod(tree / "folder", 0o2755)
    os.symlink("/etc/passwd", tree / "link")
    before = look(tree)
    made = copied(tree, tmp_path / "copy", most=1 << 20)
    upper, copy = upper_of(made), tmp_path / "copy"
    assert changes_of(upper) == [] and look(tree) == before
    assert (copy / "file").stat().st_ino == (copy / "folder" / "second name").stat().st_ino
    assert (copy / "sparse").stat().st_size == 1 << 40 and (copy / "sparse").stat().st_blocks < 100
    assert stat.S_IMODE((copy / "script").stat().st_mode) == 0o755, "no set-id file of ours lies anywhere"
    different = {name for name, each in look(copy).items() if each != before[name]}
    assert set(look(copy)) == set(before) and different <= {"script", "folder"}
    (copy / "script").write_text("#!/bin/sh\nmore\n")
    (change,) = changes_of(upper)
    assert change.path == "script" and change.after is not None and change.after.mode == 0o4755
    upper.drop()


def test_a_path_longer_than_the_kernel_takes_is_copied(tree: Path, tmp_path: Path) -> None:
    deep = os.open(tree, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d" * 20, dir_fd=deep)
        deep, above = os.open("d" * 20, os.O_RDONLY, dir_fd=deep), deep
        os.close(above)
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=deep))
    os.close(deep)
    upper = upper_of(copied(tree, tmp_path / "copy"))
    assert changes_of(upper) == []
    path = b"/".join([b"d" * 20] * 400) + b"/file"
    top = os.open(tmp_path / "copy", os.O_RDONLY)
    fd = open_below(top, path, os.O_WRONLY)
    os.write(fd, b"x")
    os.close(fd)
    os.close(top)
    assert [os.fsencode(change.path) for change in changes_of(upper)] == [path]
    upper.drop()
    for place in (tree, tmp_path / "copy"):
        remove_tree(str(place))


def test_what_is_no_content_is_left_out_and_never_removed(tree: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tree / "socket"))
        made = copied(tree, tmp_path / "copy")
        upper = upper_of(made)
        assert not (tmp_path / "copy" / "socket").exists() and changes_of(upper) == []
        (tmp_path / "copy" / "new").write_text("new")
        commit(upper, changes_of(upper))
        assert stat.S_ISSOCK((tree / "socket").stat().st_mode)
        upper.drop()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("name", ["file", "folder"])
def test_what_cannot_be_read_is_refused_by_name(tree: Path, tmp_path: Path, name: str) -> None:
    os.chmod(tree / name, 0)
    with pytest.raises(StartError, match=r"filesystem\.deny") as refused:
        copied(tree, tmp_path / "copy")
    assert (refused.value.errno, refused.value.filename) == (errno.EACCES, str(tree / name))
    close(copied(tree, tmp_path / "another", hollow=((name, 0o500),)))
    os.chmod(tree / name, 0o700)


def test_what_is_hidden_is_an_empty_name(tree: Path, tmp_path: Path) -> None:
    made = copied(tree, tmp_path / "copy", hollow=(("file", 0), ("folder", 0o500)))
    assert os.listdir(tmp_path / "copy" / "folder") == [] and (tmp_path / "copy" / "file").stat().st_size == 0
    os.chmod(tmp_path / "copy" / "file", 0o600)
    (tmp_path / "copy" / "file").write_text("made by the cage")
    upper = upper_of(made)
    assert changes_of(upper) == []
    upper.drop()


@pytest.mark.parametrize(("plant", "said"), [
    (lambda top: (top / "large").write_bytes(b"x" * (3 << 20)), "more than 1 MiB"),
    (lambda top: [(top / f"f{number}").touch() for number in range(5000)], "more than 4,096 names"),
], ids=["bytes", "names"])  # fmt: skip
def test_more_than_was_granted_is_refused_with_the_number(
    tree: Path, tmp_path: Path, plant: Callable[[Path], object], said: str
) -> None:
    plant(tree)
    before = look(tree)
    with pytest.raises(StartError, match=said) as refused:
        Cage(Policy(cow=[str(tree)], storage="copy", copy_mb=1, cow_mb=1)).run(["true"])
    assert refused.value.errno == errno.EDQUOT and "copy_mb" in str(refused.value)
    assert os.listdir(f"{os.environ['XDG_STATE_HOME']}/pysandbox/layers") == [] and look(tree) == before


FULL_DISK = """
    import errno, os, subprocess, sys
    from pathlib import Path
    from _support.snapshots import copied
    from pysandbox.errors import StartError

    place = Path(sys.argv[1])
    (place / "disk").mkdir()
    options = "size=1m,nr_inodes=" + sys.argv[2]
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place / "disk"], check=True)
    try:
        copied(place / "tree", place / "disk" / "copy")
    except StartError as error:
        assert error.errno == errno.ENOSPC and "XDG_STATE_HOME" in str(error), error
        print("full")
"""


@pytest.mark.parametrize("names", [1000, 3], ids=["bytes", "names"])
def test_a_disk_that_is_full_half_way_is_told(tree: Path, tmp_path: Path, names: int) -> None:
    (tree / "large").write_bytes(b"x" * (2 << 20))
    before = look(tree)
    command = ["unshare", "-Urm", sys.executable, "-c", textwrap.dedent(FULL_DISK), str(tmp_path), str(names)]
    tests = str(Path(__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [tests, *sys.path]))}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert ended.stdout == "full\n", ended.stderr
    assert look(tree) == before


MARKS = """
    import stat
    os.chdir(TREE)
    attempt("whiteout", lambda: (os.unlink("file"), os.mknod("file", stat.S_IFCHR, 0)))
    attempt("opaque", os.setxattr, "folder", "user.overlay.opaque", b"y")
    attempt("touch", lambda: open("folder/new", "w").close())
"""


def test_marks_of_an_overlay_mean_nothing_in_a_copy(tree: Path) -> None:
    with Cage(Policy(cow=[str(tree)], storage="copy")) as cage:
        report = in_cage(cage, program(MARKS, TREE=str(tree)))
    assert report["opaque"].errno is None and report["touch"].errno is None
    found = {change.path: change.kind for change in cage.workspace.changes()}
    assert "folder/file" not in found and found["folder/new"] == "added"
    assert found.get("file") in ("type", "deleted")  # a device, or, where none can be made, gone
    done = cage.workspace.commit()
    assert (tree / "folder" / "file").read_text() == "own"
    assert (tree / "file").exists() == any(each.path == "file" for each in done.skipped)


REACH = """
    attempt("read", lambda: open(TREE + "/file").read())
    attempt("list", os.listdir, TREE)
    attempt("write", lambda: open(TREE + "/file", "w"))
    attempt("make", lambda: open(TREE + "/new", "w"))
    attempt("unlink", os.unlink, TREE + "/file")
    attempt("rename out", os.rename, "file", TREE + "/moved")
    attempt("link out", os.link, "file", TREE + "/linked")
    attempt("rename in", os.rename, TREE + "/file", "taken")
    attempt("link in", os.link, TREE + "/file", "second")
    attempt("beside the copy", os.listdir, "../..")
    attempt("made beside the copy", os.mkdir, "../beside")
    attempt("own", lambda: open("file", "a").write("more"))
    attempt("secret", lambda: open("secret").read())
    attempt("chdir", os.chdir, TREE)
    attempt("read there", lambda: open("folder/file").read())
    attempt("write there", lambda: open("file", "w"))
"""


def test_in_landlock_isolation_the_tree_itself_is_out_of_reach(tree: Path) -> None:
    (tree / "secret").write_text(SECRET)
    before = look(tree)
    policy = Policy(workdir="cow", isolation="landlock", run_as="self", deny=["secret"])
    with Cage(policy, cwd=str(tree)) as cage:
        report = in_cage(cage, program(REACH, TREE=str(tree)))
        assert cage.files.read_text("file") == cage.files.read_text(tree / "file") == "ownmore"
    worked = [name for name, each in report.attempts.items() if each.errno is None]
    assert worked == ["own", "chdir"] and report["secret"].errno == "EACCES"
    assert look(tree) == before
    assert [change.path for change in cage.workspace.changes()] == ["file"]
    cage.workspace.commit()
    assert (tree / "file").read_text() == "ownmore" and (tree / "secret").read_text() == SECRET
    control = uncaged(program(REACH, TREE=str(tree)), cwd=str(tree))
    assert control["read"].errno is None and control["write"].errno is None, "CONTROL: who may, can"


def test_what_is_denied_in_it_is_nowhere_in_the_copy(tree: Path) -> None:
    (tree / "secret").write_text(SECRET)
    (tree / "keys").mkdir()
    (tree / "keys" / "id").write_text(SECRET)
    policy = Policy(workdir="cow", isolation="landlock", run_as="self", deny=["secret"], mask=["keys"])
    with Cage(policy, cwd=str(tree)) as cage:
        script = "chmod -R u+rwx secret keys; cat secret; ls -A keys; grep -r own . ; echo x > keys/new"
        found = cage.run(["sh", "-c", script])
        assert found.stdout == "./file:own\n./folder/file:own\n"
        assert SECRET not in all_of(Path(os.environ["XDG_STATE_HOME"]))
    assert {change.path for change in cage.workspace.changes()} == set()
    assert cage.workspace.commit().written == ()


@pytest.mark.parametrize("beside", [
    {"allow": ["TREE/.."]}, {"allow_write": ["TREE/folder"]}, {"allow_write": ["TREE/.."]}, {"storage": "disk"},
], ids=str)  # fmt: skip
def test_nothing_gives_it_more_of_the_tree_than_reading(tree: Path, beside: dict[str, object]) -> None:
    """A grant beside it is refused where it would give the cage the host's own files to write."""
    said = {key: [each.replace("TREE", str(tree)) for each in value] if isinstance(value, list) else value
            for key, value in beside.items()}  # fmt: skip
    policy = Policy(workdir="cow", isolation="landlock", run_as="self", **said)  # type: ignore[arg-type]
    before = look(tree)
    if "allow" not in beside:
        with pytest.raises(PolicyError):
            Cage(policy, cwd=str(tree)).run(["true"])
        return
    with Cage(policy, cwd=str(tree)) as cage:
        report = in_cage(cage, program(REACH, TREE=str(tree)))
    worked = [name for name, each in report.attempts.items() if each.errno is None]
    assert set(worked) <= {"read", "list", "chdir", "own", "read there"} and look(tree) == before
