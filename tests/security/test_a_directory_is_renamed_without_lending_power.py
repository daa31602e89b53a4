"""Claim: a directory of a copy-on-write tree is renamed for a cage, and nothing else that the cage could not do itself.

The host renames from outside, where no mount of the cage keeps a name in place and no Landlock rule holds: a cover, a
read-only file and another mount stay what they were. What fails halfway is put back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysandbox import Cage, Policy
from pysandbox.supervise import moving

from .harness import caged, in_cage, program


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    top = tmp_path / "tree"
    for name in ("old/deep/er", "full", "empty", "guarded/inside", "shut", "outer/written"):
        (top / name).mkdir(parents=True)
    for number in range(40):
        (top / "old" / f"file{number}").write_text(f"{number}")
        (top / "old/deep/er" / f"file{number}").write_text(f"{number}")
    for name in ("full/file", "guarded/inside/secret", "guarded/other", "shut/file", "outer/file"):
        (top / name).write_text(name)
    os.mkfifo(top / "old/fifo")
    os.symlink("/etc/passwd", top / "old/link")
    os.setxattr(top / "old/deep", "user.mine", b"1")
    os.utime(top / "old", (10**9, 10**9))
    (top / "shut").chmod(0o555)
    yield top
    (top / "shut").chmod(0o755)


def rules(tree: Path, **more: object) -> Policy:
    return Policy(cow=[str(tree)], **more)  # type: ignore[arg-type]


# By where the tree lies: below /tmp its parent is the cage's own to write.
PARENTS_SAY = ["EBUSY", "EXDEV", "EACCES"]
RENAMES = """
    os.chdir(TREE)
    attempt("a directory", os.rename, "old", "new")
    say("content", value=sorted(os.listdir("new/deep/er")) == sorted(f"file{n}" for n in range(40)))
    mine = os.getxattr("new/deep", "user.mine").decode()
    say("facts", value=[os.stat("new").st_mtime, os.readlink("new/link"), mine])
    say("gone", value=not os.path.lexists("old"))
    attempt("back again", os.rename, "new", "old")
    here, there = os.open(".", 0), os.open("full", 0)
    attempt("by descriptors", os.rename, "old", "new", src_dir_fd=here, dst_dir_fd=there)
    attempt("and back", os.rename, "full/new", "old")
    attempt("onto an empty one", os.rename, "outer", "empty")
    attempt("one that may not be written", os.rename, "shut", "closed")
    say("its mode", value=oct(os.stat("closed").st_mode & 0o7777))
    attempt("onto a full one", os.rename, "old", "full")
    attempt("into itself", os.rename, "old", "old/deep/in")
    attempt("onto a file", os.rename, "old", "full/file")
    attempt("to nowhere", os.rename, "old", "missing/new")
    attempt("the tree itself", os.rename, TREE, TREE + "2")
    attempt("to another mount", os.rename, "old", "/tmp/old")
    attempt("not to replace", call, "renameat2", -100, "old", -100, "empty", 1)
    attempt("a flag nobody knows", call, "renameat2", -100, "old", -100, "x", 1 << 10)
    attempt("a path that cannot be read", call, "rename", 1, "x")
    say("left", value=sorted(os.listdir(".")))
