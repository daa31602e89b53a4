"""What a statement changes as it runs, itself and by the functions and classes of one's own that it calls.

    HANDLERS["csv"] = read      del TABLE[0]      registry.TABLE.append(1)      an item, an attribute, a method
    random.shuffle(TABLE)                                                       a call for nothing but its effect
    for number, row in enumerate(TABLE): row["n"] = number      TABLE += rows   by another name, too
    fill()      note(TABLE, 1)      @register("csv")      class Csv(Reader)     what these do, and do to what is given

Told by the text, and by the objects that its names stand for here: nothing is run. Of a class only the methods count
that a call leads to. What is called, and whose text is not one's own, is taken to change what it is called on or for.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType

from pysandbox.pipeline.shipping import at_top, is_ones_own, origin_of, top_statements

CONTAINERS = (dict, list, set, deque)
CACHED = type(lru_cache(len))
Acts = set[object]  # ids of the objects that are changed, (module, name) of what is bound anew, and the next two
GIVEN = "what it is given"
INTO_CAGES = "a call into a cage"
ENTERING = frozenset(("__enter__", "__exit__", "__aenter__", "__aexit__"))
SETTING = frozenset(("__setitem__", "__delitem__", "__setattr__", "__delattr__"))
MAKING = frozenset(("__init__", "__new__", "__post_init__"))
USING: dict[type[ast.AST], Collection[str]] = {
    ast.withitem: ENTERING, ast.Subscript: SETTING | {"__getitem__"}, ast.Call: ("__call__",),
    ast.For: ("__iter__", "__next__"), ast.comprehension: ("__iter__", "__next__"),
}  # fmt: skip
READERS = frozenset(("logging", "json", "pickle", "pprint", "warnings"))  # modules that only read what they are given
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
    """The definition of a function or class of one's own, of what a decorator has made of one, or of an object's
    class."""
    kind = found if isinstance(found, FunctionType | type | CACHED) else type(found)
    module = sys.modules.get(str(getattr(kind, "__module__", "")))
    if module is None or not is_ones_own(module):
        return None
    if isinstance(found, FunctionType) and found.__qualname__ == "<lambda>":
        inner = (each for statement in statements_of(module) for each in ast.walk(statement))
        line = found.__code__.co_firstlineno
        lambdas = [each for each in inner if isinstance(each, ast.Lambda) and each.lineno == line]
        return (module, lambdas[0]) if len(lambdas) == 1 else None
    node = _definitions(module).get(kind.__qualname__.partition(".")[0])
    return None if node is None else (module, node)


def _parts_that_run(found: object, asked: set[str]) -> Iterator[tuple[ModuleType, ast.AST]]:
    """The definitions of what runs where it is called, or asked for these: of a class the methods of these names, and
    those that they name or use, also of the classes above it."""
    place = definition_of(found)
    if place is None:
        return
    kind: object = found if isinstance(found, type) else type(found)
    if isinstance(found, FunctionType | CACHED):
        *outer, name = str(getattr(found, "__qualname__", "")).partition(".<locals>")[0].split(".")
        kind, asked = place[0], {name}
        for each in outer:
            kind = vars(kind).get(each) if isinstance(kind, ModuleType | type) else None
    if not isinstance(place[1], ast.ClassDef) or not isinstance(kind, type):
        yield place
        return
    left = [each for above in (*kind.__mro__, *getattr(type(kind), "__mro__", ())) for each in _methods_of(above)]
    while runs := [each for each in left if each[1].name in asked]:
        left = [each for each in left if each not in runs]
        yield from runs
        asked = asked.union(*(_asked_by(each) for _, node in runs for each in ast.walk(node)))


def _asked_by(node: ast.AST) -> Collection[str]:
    """The methods that may run by it."""
    if isinstance(node, ast.Attribute):
        return (node.attr,)
    if isinstance(node, ast.Name) and node.id in ("cls", "type"):
        return MAKING
    return next((names for kind, names in USING.items() if isinstance(node, kind)), ())


def _methods_of(kind: type) -> list[tuple[ModuleType, ast.FunctionDef | ast.AsyncFunctionDef]]:
    module, node = definition_of(kind) or (None, None)
    for name in kind.__qualname__.split(".")[1:]:
        inner = at_top_of(node) if isinstance(node, ast.ClassDef) else ()
        node = next((each for each in inner if isinstance(each, ast.ClassDef) and each.name == name), None)
    if module is None or not isinstance(node, ast.ClassDef):
        return []
    return [(module, each) for each in at_top_of(node) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]


def at_top_of(node: ast.ClassDef) -> Iterator[ast.AST]:
    for each in node.body:
        yield from at_top(each)


def _space_of(found: object) -> Mapping[str, object]:
    """What can be asked of it by name: of a module, a class, or an object of one's own."""
    if isinstance(found, ModuleType | type):
        return vars(found)
    is_own = not isinstance(found, FunctionType) and is_ones_own(sys.modules.get(str(type(found).__module__)))
    space = getattr(found, "__dict__", {}) if is_own else {}
    return space if isinstance(space, dict) else {}


