"""A regular expression that somebody wrote into a policy: what it takes at most, and by which literals it is found.

An expression is data here: nobody has reviewed it, and it is tried on what a cage wrote. So its tree is walked, and it
is refused where it could take more than so many steps at one place, or is found by nothing. The bound is that of a
matcher that goes back: each step is taken once for each way in which all before it may match. A repetition after which
something must stand that it cannot hold itself has one way.

Pure. Nothing imports this before a policy has such an expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from itertools import product, zip_longest

from pysandbox.policy.refusal import CommandRefused, shown
from pysandbox.shapes import Any, NamedTuple

LONGEST, SHORTEST = 512, 8  # characters of an expression at most; bytes of what it finds at least
WINDOW = 512  # bytes in which a find lies
MOST_STEPS = 1 << 15  # at one place of a text
SHORT_LITERAL, LONG_LITERAL = 3, 32
MOST_LITERALS = 16
FEW = 4  # letters of a class that is spelled out in a literal

ANYTHING = (1 << 256) - 1
_PARSER: Any = import_module("re._parser")
_OPS: Any = import_module("re._constants")
_REPEATS = (_OPS.MAX_REPEAT, _OPS.MIN_REPEAT, _OPS.POSSESSIVE_REPEAT)
_SINGLE = (_OPS.LITERAL, _OPS.NOT_LITERAL, _OPS.ANY, _OPS.IN)
_CATEGORIES = {
    name: sum(1 << byte for byte in range(256) if re.fullmatch(written, bytes((byte,))))
    for name, written in ((_OPS.CATEGORY_DIGIT, rb"\d"), (_OPS.CATEGORY_SPACE, rb"\s"), (_OPS.CATEGORY_WORD, rb"\w"),
                          (_OPS.CATEGORY_NOT_DIGIT, rb"\D"), (_OPS.CATEGORY_NOT_SPACE, rb"\S"),
                          (_OPS.CATEGORY_NOT_WORD, rb"\W"))
}  # fmt: skip
SLOWER = 'say how often at most, as in "[A-Z]{20,40}", or with what it ends that it cannot hold'

Node = tuple[Any, Any]


class Bounded(NamedTuple):
    """`literals` are such that each match has one, at most `lead` bytes after its beginning; `most` is its length, and
    `steps` what a try at one place takes."""

    literals: tuple[bytes, ...]
    lead: int
    most: int
    steps: int


class _Cost(NamedTuple):
    least: int = 0  # bytes
    most: int = 0
    ways: int = 1  # in which it may match at one place
    steps: int = 0  # to go through all of them


def bounded(expression: str) -> Bounded:
    """Raises CommandRefused for what cannot be bounded, or is found by no literal (`literals` is () then)."""
    nodes = _flat(_parsed(expression))
    cost = _of_sequence(nodes)
    if cost.least < SHORTEST:
        raise CommandRefused(
            f"{shown(expression)} finds what is shorter than {SHORTEST} bytes", "write more of what it always has"
        )
    if cost.least > WINDOW:
        raise CommandRefused(f"{shown(expression)} needs more than {WINDOW} bytes", "look for how it begins")
    literals, lead = max(_candidates(nodes), key=_worth, default=((), 0))
    return Bounded(literals, lead, min(cost.most, WINDOW), cost.steps)


def _parsed(expression: str) -> Sequence[Node]:
    if len(expression) > LONGEST:
        raise CommandRefused(f"is longer than {LONGEST} characters", "write a detector for each kind")
    if not (expression.isascii() and expression.isprintable()):
        raise CommandRefused(f"{shown(expression)} has more than printable ASCII in it", "credentials have not")
    try:
        tree = _PARSER.parse(expression.encode())
    except (re.error, RecursionError, OverflowError) as error:
        raise CommandRefused(f"{shown(expression)} is not a regular expression: {error}") from None
    if tree.state.flags:
        raise CommandRefused(f"{shown(expression)} sets flags", 'write both cases, as in "[Kk]ey"')
    return tuple(tree)


def _flat(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Without groups, which change nothing."""
    found: list[Node] = []
    for node in nodes:
        if node[0] is _OPS.SUBPATTERN:
            _, adds, removes, inner = node[1]
            if adds or removes:
                raise CommandRefused("a group sets flags", 'write both cases, as in "[Kk]ey"')
            found += _flat(inner)
        else:
            found.append(node)
    return tuple(found)


# ---- what it costs ------------------------------------------------------------------------------------------------


def _of_sequence(nodes: Sequence[Node]) -> _Cost:
    least = most = steps = 0
    ways = 1
    for node, after in zip_longest(nodes, nodes[1:]):
        each = _of(node)
        steps += ways * each.steps
        ways *= 1 if after is not None and _is_ended_by(node, after) else each.ways
        least, most = least + each.least, most + each.most
        _check(ways, steps)
    return _Cost(least, most, ways, steps)


def _check(ways: int, steps: int) -> None:
    if max(ways, steps) > MOST_STEPS:
        raise CommandRefused(f"could take more than {MOST_STEPS} steps at one place of a text", SLOWER)


def _of(node: Node) -> _Cost:
    kind, said = node
    if kind in _SINGLE:
        return _Cost(1, 1, 1, 1)
    if kind in _REPEATS:
        return _of_repeat(kind, *said)
    if kind is _OPS.BRANCH:
        return _of_branch([_flat(each) for each in said[1]])
    if kind is _OPS.ATOMIC_GROUP:
        return _of_sequence(_flat(said))._replace(ways=1)
    if kind in (_OPS.ASSERT, _OPS.ASSERT_NOT):
        inner = _of_sequence(_flat(said[1]))
        return _Cost(0, inner.most, 1, inner.steps)
    if kind is _OPS.AT and said in (_OPS.AT_BOUNDARY, _OPS.AT_NON_BOUNDARY):
        return _Cost(steps=1)
    if kind is _OPS.AT:
        raise CommandRefused(
            "says where a text begins or ends", r"leave ^, $, \A and \Z out: it is looked for everywhere"
        )
    raise CommandRefused("refers to a group, which cannot be bounded", "write out what it repeats")


