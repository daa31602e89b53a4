"""What modules of one's own do, as they run, to something that goes into a cage.

    HANDLERS = {}                                   # registry.py; a function that names HANDLERS has it in its cage
    for each in range(256): TABLE.append(...)       # a statement that nobody names, and without it TABLE is empty
    @register("csv")                                # csv_files.py, which is imported for nothing else

Such a statement goes along, with what it needs, whoever has imported its module: in this program it has had its effect.
What is changed is told by what a statement says: an item or attribute is set, a method that changes a container is
called, or one of an object of one's own, or a function that does one of these; a class is made below one that hears of
it. Which object it is, is looked up in the modules as they are here; nothing is run to find out.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from types import FunctionType, ModuleType

from pysandbox.pipeline.shipping import Definition, is_installed, top_statements
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.shapes import Any

CONTAINERS = (dict, list, set, bytearray, deque)
CHANGING = frozenset((
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "extendleft", "insert",
    "intersection_update", "move_to_end", "pop", "popitem", "popleft", "register", "remove", "reverse", "rotate",
    "setdefault", "sort", "symmetric_difference_update", "update",
))  # fmt: skip
DEEPEST = 3  # functions that call functions


def effects_on(found: Iterable[object], modules: Iterable[str]) -> Iterator[tuple[str, Definition]]:
    """The statements of all of one's own modules that change one of these objects."""
    there = {id(each): each for each in found if _can_be_changed(each)}
    homes = {id(sys.modules.get(name)) for name in modules} | {id(vars(sys.modules[name])) for name in modules}
    for name, module in list(sys.modules.items()):
        if not there or not _is_ones_own(module) or not _may_reach(module, there, homes):
            continue
        for line, changed in _changes_of(module):
            if any(id(each) in there for each in changed()):
                yield name, Definition("", line)


def _can_be_changed(found: object) -> bool:
    if isinstance(found, FunctionType):
        return bool(vars(found))
    return isinstance(found, CONTAINERS) or _is_of_ones_own(found if isinstance(found, type) else type(found))


def _is_of_ones_own(kind: type) -> bool:
    return _is_ones_own(sys.modules.get(kind.__module__))


def _is_ones_own(module: object) -> bool:
    return isinstance(module, ModuleType) and getattr(module, "__file__", None) is not None and not is_installed(module)


def _may_reach(module: ModuleType, there: Mapping[int, object], homes: set[int]) -> bool:
    """Whether it has one of them in its namespace, or something of a module that has."""
    for each in list(vars(module).values()):
        around = getattr(each, "__globals__", None) if isinstance(each, FunctionType) else None
        home = sys.modules.get(each.__module__) if isinstance(each, type) else each
        if id(each) in there or id(home) in homes or id(around) in homes:
            return True
    return False


@lru_cache(256)
def _changes_of(module: ModuleType) -> list[tuple[int, Callable[[], Iterator[object]]]]:
    """The line of each statement that changes anything, and what that is, as the module is now."""
    try:
        statements = top_statements(module)
    except (TypeError, OSError):
        return []
    parts = [(each, list(_changing_parts(each))) for each in statements if not _is_about_cages(each, vars(module))]
    return [(each.lineno, lambda found=found: _changed(found, vars(module), 0)) for each, found in parts if found]  # type: ignore[misc]


def _is_about_cages(statement: ast.stmt, around: Mapping[str, Any]) -> bool:
    """Whether it calls into one, or makes one: that is the program's own part, and no cage could do it."""
    names = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and each.id in around}
    found = [around[each] for each in names]
    homes = [each.__name__ if isinstance(each, ModuleType) else getattr(each, "__module__", "") for each in found]
    homes += [type(each).__module__ for each in found]
    is_definition = isinstance(statement, ast.FunctionDef | ast.ClassDef)
    return not is_definition and any(isinstance(each, str) and each.partition(".")[0] == "pysandbox" for each in homes)


# ---- what a statement says -------------------------------------------------------------------------------------------


def _changing_parts(statement: ast.AST, *, everywhere: bool = False) -> Iterator[ast.expr]:
    """What it sets, deletes, calls for nothing but the effect, or makes a class of; of functions, only what decorates
    them, but for `everywhere`."""
    left = [statement]
    while left:
        node = left.pop()
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from node.decorator_list
        if isinstance(node, ast.ClassDef):
            yield from node.bases
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            yield node
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGING:
            yield node
        if everywhere or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            left += ast.iter_child_nodes(node)


def _changed(parts: Iterable[ast.expr], around: Mapping[str, Any], depth: int) -> Iterator[object]:
    for part in parts:
        if isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load):
            yield from _along(part.value, around)
            continue
        called = part.func if isinstance(part, ast.Call) else part
        if isinstance(called, ast.Call):  # register("x")(function)
            called = called.func
        if isinstance(called, ast.Attribute):
            for each in _along(called.value, around):
                if called.attr in CHANGING or _is_of_ones_own(type(each)):
                    yield each
        for each in list(_along(called, around))[-1:]:
            yield from _changed_by(each, depth)


def _along(node: ast.expr, around: Mapping[str, Any]) -> Iterator[object]:
    """The objects of `a.b.c["x"]`, as far as they can be known without asking them."""
    names: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        names.insert(0, node.attr if isinstance(node, ast.Attribute) else "")
        node = node.value
    if not isinstance(node, ast.Name) or node.id not in around:
        return
    found = around[node.id]
    yield found
    for name in names:
        space = vars(found) if isinstance(found, ModuleType | type) else {}
        if name not in space:
            return
        found = space[name]
        yield found


def _changed_by(found: object, depth: int) -> Iterator[object]:
    """A function of one's own, by its globals; a class, where it hears of those below it."""
    if isinstance(found, type) and _is_of_ones_own(found):
        maker = vars(type(found))
        hears = [found.__dict__.get("__init_subclass__"), maker.get("__new__"), maker.get("__init__")]
        if "__init_subclass__" in found.__dict__ or (type(found) is not type and _is_of_ones_own(type(found))):
            yield found
        for each in hears:
            yield from _changed_by(getattr(each, "__func__", each), depth)
        return
    if not isinstance(found, FunctionType) or depth == DEEPEST:
        return
    module = sys.modules.get(found.__module__)
    if isinstance(module, ModuleType) and _is_ones_own(module):
        here = set(found.__code__.co_varnames)
        around = {name: each for name, each in found.__globals__.items() if name not in here}
        yield from _changed(_parts_of(module, found.__code__.co_firstlineno), around, depth + 1)


@lru_cache(1024)
def _parts_of(module: ModuleType, line: int) -> list[ast.expr]:
    """Those of a function, by the line where it begins."""
    try:
        statements = top_statements(module)
    except (TypeError, OSError):
        return []
    for top in statements:
        for each in ast.walk(top):
            if isinstance(each, ast.FunctionDef) and line in range(_first_line(each), each.lineno + 1):
                return list(_changing_parts(ast.Module(each.body, []), everywhere=True))
    return []


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])
