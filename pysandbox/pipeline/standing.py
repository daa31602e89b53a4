"""What the names in a text that is read (`acting`) stand for, and how such objects are told apart.

An object is itself, by its id. What is made while texts are read is not: a method that is asked of the same object
twice is the same, and a function in another one is the same where what it has from there is.

A veiled object, as a proxy that finds what it stands for when it is asked, runs the program's own text where it is
looked at, which nobody wants here: it stands for nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import lru_cache
from types import FunctionType, MethodType, ModuleType
from weakref import CallableProxyType, ProxyType

from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    Names: TypeAlias = dict[str, list[object]]
    Given: TypeAlias = dict[int | str, list[object]]  # to a call, by place and by name; "*": by `*rest` or `**rest`

MOST = 16  # objects that one name may stand for


class FunctionText(NamedTuple):
    """A function: what it says, what its names stand for that are not its module's, and its parameters' defaults."""

    module: ModuleType
    node: Function
    names: Names
    defaults: Names


class MadeHere(NamedTuple):
    """An object that is made as the statement runs: its class alone is known."""

    kind: type


def once(found: Iterable[object]) -> list[object]:
    return [*{told_apart(each): each for each in found}.values()][:MOST]


def told_apart(found: object) -> object:
    match found:
        case MadeHere():
            return id(found.kind)
        case MethodType():
            return id(found.__func__), told_apart(found.__self__)
        case FunctionText():
            return id(found.node), *((name, *map(_place_of, each)) for name, each in _from_around(found))
    return id(found)


def key_of(text: FunctionText, given: Given) -> object:
    """What a call of it does differs with these."""
    around = ((name, *map(told_apart, each)) for name, each in _from_around(text))
    return (*((at, *map(told_apart, each)) for at, each in given.items()), *around)


def _place_of(found: object) -> object:
    return id(found.node) if isinstance(found, FunctionText) else told_apart(found)


def _from_around(text: FunctionText) -> list[tuple[str, list[object]]]:
    return [(name, text.names[name]) for name in _named_in(text.node) if name in text.names]


@lru_cache(4096)
def _named_in(node: ast.AST) -> list[str]:
    return sorted({each.id for each in ast.walk(node) if isinstance(each, ast.Name)})


def is_veiled(found: object) -> bool:
    """Whether what it says of itself is asked of a function of its class."""
    kind: type = type(found)
    if kind in (ProxyType, CallableProxyType):
        return True
    own = [vars(each) for each in kind.__mro__[:-1]]
    return any("__class__" in each or isinstance(each.get("__getattribute__"), FunctionType) for each in own)


def behind(first: Sequence[object], given: Given) -> Given:
    after = {at + len(first) if isinstance(at, int) else at: each for at, each in given.items()}
    return {**{at: [each] for at, each in enumerate(first)}, **after}


def names_in(text: FunctionText, given: Given) -> Names:
    """What the names of a function stand for where it is called."""
    inner, arguments = [*ast.walk(text.node)], text.node.args
    anew = {name for each in inner if isinstance(each, ast.Global | ast.Nonlocal) for name in each.names}
    stored = {each.id for each in inner if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    names: Names = {**text.names, **{each: [] for each in stored - anew}}
    plain = [*arguments.posonlyargs, *arguments.args]
    for at, each in enumerate([*plain, *arguments.kwonlyargs]):
        known = given.get(at) if at < len(plain) else None
        names[each.arg] = known or given.get(each.arg) or text.defaults.get(each.arg) or given.get("*", [])
    for rest in (arguments.vararg, arguments.kwarg):
        if rest is not None:
            names[rest.arg] = once(each for one in given.values() for each in one)
    return {**names, "super()": names[plain[0].arg] if plain else []}