def _of_repeat(kind: Any, least: int, most: int, inner: Sequence[Node]) -> _Cost:
    nodes = _flat(inner)
    if least > WINDOW:
        raise CommandRefused(f"repeats more than {WINDOW} times", "look for how it begins")
    most = min(most, WINDOW)
    once = _of_sequence(nodes)
    if len(nodes) == 1 and nodes[0][0] in _SINGLE:
        cost = _Cost(least, most, most - least + 1, 2 * most - least)
    else:
        cost = _of_many(once, least, most)
    return cost._replace(ways=1) if kind is _OPS.POSSESSIVE_REPEAT else cost


def _of_many(once: _Cost, least: int, most: int) -> _Cost:
    """What repeating more than a class costs: each turn in all its ways, in each way of the turns before it."""
    ways = steps = 0
    so_far = 1  # ways of the turns up to here
    for turn in range(most + 1):
        ways += so_far if turn >= least else 0
        if turn < most:
            steps += so_far * (once.steps + 1)
            so_far *= once.ways
        _check(max(ways, so_far), steps)
    return _Cost(least * once.least, most * once.most, ways, steps)


def _of_branch(branches: Sequence[Sequence[Node]]) -> _Cost:
    costs = [_of_sequence(each) for each in branches]
    heads = [_head(each[0]) if each else 0 for each in branches]
    apart = all(heads) and sum(map(int.bit_count, heads)) == _joined(heads).bit_count()
    ways = [each.ways for each in costs]
    return _Cost(min(each.least for each in costs), max(each.most for each in costs),
                 max(ways) if apart else sum(ways), sum(each.steps for each in costs))  # fmt: skip


def _is_ended_by(node: Node, after: Node) -> bool:
    """Whether a repetition of one class can go on to `after` in one way alone: it cannot hold how that begins."""
    if node[0] not in _REPEATS:
        return False
    inner = _flat(node[1][2])
    head = _head(after)
    return len(inner) == 1 and inner[0][0] in _SINGLE and bool(head) and not head & _set(inner[0])


def _head(node: Node) -> int:
    """The bytes with which it begins, one of which it must have; 0 where that is not seen at once."""
    kind, said = node
    if kind in _SINGLE:
        return _set(node)
    if kind in _REPEATS and said[0]:
        inner = _flat(said[2])
        return _set(inner[0]) if len(inner) == 1 and inner[0][0] in _SINGLE else 0
    return 0


def _joined(sets: Sequence[int]) -> int:
    joined = 0
    for each in sets:
        joined |= each
    return joined


def _set(node: Node) -> int:
    """The bytes that a class holds, a bit for each."""
    kind, said = node
    if kind is _OPS.ANY:
        return ANYTHING & ~(1 << ord("\n"))
    if kind is _OPS.LITERAL:
        return 1 << int(said)
    if kind is _OPS.NOT_LITERAL:
        return ANYTHING & ~(1 << int(said))
    if kind is _OPS.RANGE:
        return (1 << (int(said[1]) + 1)) - (1 << int(said[0]))
    if kind is _OPS.CATEGORY:
        return int(_CATEGORIES[said])
    negated = bool(said) and said[0][0] is _OPS.NEGATE
    joined = _joined([_set(each) for each in said[negated:]])
    return ANYTHING & ~joined if negated else joined


# ---- by what it is found --------------------------------------------------------------------------------------------


def _candidates(nodes: Sequence[Node]) -> Iterator[tuple[tuple[bytes, ...], int]]:
    """Sets of literals of which each match has one, with how far after its beginning at most."""
    lead = 0
    run: list[bytes] = [b""]
    before = 0  # the lead of the run
    for node in nodes:
        letters = _few(node)
        if letters and len(run) * len(letters) <= MOST_LITERALS and len(run[0]) < LONG_LITERAL:
            run = [said + letter for said, letter in product(run, letters)]
        else:
            yield from _long_enough(run, before)
            run, before = (letters or [b""]), lead
            if node[0] is _OPS.BRANCH:
                yield from _of_branches(node, lead)
        lead += _of(node).most
        if not letters:
            before = lead
    yield from _long_enough(run, before)


def _few(node: Node) -> list[bytes]:
    """The letters of a class with few; () where it is none, or has many."""
    if node[0] not in _SINGLE or (held := _set(node)).bit_count() > FEW or held >> 128:
        return []
    return [bytes((byte,)) for byte in range(128) if held >> byte & 1]


def _long_enough(run: list[bytes], lead: int) -> Iterator[tuple[tuple[bytes, ...], int]]:
    if len(run[0]) >= SHORT_LITERAL and lead < WINDOW:
        yield tuple(run), lead


def _of_branches(node: Node, lead: int) -> Iterator[tuple[tuple[bytes, ...], int]]:
    best = [max(_candidates(_flat(each)), key=_worth, default=((), 0)) for each in node[1][1]]
    literals = tuple(dict.fromkeys(literal for each, _ in best for literal in each))
    if all(each for each, _ in best) and len(literals) <= MOST_LITERALS:
        yield literals, lead + max(further for _, further in best)


def _worth(candidate: tuple[tuple[bytes, ...], int]) -> tuple[int, int, int]:
    """Longer ones are rarer; those near the beginning are cheaper; and fewer are."""
    literals, lead = candidate
    return min(8, *map(len, literals), 8) if literals else 0, -lead, -len(literals)
