"""What a statement changes as it runs, itself and by the functions and classes of one's own that it calls.

    HANDLERS["csv"] = read      del TABLE[0]      registry.TABLE.append(1)      an item, an attribute, a method
    random.shuffle(TABLE)                                                       a call for nothing but its effect
    fill()      note(TABLE, 1)      @register("csv")      class Csv(Reader)     what these do, and do to what is given

Told by the text, and by the objects that its names stand for here: nothing is run. What is called, and whose text is
not one's own, is taken to change what it is called on or for.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections import deque
from functools import lru_cache
from types import FunctionType, ModuleType

from pysandbox.pipeline.shipping import at_top, is_ones_own, origin_of, top_statements

CONTAINERS = (dict, list, set, deque)
CACHED = type(lru_cache(len))
Acts = set[object]  # ids of the objects that are changed, (module, name) of what is bound anew, and the next two
GIVEN = "what it is given"
INTO_CAGES = "a call into a cage"
CHANGING = frozenset(("delattr", "setattr"))  # builtins that do not only read
READING = frozenset(("copy", "count", "get", "index", "items", "keys", "values"))  # methods that change nothing


def acts_of(module: ModuleType, statement: ast.stmt, seen: dict[ast.AST, Acts] | None = None) -> Acts:
    """`seen` is kept from one to the next, by whoever asks for many while nothing else runs."""
    return _Acting(module, {} if seen is None else seen).of(statement)


@lru_cache(256)
def statements_of(module: ModuleType) -> list[ast.stmt]:
    """None of a module without a source."""
    try:
        return top_statements(module)
    except (TypeError, OSError):
        return []


@lru_cache(256)
def _definitions(module: ModuleType) -> dict[str, ast.AST]:
    found = (each for statement in statements_of(module) for each in at_top(statement))
    return {
        each.name: each for each in found if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }


def definition_of(found: object) -> tuple[ModuleType, ast.AST] | None:
    """That of a function or class of one's own, of what a decorator has made of one, or of an object's class."""
    kind = found if isinstance(found, FunctionType | type | CACHED) else type(found)
    module = sys.modules.get(str(getattr(kind, "__module__", "")))
    if module is None or not is_ones_own(module):
        return None
    node = _definitions(module).get(kind.__qualname__.partition(".")[0])
    return None if node is None else (module, node)


def is_of_cages(found: object) -> bool:
    home = found.__name__ if isinstance(found, ModuleType) else getattr(found, "__module__", "")
    return any(str(each).partition(".")[0] == "pysandbox" for each in (home, type(found).__module__))


def _hears(kind: object) -> bool:
    """Whether it is told of classes below it."""
    own = [each for each in getattr(kind, "__mro__", ()) if is_ones_own(sys.modules.get(each.__module__))]
    return any("__init_subclass__" in vars(each) for each in own) or is_ones_own(sys.modules.get(type(kind).__module__))


class _Acting(ast.NodeVisitor):
    """`seen` is what functions and classes do that were looked at."""

    def __init__(self, module: ModuleType, seen: dict[ast.AST, Acts], *, is_called: bool = False) -> None:
        self.module, self.seen, self.is_called = module, seen, is_called
        self.acts: Acts = set()
        self.stands_for: dict[str, list[object]] = {}  # by name, what a global of that name may not be

    def of(self, node: ast.AST) -> Acts:
        self.generic_visit(node) if isinstance(node, ast.ClassDef) and self.is_called else self.visit(node)
        return self.acts

    # ---- what it says -----------------------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for each in [*node.decorator_list, *getattr(node, "bases", ())]:
                self._call(each, for_effect=True)
            self._change([each for base in getattr(node, "bases", ()) for each in self._along(base) if _hears(each)])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            if not self.is_called:
                return
            self._enter(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.For | ast.withitem | ast.NamedExpr):
            self._bind(node)
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            self._change(owner := self._along(node.value))
            if owner and isinstance(owner[-1], ModuleType) and isinstance(node, ast.Attribute):
                self.acts.add((owner[-1].__name__, node.attr))
        super().visit(node)

    def visit_Global(self, node: ast.Global) -> None:
        self.acts |= {(self.module.__name__, each) for each in node.names}

    def visit_Import(self, node: ast.Import) -> None:
        self._import([each.name for each in node.names])

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._import([origin_of(self.module, node)])

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._call(node.value, for_effect=True)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self._call(node, for_effect=False)
        self.generic_visit(node)

    def _enter(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        inner = list(ast.walk(node))
        of_module = {name for each in inner if isinstance(each, ast.Global) for name in each.names}
        here = {each.id for each in inner if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)} - of_module
        given = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)} - {"self", "cls"}
        self.stands_for |= {each: [] for each in here | {"self", "cls"}} | {each: [GIVEN] for each in given}

    def _import(self, names: list[str]) -> None:
        if any(each.partition(".")[0] in ("pysandbox", "__main__") for each in names):
            self.acts.add(INTO_CAGES)

    def _bind(self, node: ast.AST) -> None:
        """Further names, for an object or for what is in it: `for row in TABLE.values()`."""
        value = getattr(node, "value", None) or getattr(node, "iter", None) or getattr(node, "context_expr", None)
        targets = getattr(node, "targets", [getattr(node, "target", None) or getattr(node, "optional_vars", None)])
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            value = value.func.value
        found = self._along(value) if isinstance(value, ast.Name | ast.Attribute | ast.Subscript) else []
        for each in [each for target in targets if target is not None for each in ast.walk(target)]:
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and found:
                self.stands_for[each.id] = [*self.stands_for.get(each.id, []), *found]

    # ---- which objects these are ------------------------------------------------------------------------------------

    def _along(self, node: ast.expr) -> list[object]:
        """Those of `a`, `a.b`, and `a.b.c` in `a.b.c["x"]`, as far as they can be known without asking them."""
        names: list[str] = []
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            names.insert(0, node.attr if isinstance(node, ast.Attribute) else "")
            node = node.func if isinstance(node, ast.Call) else node.value
        if not isinstance(node, ast.Name):
            return []
        around = vars(self.module)
        found = [*self.stands_for.get(node.id, [around[node.id]] if node.id in around else [])]
        for name in names:
            space = vars(found[-1]) if found and isinstance(found[-1], ModuleType | type) else {}
            if name not in space:
                break
            found.append(space[name])
        return found

    def _change(self, found: list[object]) -> None:
        self.acts |= {each if each is GIVEN else id(each) for each in found}

    def _call(self, called: ast.expr, *, for_effect: bool) -> None:
        """`register("csv")(read)` calls what `register` names, for "csv" and `read`."""
        nodes: list[ast.expr] = []
        while isinstance(called, ast.Call):
            nodes += [*called.args, *(each.value for each in called.keywords)]
            called = called.func
        given = [each for node in nodes for each in self._along(node)]
        along, of_own = self._along(called), False
        for each in along:
            if is_of_cages(each):
                self.acts.add(INTO_CAGES)
            elif (place := definition_of(each)) is not None:
                of_own = True
                self._follow(*place, given)
        owner = self._along(called.value) if isinstance(called, ast.Attribute) else []
        if isinstance(called, ast.Attribute) and called.attr not in READING:
            makes_one = not for_effect and bool(owner) and isinstance(owner[-1], type)  # x = Model.load(path)
            self._change([] if makes_one else owner)
        elif GIVEN in along:
            self.acts.add(GIVEN)
        reads = isinstance(called, ast.Name) and called.id in vars(builtins) and called.id not in CHANGING
        keeps = bool(owner) and isinstance(owner[-1], CONTAINERS)  # FOUND.append(TABLE) changes no TABLE
        if for_effect and not (of_own or reads or keeps):
            self._change([each for each in given if not isinstance(each, FunctionType | type)])

    def _follow(self, module: ModuleType, node: ast.AST, given: list[object]) -> None:
        if node not in self.seen:
            self.seen[node] = set()  # of one that calls itself
            self.seen[node] = _Acting(module, self.seen, is_called=True).of(node)
        self.acts |= self.seen[node] - {GIVEN}
        if GIVEN not in self.seen[node]:
            return
        for each in given:
            place = definition_of(each) if isinstance(each, FunctionType) else None
            self._change([each])
            if place is not None and place[1] is not node:
                self._follow(*place, [])