"""


def test_renames_of_directories_are_as_on_any_file_system(tree: Path) -> None:
    report = caged(program(RENAMES, TREE=str(tree)), rules(tree))
    worked = ("a directory", "content", "facts", "gone", "back again", "by descriptors", "and back",
              "onto an empty one", "one that may not be written", "its mode", "left")  # fmt: skip
    assert report.differs(dict.fromkeys(worked) | {
        "onto a full one": ["ENOTEMPTY", "EEXIST"], "into itself": "EINVAL", "onto a file": "ENOTDIR",
        "to nowhere": "ENOENT", "the tree itself": PARENTS_SAY, "to another mount": "EXDEV",
        "not to replace": "EEXIST", "a flag nobody knows": "EINVAL", "a path that cannot be read": "EFAULT",
    }) == {}  # fmt: skip
    values = {name: each.value for name, each in report.attempts.items()}
    assert values["content"] and values["gone"] and values["facts"] == [10**9, "/etc/passwd", "1"]
    assert values["its mode"] == "0o555"
    assert values["left"] == ["closed", "empty", "full", "guarded", "old"]
    assert sorted(each.name for each in tree.iterdir()) == ["empty", "full", "guarded", "old", "outer", "shut"]


COVERED = """
    os.chdir(TREE)
    attempt("rename", os.rename, "guarded", "other")
    attempt("rename inside", os.rename, "guarded/inside", "guarded/else")
    attempt("rename out", os.rename, "guarded/inside", "out")
    attempt("rename around a written tree", os.rename, "outer", "outer2")
    for where in ("guarded", "other", "guarded/else", "out"):
        attempt("read in " + where, content, where + "/inside/secret")
        attempt("read at " + where, content, where + "/secret")
"""


def test_a_cover_stays_over_what_it_covers(tree: Path) -> None:
    control = caged(program(COVERED, TREE=str(tree)), rules(tree))
    assert control.attempts["rename"].errno is None and control.attempts["read in other"].errno is None
    covered = rules(tree, deny=[str(tree / "guarded/inside/secret")], allow_write=[str(tree / "outer/written")])
    report = caged(program(COVERED, TREE=str(tree)), covered)
    assert [name for name, each in report.attempts.items() if each.errno is None] == []


RACE = """
    import threading
    os.chdir(TREE)
    over = threading.Event()
    def disturb():
        number = 0
        while not over.is_set():
            number += 1
            for path in ("old", "new"):
                try: os.rename(path + "/deep", path + "/deep2"); os.symlink("/", path + "/deep")
                except OSError: pass
                try: os.unlink(path + "/deep"); os.rename(path + "/deep2", path + "/deep")
                except OSError: pass
                try: open(f"{path}/planted{number}", "w").close()
                except OSError: pass
    threads = [threading.Thread(target=disturb) for _ in range(2)]
    for each in threads: each.start()
    for _ in range(12):
        for one, other in (("old", "new"), ("new", "old")):
            try: os.rename(one, other)
            except OSError: pass
    over.set()
    for each in threads: each.join()
    found = {}
    for top, _, names in os.walk("."):
        for name in names:
            if name.startswith("file") and ("old" in top or "new" in top or ".pysandbox" in top):
                found[os.path.join(os.path.basename(top), name)] = open(os.path.join(top, name)).read()
    say("files", value=len(found))
    say("host", value=os.path.exists("/root/.ssh"))
"""


def test_a_cage_that_changes_everything_meanwhile_loses_nothing_and_reaches_nothing(tree: Path) -> None:
    before = sorted(str(each.relative_to(tree)) for each in tree.rglob("*"))
    report = caged(program(RACE, TREE=str(tree)), rules(tree))
    assert report.attempts["files"].value == 80, "each file is somewhere, once"
    assert sorted(str(each.relative_to(tree)) for each in tree.rglob("*")) == before


def test_more_than_is_moved_at_once_is_put_back(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "MOST", 50)
    attack = """
        os.chdir(TREE)
        before = sorted(os.walk("old"))
        attempt("rename", os.rename, "old", "new")
        say("the same", value=sorted(map(sorted, (n for _, _, n in os.walk("old")))) == sorted(
            sorted(n) for _, _, n in before))
        say("facts", value=[os.stat("old").st_mtime, os.getxattr("old/deep", "user.mine").decode()])
        say("left", value=sorted(os.listdir(".")))
    """
    with Cage(rules(tree)) as cage:
        report = in_cage(cage, program(attack, TREE=str(tree)))
    assert report.attempts["rename"].errno == "EXDEV"
    assert report.attempts["the same"].value is True
    assert report.attempts["facts"].value == [10**9, "1"]
    assert report.attempts["left"].value == ["empty", "full", "guarded", "old", "outer", "shut"]
