"""What a cage has written is judged and told by work in proportion to it, however many names it made and however deep
they lie: nobody waits for minutes after a command has ended."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from _support.work import bytecodes, growth
from pysandbox.probe.opening import Opening
from pysandbox.workspace.changes import Change, State
from pysandbox.workspace.plan import Selection, chosen, judged, steps
from pysandbox.workspace.summary import lines
from pysandbox.workspace.upper import Kind, Tree

OWNER = 1000


def state(kind: Kind, uid: int = OWNER) -> State:
    return State(kind, 0o755, uid, OWNER, 1, 0, 1, 1, 1)


def added(path: str, kind: Kind = "file", tree: str = "/a", uid: int = OWNER) -> Change:
    return Change(path, "added", None, state(kind, uid), tree=tree)


def tree(*denied: str, patterns: tuple[str, ...] = ()) -> Tree:
    opening = Opening(*(time.time_ns() for _ in Opening._fields))
    return Tree("/a", -1, opening, tuple(map(str.encode, denied)), (), patterns)


def folders(count: int, *, files: int = 13, tree: str = "/a", uid: int = OWNER) -> list[Change]:
    found = []
    for number in range(count):
        found.append(added(f"d{number}", "dir", tree, uid))
        found += [added(f"d{number}/f{each}", tree=tree) for each in range(files)]
    return found


def chains(count: int, uid: int = OWNER) -> list[Change]:
    """Two chains of directories that lie in each other, with a file in each."""
    found = []
    for top in ("a", "b"):
        path = top
        for _ in range(count):
            found += [added(path, "dir", uid=uid), added(f"{path}/file")]
            path += "/d"
    return found


def selected(changes: list[Change], paths: list[str] | None = None, *denied: str) -> Selection:
    here = tree(*denied, patterns=("/a/**/.env", "/a/b/**/*.key"))
    return judged(here, chosen(changes, paths), paths or (), frozenset(), owner=OWNER)


WORK: dict[str, Callable[[int], object]] = {
    "many directories as lines": lambda size: lines(folders(size)),
    "a chain as lines": lambda size: lines(chains(size)),
    "many directories": lambda size: steps(selected(folders(size)).written),
    "a chain": lambda size: steps(selected(chains(size)).written),
    "many directories that are left": lambda size: selected(folders(size, uid=OWNER + 1)),
    "a chain that is left": lambda size: selected(chains(size, uid=OWNER + 1)),
    "each path by its name": lambda size: selected(folders(size), [each.path for each in folders(size)]),
    "a chain by its last": lambda size: selected(chains(size), [chains(size)[-1].path]),
    "many denied": lambda size: selected(folders(size), None, *(f"d{each}/f1" for each in range(size))),
}


@pytest.mark.parametrize("act", WORK.values(), ids=WORK)
def test_twice_as_many_names_are_twice_as_much_work(act: Callable[[int], object]) -> None:
    assert growth(act, 40) < 2.6


def test_control_what_looks_at_all_others_is_seen() -> None:
    assert growth(lambda size: [1 for a in range(size) for b in range(size) if a == b], 40) > 3.5
    assert bytecodes(lambda: None) < 20


def test_what_is_chosen_left_and_written_is_what_the_paths_say() -> None:
    """Names that sort between a directory and what lies in it, too."""
    changes = [added("a", "dir"), added("a-b"), added("a/b", "dir"), added("a/b/c"), added("a/d"), added("a.b"),
               added("x", "dir", uid=OWNER + 1), added("x-y"), added("x/y")]  # fmt: skip
    assert [each.path for each in chosen(changes, ["a/b/c", "a-b"])] == ["a", "a/b", "a/b/c", "a-b"]
    assert [each.path for each in chosen(changes, ["./a/b/"])] == ["a", "a/b", "a/b/c"]
    assert {each.path for each in chosen(changes, ["."])} == {each.path for each in changes}
    done = selected(changes)
    assert [each.path for each in done.skipped] == ["x", "x/y"]
    renames, traits = steps(done.written)
    assert {each.path: [one.path for one in each.inside] for each in renames} == {
        "a": ["a/b", "a/b/c", "a/d"], "a-b": [], "a.b": [], "x-y": []
    } and not traits  # fmt: skip


def test_the_files_of_one_tree_are_in_no_line_of_another() -> None:
    told = lines([*folders(1, files=20, tree="/a"), *(added(f"d0/f{each}", tree="/b") for each in range(20))])
    assert len(told) == 21 and "20 files" in told[0].text
