"""A set of paths answers as one comparison after the other would."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from pysandbox.launch import native
from pysandbox.policy.patterns import covers_path
from pysandbox.workspace import folds
from pysandbox.workspace.denied import DeniedInTree, DeniedPattern
from pysandbox.workspace.folds import Folds
from pysandbox.workspace.path_sets import PathSet, TopmostMarked, walk_order
from pysandbox.workspace.plan import covers
from pysandbox.workspace.upper import Tree

NAMES = ("a", "b", "a-b", "a.b", "A", "é", "\udcff", "ab")


def some(luck: random.Random, count: int) -> list[str]:
    return ["/".join(luck.choices(NAMES, k=luck.randint(1, 4))) for _ in range(count)]


def test_a_set_covers_what_one_of_it_covers() -> None:
    luck = random.Random(1)
    for _ in range(200):
        within, asked = some(luck, luck.randint(0, 6)), some(luck, 20)
        them = PathSet(within)
        for path in asked:
            assert them.covers(path) == any(covers(each, path) for each in within)
            if not them.covers(path):
                assert them.is_around(path) == any(covers(path, each) for each in within)
    assert PathSet(["."]).covers("a/b") and PathSet(["."]).covers(".") and not PathSet([]).covers("a")
    assert not PathSet([""]).covers("a") and not PathSet(["", "b"]).is_around("a") and PathSet(["", "b"]).covers("b/c")


def test_what_is_carried_down_is_the_topmost_that_was_marked() -> None:
    luck = random.Random(2)
    for _ in range(200):
        paths = sorted({*some(luck, 30)}, key=walk_order)
        marked = [each for each in paths if luck.random() < 0.3]
        carried = TopmostMarked()
        for path in paths:
            tops = [each for each in marked if covers(each, path) and each != path]
            assert carried.above(path) == (min(tops, key=len) if tops else "")
            if path in marked:
                carried.mark(path)


def test_a_pattern_is_asked_in_any_order_and_answers_the_same() -> None:
    luck = random.Random(3)
    for pattern in ("/t/**/a", "/t/a*/b", "/t/*/**", "/t/a", "/**/a.b", "/t/[aé]/**/b", "/other/**", "/t/**"):
        asked = some(luck, 100)
        one = DeniedPattern(pattern, "/t")
        for path in asked:
            assert one.covers(path) == covers_path(pattern, f"/t/{path}"), (pattern, path)


def test_what_differs_from_a_denied_name_by_spelling_alone_is_denied() -> None:
    tree = Tree("/Tree", -1, None, ("Grüße/id".encode(), b".env"), (), ("/Tree/**/*.Key",))  # type: ignore[arg-type]
    denied = DeniedInTree(tree)
    for path in (".env", ".ENV", ".e\u200cnv/x", "GRÜSSE/ID", "gru\u0308sse/id/x", "a/b.key", "a/B.KEY", "x.K\u200bEY"):
        assert denied.covers(path), path
    for path in ("env", "Gruse/id", "a/b.keys", "Grüße", ".environment", "ключ"):
        assert not denied.covers(path), path
    assert denied.is_around("GRÜSSE") and not denied.is_around("a")


def patterns(*said: str, tree: str = "/tmp/hr/dn/tree", folding: bool) -> DeniedInTree:
    return DeniedInTree(Tree(tree, -1, None, (), (), said), lambda path: folding)  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", ["/tmp/hr/**/Tree", "/tmp/**/TREE", "/TMP/**", "/tmp/HR/**/*.key", "/tmp/h[!r]/**"])
def test_the_way_to_the_tree_is_matched_as_it_is_spelled(pattern: str) -> None:
    for folding in (False, True):
        denied = patterns(pattern, folding=folding)
        assert not denied.covers("a") and not denied.covers("a/b.key")
    assert patterns("/tmp/hr/**/tree", folding=False).covers("a")  # CONTROL: so the tree itself is denied


def test_what_lies_inside_is_folded() -> None:
    denied = patterns("/tmp/hr/**/Tree", "/tmp/hr/dn/tree/*.\u200cKey", folding=False)
    assert denied.covers("a/tree/b") and denied.covers("x.KEY") and not denied.covers("a/x.key")


def test_a_class_is_one_of_other_letters_where_the_directory_folds_alone() -> None:
    for folding in (False, True):
        denied = patterns("/tmp/**/[A-Z]*.txt", "/tmp/**/[!a]x", folding=folding)
        assert denied.covers("Abc.txt") and denied.covers("bx") and denied.covers("a/Ax") and not denied.covers("y")
        for path in ("abc.txt", "a/zz.TXT", "ax"):
            assert denied.covers(path) == folding, path
    assert patterns("/tmp/**/*.[Kk]ey", "/tmp/**/[*].pem", folding=False).covers("a.KEY")
    assert not patterns("/tmp/**/*.[Kk]ey", "/tmp/**/[*].pem", folding=True).covers("a.pem")


def test_a_directory_folds_where_its_file_system_or_a_flag_of_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "l").symlink_to("a")
    fd = os.open(tmp_path, os.O_RDONLY)
    flagged = {os.stat(tmp_path / "a").st_ino}
    monkeypatch.setattr(folds, "_has_flag", lambda fd: os.fstat(fd).st_ino in flagged)
    monkeypatch.setattr(native, "file_system", lambda fd: 0xEF53)
    asked = {path: Folds(fd)(path) for path in ("a", "x/y", "l/x", "a/x", "a/new/x")}
    assert asked == {"a": False, "x/y": False, "l/x": False, "a/x": True, "a/new/x": True}
    for magic in (0x4D44, 0x2011BAB0, 0x7366746E, 0xFE534D42, 0x65735546, 0x1):  # what has no row, too
        monkeypatch.setattr(native, "file_system", lambda fd, magic=magic: magic)
        assert Folds(fd)("new")
    os.close(fd)
    assert Folds(fd)("a"), "what cannot be looked at folds"


def test_control_a_usual_directory_folds_nothing(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        (tmp_path / "a").touch()
        assert Folds(fd)("a") == (tmp_path / "A").exists()
    finally:
        os.close(fd)
