"""What a statement at the top of a module changes, told by what it says, and by what its names stand for here.

An `ObjectChange` is an item or attribute that is set or deleted, a call for nothing but its effect, a method that
changes a container, a decorator, or a class below one that hears of it. Nothing is run to find out.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import FunctionType, ModuleType

from pysandbox.pipeline.shipping import is_installed, top_statements
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pysandbox.shapes import Any

CONTAINERS = (dict, list, set, bytearray, deque)
CHANGING = frozenset((
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft", "insert",
    "intersection_update", "move_to_end", "pop", "popitem", "popleft", "register", "remove", "reverse", "rotate",
    "setdefault", "sort", "symmetric_difference_update", "update",
))  # fmt: skip
DEEPEST = 3  # functions that call functions


class ObjectChange(NamedTuple):
    """`value` is what is set; None of what is not set. `decorates` where it is a decorator or a base of a class."""

    node: ast.expr
    value: ast.expr | None = None
    decorates: bool = False


def is_own_module(module: object) -> bool:
    return isinstance(module, ModuleType) and getattr(module, "__file__", None) is not None and not is_installed(module)


def is_own_class(kind: type) -> bool:
    return is_own_module(sys.modules.get(kind.__module__))


def is_own_function(found: object) -> bool:
    return isinstance(found, FunctionType) and is_own_module(sys.modules.get(found.__module__))


# ---- what a statement says -------------------------------------------------------------------------------------------


def changes_in(statement: ast.AST, *, everywhere: bool = False) -> Iterator[ObjectChange]:
    """In functions, only what decorates them, but for `everywhere`."""
    left = [statement]
    while left:
        node = left.pop()
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from (ObjectChange(each, None, True) for each in node.decorator_list)
        if isinstance(node, ast.ClassDef):
            yield from (ObjectChange(each, None, True) for each in node.bases)
        yield from _said_by(node)
        if everywhere or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            left += ast.iter_child_nodes(node)


def _said_by(node: ast.AST) -> Iterator[ObjectChange]:
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.For | ast.Delete | ast.withitem):
        value = getattr(node, "value", None) or getattr(node, "iter", None) or getattr(node, "context_expr", None)
        single = getattr(node, "target", None) or getattr(node, "optional_vars", None)
        for target in getattr(node, "targets", None) or ([single] if single is not None else []):
            for each in ast.walk(target):
                if isinstance(each, ast.Attribute | ast.Subscript) and not isinstance(each.ctx, ast.Load):
                    yield ObjectChange(each, value)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ObjectChange(node.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
        yield ObjectChange(node)


def called_in(node: ast.expr) -> ast.expr:
    """What a call or a decorator calls first: `register` of `@register("x")` and of `register("x")(function)`."""
    while isinstance(node, ast.Call):
        node = node.func
    return node


def arguments_of(change: ObjectChange) -> list[ast.expr]:
    found: list[ast.expr] = [] if change.value is None else [change.value]
    node = change.node
    while isinstance(node, ast.Call):
        found += [*node.args, *(each.value for each in node.keywords)]
        node = node.func
    return found


def keys_of(change: ObjectChange) -> list[object]:
    """What it sets, where that is literal: of an item, an attribute, `update(a=1)`, `update({"a": 1})`."""
    node = change.node
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Subscript):
        return [node.slice.value] if isinstance(node.slice, ast.Constant) else []
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    first = node.args[0] if node.args else None
    if node.func.attr == "setdefault" and isinstance(first, ast.Constant):
        return [first.value]
    if node.func.attr != "update" or len(node.args) > 1 or (node.args and not isinstance(first, ast.Dict)):
        return []
    keys: list[ast.expr | None] = first.keys if isinstance(first, ast.Dict) else []
    if not all(isinstance(each, ast.Constant) for each in keys) or not all(each.arg for each in node.keywords):
        return []
    return [*(each.value for each in keys if isinstance(each, ast.Constant)), *(each.arg for each in node.keywords)]


# ---- which objects these are -----------------------------------------------------------------------------------------


def objects_along(node: ast.expr, around: Mapping[str, Any]) -> list[object]:
    """The objects of `a.b.c["x"]`, as far as they can be known without asking them."""
    names: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        names.insert(0, node.attr if isinstance(node, ast.Attribute) else "")
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in around:
        return []
    found = [around[node.id]]
    for name in names:
        space = vars(found[-1]) if isinstance(found[-1], ModuleType | type) else {}
        if name not in space:
            break
        found.append(space[name])
    return found


def named_by(node: ast.expr, around: Mapping[str, Any]) -> object:
    """What all of `a.b.c` stands for; None where that is not known."""
    found, parts = objects_along(node, around), 1
    while isinstance(node, ast.Attribute):
        node, parts = node.value, parts + 1
    return found[-1] if isinstance(node, ast.Name) and len(found) == parts else None


def changed_by(change: ObjectChange, around: Mapping[str, Any], depth: int = 0) -> Iterator[object]:
    node = change.node
    if not change.decorates and isinstance(node, ast.Attribute | ast.Subscript):
        yield from objects_along(node.value, around)
        return
    called = called_in(node)
    if isinstance(called, ast.Attribute):
        for each in objects_along(called.value, around):
            if called.attr in CHANGING or is_own_class(type(each)):
                yield each
    for each in objects_along(called, around)[-1:]:
        yield from _changed_through(each, depth)


def _changed_through(found: object, depth: int) -> Iterator[object]:
    """A function of one's own, by its globals; a class, where it hears of those below it."""
    if isinstance(found, type) and is_own_class(found):
        maker = vars(type(found))
        hears = [found.__dict__.get("__init_subclass__"), maker.get("__new__"), maker.get("__init__")]
        if "__init_subclass__" in found.__dict__ or (type(found) is not type and is_own_class(type(found))):
            yield found
        for each in hears:
            yield from _changed_through(getattr(each, "__func__", each), depth)
        return
    if depth == DEEPEST or not isinstance(found, FunctionType) or not is_own_function(found):
        return
    here = set(found.__code__.co_varnames)
    around = {name: each for name, each in found.__globals__.items() if name not in here}
    node = definition_of(found)
    for change in changes_in(ast.Module(node.body, []), everywhere=True) if node is not None else ():
        yield from changed_by(change, around, depth + 1)


def definition_of(function: FunctionType) -> ast.FunctionDef | None:
    """As its module's source has it."""
    module = sys.modules.get(function.__module__)
    return None if module is None else _in_line(module, function.__code__.co_firstlineno)


@lru_cache(1024)
def _in_line(module: ModuleType, line: int) -> ast.FunctionDef | None:
    for top in statements_of(module):
        for each in ast.walk(top):
            if isinstance(each, ast.FunctionDef) and line in range(first_line(each), each.lineno + 1):
                return each
    return None


@lru_cache(256)
def statements_of(module: ModuleType) -> list[ast.stmt]:
    """None of a module without a source."""
    try:
        return top_statements(module)
    except (TypeError, OSError):
        return []


def first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])