def _is_reader(found: object) -> bool:
    home = found.__name__ if isinstance(found, ModuleType) else type(found).__module__
    return home.partition(".")[0] in READERS


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
        self.looks_back = False
        self.stands_for: dict[str, list[object]] = {}  # by name, what a global of that name may not be

    def of(self, node: ast.AST) -> Acts:
        self.generic_visit(node) if isinstance(node, ast.ClassDef) and self.is_called else self.visit(node)
        return self.acts

    # ---- what it says -----------------------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for each in node.decorator_list:
                self._call(each, for_effect=True)
            for kind in [each for base in getattr(node, "bases", ()) for each in self._along(base)]:
                self._follow_all(kind, {"__init_subclass__"}, [])
                self._follow_all(type(kind), {*MAKING}, [])
            self._change([each for base in getattr(node, "bases", ()) for each in self._along(base) if _hears(each)])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            if not self.is_called:
                return
            before = dict(self.stands_for)
            self._enter(node)
            super().visit(node)
            self.stands_for = before
            return
        if isinstance(node, ast.AugAssign):
            self._change(self._along(node.target))
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp):
            for part in node.generators:
                self._bind(part)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.For | ast.AsyncFor | ast.withitem | ast.NamedExpr):
            self._bind(node)
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            self._change(owner := self._along(node.value))
            for one in (one for one in owner if not isinstance(one, FunctionType | type)):
                self._follow_all(one, {*SETTING}, [])
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
        plain = [*node.args.posonlyargs, *node.args.args]
        last = plain[len(plain) - len(node.args.defaults) :]
        defaults = [*node.args.defaults, *node.args.kw_defaults]
        for each, default in zip((*last, *node.args.kwonlyargs), defaults, strict=True):
            if default is not None:
                self.stands_for[each.arg] = [*self.stands_for[each.arg], *self._along(default)]

    def _import(self, names: list[str]) -> None:
        if any(each.partition(".")[0] in ("pysandbox", "__main__") for each in names):
            self.acts.add(INTO_CAGES)

    def _bind(self, node: ast.AST) -> None:
        """Further names, for an object or for what is in it: `for row in TABLE.values()`."""
        value = getattr(node, "value", None) or getattr(node, "iter", None) or getattr(node, "context_expr", None)
        targets = getattr(node, "targets", [getattr(node, "target", None) or getattr(node, "optional_vars", None)])
        values: Sequence[ast.AST | None] = [value]
        if isinstance(value, ast.BoolOp | ast.IfExp):  # rows = given or ROWS
            values = value.values if isinstance(value, ast.BoolOp) else [value.body, value.orelse]
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and hasattr(node, "iter"):
            values = value.args  # for number, row in enumerate(ROWS)
        found = [each for value in values for each in self._in(value)]
        for entered in self._along(node.context_expr) if isinstance(node, ast.withitem) else ():
            self._follow_all(entered, {*ENTERING}, [])
        for each in [each for target in targets if target is not None for each in ast.walk(target)]:
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and found:
                self.stands_for[each.id] = [*self.stands_for.get(each.id, []), *found]

    def _in(self, value: ast.AST | None) -> list[object]:
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            value = value.func.value
        return self._along(value) if isinstance(value, ast.Name | ast.Attribute | ast.Subscript) else []

    # ---- which objects these are ------------------------------------------------------------------------------------

    def _along(self, node: ast.expr) -> list[object]:
        """The objects of `a`, `a.b`, and `a.b.c` in `a.b.c["x"]`, as far as they can be known without asking them."""
        names, innermost = list[str](), node
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            innermost = node
            names.insert(0, node.attr if isinstance(node, ast.Attribute) else "")
            node = node.func if isinstance(node, ast.Call) else node.value
        if not isinstance(node, ast.Name):
            return []
        around = vars(self.module)
        found = [*self.stands_for.get(node.id, [around[node.id]] if node.id in around else [])]
        for name in names:
            space = _space_of(found[-1]) if found else {}
            if name not in space:
                break
            found.append(space[name])
        if isinstance(innermost, ast.Call) and found and isinstance(found[0], FunctionType):
            found += self._returned(found[0])
        return found

    def _returned(self, function: FunctionType) -> list[object]:
        module, node = definition_of(function) or (self.module, None)
        if not isinstance(node, ast.FunctionDef) or self.looks_back:
            return []
        return _Acting(module, {}, is_called=True).returned_by(node)

    def returned_by(self, node: ast.FunctionDef) -> list[object]:
        """The objects that a function names as what it returns; not what functions return that it calls for that."""
        self.looks_back = True
        self._enter(node)
        values = [each.value for each in ast.walk(node) if isinstance(each, ast.Return) and each.value is not None]
        return [each for value in values for each in self._along(value) if each is not GIVEN]

    def _change(self, found: list[object]) -> None:
        self.acts |= {each if each is GIVEN else id(each) for each in found}

    def _call(self, called: ast.expr, *, for_effect: bool) -> None:
        """`register("csv")(read)` calls what `register` names, for "csv" and `read`."""
        nodes: list[ast.expr] = []
        while isinstance(called, ast.Call):
            nodes += [*called.args, *(each.value for each in called.keywords)]
            called = called.func
        given = [each for node in nodes for each in self._along(node.value if isinstance(node, ast.Starred) else node)]
        along, of_own = self._along(called), False
        asked = {each.attr for each in ast.walk(called) if isinstance(each, ast.Attribute)}
        for each in along:
            if is_of_cages(each):
                self.acts.add(INTO_CAGES)
            makes = MAKING if isinstance(each, type) else frozenset[str]()
            of_own = self._follow_bound(each, asked | makes | {"__call__"}, given) or of_own
        owner = self._along(called.value) if isinstance(called, ast.Attribute) else []
        if isinstance(called, ast.Attribute) and called.attr not in READING:
            makes_one = not for_effect and bool(owner) and isinstance(owner[-1], type)  # x = Model.load(path)
            self._change([] if makes_one else owner)
        elif GIVEN in along:
            self.acts.add(GIVEN)
        name = called.id if isinstance(called, ast.Name) and called.id in vars(builtins) else ""
        for each in (each for each in given if name and isinstance(each, FunctionType)):  # list(map(fill, range(3)))
            self._follow_all(each, set(), [])
        reads = (bool(name) and name not in CHANGING) or any(map(_is_reader, along))
        keeps = bool(owner) and isinstance(owner[-1], CONTAINERS)  # FOUND.append(TABLE) changes no TABLE
        if for_effect and not (of_own or reads or keeps):
            self._change([each for each in given if name or not isinstance(each, FunctionType | type)])

    def _follow_bound(self, found: object, asked: set[str], given: list[object]) -> bool:
        """What is called may be a `partial`, or `add = TABLE.append`. Whether it is one's own."""
        if isinstance(found, partial):
            return self._follow_all(found.func, asked, [*found.args, *found.keywords.values(), *given])
        if isinstance(found, MethodType | BuiltinMethodType) and not isinstance(found.__self__, ModuleType | None):
            if found.__name__ not in READING:
                self._change([found.__self__])
            return self._follow_all(found.__self__, {found.__name__}, given)
        return self._follow_all(found, asked, given)

    def _follow_all(self, found: object, asked: set[str], given: list[object]) -> bool:
        """Whether it is one's own."""
        if definition_of(found) is None:
            return False
        for place in _parts_that_run(found, asked):
            self._follow(*place, given)
        return True

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
