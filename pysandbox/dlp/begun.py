"""Expressions of what has begun and is not over: made of a detector's expression, each matches a text that ends where a
find may go on. Pure.

The tree of an expression is taken as the parser of `re` makes it, and a branch is put before each of its parts: the
text may be over here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module

from pysandbox.shapes import Any

_PARSER: Any = import_module("re._parser")
_COMPILER: Any = import_module("re._compiler")
_OPS: Any = import_module("re._constants")
_REPEATS = (_OPS.MAX_REPEAT, _OPS.MIN_REPEAT, _OPS.POSSESSIVE_REPEAT)
_OVER = (_OPS.AT, _OPS.AT_END_STRING)

Node = tuple[Any, Any]


@lru_cache(maxsize=256)
def begun(expression: bytes) -> re.Pattern[bytes]:
    """Matches, up to the end of a text, what may become a match of the expression, or a longer one."""
    tree = _PARSER.parse(expression)
    made: re.Pattern[bytes] = _COMPILER.compile(_of_sequence(tuple(tree), tree.state))
    return made


def _of_sequence(nodes: Sequence[Node], state: Any) -> Any:
    """The text is over in the first of them, or it goes on after it."""
    rest: list[Node] = [_OVER]
    for at, node in enumerate(reversed(nodes)):
        over = _of(node, state)
        rest = over if at == 0 else [(_OPS.BRANCH, (None, [_joined(over, state), _joined([node, *rest], state)]))]
    return _joined(rest, state)


def _joined(nodes: list[Node], state: Any) -> Any:
    return _PARSER.SubPattern(state, nodes)


def _of(node: Node, state: Any) -> list[Node]:
    kind, said = node
    if kind in _REPEATS:
        most = said[1] if said[1] is _OPS.MAXREPEAT else said[1] - 1
        again = (_OPS.MAX_REPEAT, (0, max(most, 0), said[2]))
        return [again, *_of_sequence(tuple(said[2]), state)]
    if kind is _OPS.BRANCH:
        return [(kind, (None, [_of_sequence(tuple(each), state) for each in said[1]]))]
    if kind is _OPS.SUBPATTERN:
        return list(_of_sequence(tuple(said[3]), state))
    if kind is _OPS.ATOMIC_GROUP:
        return list(_of_sequence(tuple(said), state))
    return [_OVER]  # a byte that has not come; or what is asked of those that follow
