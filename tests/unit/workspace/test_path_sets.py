"""A set of paths answers as one comparison after the other would."""

from __future__ import annotations

import random

from pysandbox.policy.patterns import covers_path
from pysandbox.workspace.denied import DeniedInTree, DeniedPattern
from pysandbox.workspace.path_sets import CarriedDown, PathSet, walk_order
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


def test_what_is_carried_down_is_the_topmost_that_was_marked() -> None:
    luck = random.Random(2)
    for _ in range(200):
        paths = sorted({*some(luck, 30)}, key=walk_order)
        marked = [each for each in paths if luck.random() < 0.3]
        carried = CarriedDown()
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
