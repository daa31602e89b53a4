"""What a statement changes as it runs, itself and by the functions of one's own that it calls.

    HANDLERS["csv"] = read      del TABLE[0]      TABLE += rows     it sets or deletes an item or attribute
    TABLE.append(1)             random.shuffle(TABLE)               it calls a library for nothing but its effect
    fill()      note(TABLE, 1)      @register("csv")                what the text of these does with what they are given

Nothing is run: texts are read, and a name stands for the objects that it may be here. What is in one counts as it. A
library's text is not read. Where nobody keeps the result, its method changes the object and its function what it is
given first; where somebody does, only a method of a dict, list, set or deque does.

`NAME = ...` at the top of a module is there for NAME. What it changes besides is kept apart, `aside`: it goes into a
cage where NAME does, and not for that, since what its right side names, a password perhaps, would come along.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache, partial
from types import BuiltinMethodType, FunctionType, MethodType, ModuleType

from pysandbox.pipeline.shipping import is_of_the_file, is_ones_own, origin_of, top_statements
from pysandbox.pipeline.standing import FunctionText, MadeHere, behind, is_veiled, key_of, names_in, once
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    from pysandbox.pipeline.standing import Function, Given, Names

    Seen: TypeAlias = dict[ast.AST, dict[object, "Effect"]]  # of each function, by what it is given

INTO_CAGES = "a call into a cage"
DEEPEST = 20  # of calls in one another; what is deeper is taken for a call into a cage, and stays
WAYS = 8  # in which a statement calls one function, each with other objects; further ones: as if without any
CONTAINERS = (dict, list, set, deque)
READING = frozenset(("copy", "count", "difference", "elements", "fromkeys", "get", "index", "intersection",
                     "isdisjoint", "issubset", "issuperset", "items", "keys", "most_common", "symmetric_difference",
                     "total", "union", "values"))  # fmt: skip
# What these give is in what they are asked of, or are given.
GIVING = frozenset(("enumerate", "get", "items", "iter", "next", "reversed", "setdefault", "values", "zip"))
READERS = frozenset(("json", "logging", "pickle", "pprint", "warnings"))  # modules whose functions only read
UNTOUCHED: tuple[type, ...] = (MethodType, FunctionType, type)  # by functions of libraries


class Effect(NamedTuple):
    """What is changed: ids of objects, (module, name) of what is bound anew, and INTO_CAGES; what a call returns; and
    what a library's method was called on whose result is kept."""

    acts: set[object]
    aside: set[object]
    returned: list[object]
    asked: list[object]


def effect_of(module: ModuleType, statement: ast.stmt, seen: Seen) -> Effect:
    """`seen` is kept from one to the next, by whoever asks for many while nothing else runs."""
    return _Follower(module, {}, seen, {}, 0).over([statement])


@lru_cache(1024)
def statements_of(module: ModuleType) -> list[ast.stmt]:
    """None of a module without a source."""
    with suppress(TypeError, OSError):
        return top_statements(module)
    return []


def binds(node: ast.AST) -> bool:
    """Whether it is an assignment, to nothing but names."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    inner = [type(each) for target in targets for each in ast.walk(target)]
    return bool(targets) and ast.Attribute not in inner and ast.Subscript not in inner


def is_of_cages(found: object) -> bool:
    if isinstance(found, FunctionText | MadeHere):
        return False
    home = found.__name__ if isinstance(found, ModuleType) else getattr(found, "__module__", "")
    return any(str(each).partition(".")[0] == "pysandbox" for each in (home, type(found).__module__))


def is_own(kind: object) -> bool:
    return is_ones_own(sys.modules.get(str(getattr(kind, "__module__", ""))))


def hears(found: object) -> bool:
    """Whether it is told of classes below it."""
    above = found.__mro__ if isinstance(found, type) else ()
    return is_own(type(found)) or any(is_own(each) and "__init_subclass__" in vars(each) for each in above)


@lru_cache(1024)
def _functions(module: ModuleType) -> dict[tuple[int, str], list[Function]]:
    """By the first line and the name that their code has."""
    found: dict[tuple[int, str], list[Function]] = {}
    for each in (each for statement in statements_of(module) for each in ast.walk(statement)):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            line = min([each.lineno, *(mark.lineno for mark in getattr(each, "decorator_list", ()))])
            found.setdefault((line, getattr(each, "name", "<lambda>")), []).append(each)
    return found


def _text_of(function: FunctionType) -> FunctionText | None:
    """None of a library's. What a library's decorator has wrapped is in `__wrapped__`."""
    module, code = sys.modules.get(function.__module__ or ""), function.__code__
    if not is_ones_own(module) or not is_of_the_file(module, code.co_filename):
        wrapped = vars(function).get("__wrapped__")
        return _text_of(wrapped) if isinstance(wrapped, FunctionType) else None
    nodes, names = _functions(module).get((code.co_firstlineno, code.co_name), []), dict[str, list[object]]()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            names[name] = [cell.cell_contents]
    last, given = code.co_varnames[: code.co_argcount][::-1], (function.__defaults__ or ())[::-1]
    defaults = [*zip(last, given, strict=False), *(function.__kwdefaults__ or {}).items()]
    return FunctionText(module, nodes[0], names, {key: [each] for key, each in defaults}) if len(nodes) == 1 else None


def _member(found: object, name: str, after: object = None) -> list[object]:
    """An attribute, where it is there without running anything; for super() of the classes `after` one."""
    if isinstance(found, ModuleType):
        return [vars(found)[name]] if name in vars(found) else []
    kind = found if isinstance(found, type) else found.kind if isinstance(found, MadeHere) else type(found)
    own = getattr(found, "__dict__", None) if found is not kind and not after and is_own(kind) else None
    if isinstance(own, dict) and name in own:
        return [own[name]]
    meta: type = type(kind)
    above = kind.__mro__ + (meta.__mro__ if found is kind else ())
    for each in above[above.index(after) + 1 if isinstance(after, type) and after in above else 0 :]:
        if name in vars(each):
            raw = vars(each)[name]
            if isinstance(raw, classmethod):
                return [MethodType(raw.__func__, kind)]
            if isinstance(raw, FunctionType) and (found is not kind or each not in kind.__mro__):
                return [MethodType(raw, found)]
            return [] if isinstance(raw, property) else [getattr(raw, "__func__", raw)]
    return []


class _Follower:
    """Reads a statement, or the body of a function."""

    def __init__(self, module: ModuleType, names: Names, seen: Seen, new: dict[ast.AST, int], depth: int) -> None:
        self.module, self.names, self.seen, self.new, self.depth = module, names, seen, new, depth
        self.effect = Effect(set(), set(), [], [])
        self.alone: ast.AST | None = None  # a call whose result nobody keeps

    def over(self, nodes: Iterable[ast.AST]) -> Effect:
        left = [*nodes][::-1]
        while left:
            node = left.pop()
            if self.depth == 0 and binds(node):
                inner = _Follower(self.module, self.names, self.seen, self.new, 1).over([node])
                self.effect.asked.extend(inner.asked)
                self.effect.aside.update(inner.acts)
                self.effect.acts.update(inner.acts & {INTO_CAGES})
                continue
            self._one(node)
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):  # these are made, not run
                left += [*ast.iter_child_nodes(node)][::-1]
        return self.effect

    def _one(self, node: ast.AST) -> None:
        match node:
            case ast.Expr(value):
                self.alone = getattr(value, "elt", value)
            case ast.Call():
                self._call(node, alone=node is self.alone)
            case ast.Assign(targets, value):
                self._bind(targets, value)
            case ast.AnnAssign(target, ast.expr() as value) | ast.NamedExpr(target, value):
                self._bind([target], value)
            case ast.For(target, value) | ast.AsyncFor(target, value):
                self._bind([target], value)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                for each in node.generators:
                    self._bind([each.target], each.iter)
            case ast.withitem(value, target):
                self._bind([target] if target else [], value)
                self._ask(value, "__enter__", "__exit__", "__aenter__", "__aexit__")
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._define(node)
            case ast.AugAssign(target):
                self._change(self._along(target))
            case ast.Subscript(value, ctx=ast.Store() | ast.Del()):
                self._change(self._along(value))
                self._ask(value, "__setitem__", "__delitem__")
            case ast.Attribute(value, name, ctx=ast.Store() | ast.Del()):
                self._change(self._along(value))
                self.effect.acts.update((e.__name__, name) for e in self._ends(value) if isinstance(e, ModuleType))
            case ast.Global(names):
                self.effect.acts.update((self.module.__name__, name) for name in names)
            case ast.Return(ast.expr() as value):
                self.effect.returned.extend(self._ends(value))
            case ast.Import(names) if self.depth:
                self._import(*(each.name for each in names))
            case ast.ImportFrom() if self.depth:
                self._import(origin_of(self.module, node))

    def _import(self, *names: str) -> None:
        if any(each.partition(".")[0] in ("pysandbox", "__main__") for each in names):
            self.effect.acts.add(INTO_CAGES)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        if self.depth:
            self.names[node.name] = (
                [] if isinstance(node, ast.ClassDef) else [FunctionText(self.module, node, self.names, {})]
            )
        for each in node.decorator_list:
            self._call(ast.Call(each, [ast.Name(node.name, ast.Load())], []), alone=True)
        for base in getattr(node, "bases", ()):
            if any(map(hears, self._ends(base))):
                self._change(self._ends(base))
                self._ask(base, "__init_subclass__")
                self._ask(ast.Call(ast.Name("type"), [base], []), "__new__", "__init__")

    def _bind(self, targets: list[ast.expr], value: ast.expr) -> None:
        """Further names, for what a value is or has: `for row in TABLE`."""
        found = self._ends(value)
        for each in (each for target in targets for each in ast.walk(target)):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                self.names[each.id] = once([*self._look(each.id), *found])

    def _change(self, found: Iterable[object]) -> None:
        self.effect.acts.update(
            id(each) for each in found if not isinstance(each, MadeHere | FunctionText | MethodType)
        )

    # ---- which objects these are ------------------------------------------------------------------------------------

    def _look(self, name: str) -> list[object]:
        around = vars(self.module)
        found = self.names[name] if name in self.names else [around[name]] if name in around else []
        return [each for each in found if not is_veiled(each)]

    def _along(self, node: ast.expr) -> list[object]:
        """The objects of `a`, `a.b` and `a.b[0]`, for the last of them."""
        inner = node.value if isinstance(node, ast.Attribute | ast.Subscript) else None
        return [*(self._along(inner) if inner else ()), *self._ends(node)]

    def _ends(self, node: ast.expr) -> list[object]:
        """What it may be, or be in."""
        match node:
            case ast.Name(name):
                return self._look(name)
            case ast.Attribute(ast.Call(ast.Name("super")), name):
                above = [(one, kind) for one in self._look("super()") for kind in self._look("__class__")]
                return [each for one, kind in above for each in _member(one, name, kind)]
            case ast.Attribute(value, name):
                inner = ((one, [e for e in _member(one, name) if not is_veiled(e)]) for one in self._ends(value))
                return once(
                    each
                    for one, has in inner
                    for each in has or ([] if isinstance(one, FunctionType | FunctionText) else [one])
                )
            case ast.Call(ast.Name("type"), [value]):
                return [type(each) for each in self._ends(value)]
            case ast.Call(ast.Attribute(value, name)) | ast.Call(ast.Name(name), [value, *_]) if name in GIVING:
                return self._ends(value)
            case ast.Call(function):
                given = self._given(node)
                return once(each for one in self._ends(function) for each in self._follow(one, given) or ())
            case ast.Subscript(value) | ast.Starred(value) | ast.Await(value) | ast.NamedExpr(value=value):
                return self._ends(value)
            case ast.Lambda():
                return [FunctionText(self.module, node, self.names, {})]
            case ast.BoolOp() | ast.IfExp() | ast.List() | ast.Tuple() | ast.Set():
                values = [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
                return once(each for one in values for each in self._ends(one))
        return []

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _given(self, node: ast.Call) -> Given:
        given: Given = {"*": []}
        for at, each in enumerate(node.args):
            given["*" if isinstance(each, ast.Starred) else at] = self._ends(each)
        for one in node.keywords:
            given[one.arg or "*"] = self._ends(one.value)
        return given

    def _call(self, node: ast.Call, *, alone: bool) -> None:
        given, called, at = self._given(node), self._ends(node.func), node.func
        if any(map(is_of_cages, called)):
            self.effect.acts.add(INTO_CAGES)
        if [each for each in called if self._follow(each, given) is not None]:
            return
        while isinstance(at, ast.Call):  # @app.route("/")
            at = at.func
        name, owner = (at.attr, self._along(at.value)) if isinstance(at, ast.Attribute) else ("", [])
        for each in called:
            if isinstance(each, BuiltinMethodType) and not isinstance(each.__self__, ModuleType | None):
                name, owner = each.__name__, [*owner, each.__self__]  # add = TABLE.append
        if name not in READING and (alone or any(isinstance(each, CONTAINERS) for each in owner)):
            self._change(owner)
        if name not in READING and not name.startswith(("get", "find")):
            self.effect.asked.extend(owner)
        if isinstance(at, ast.Name) and hasattr(builtins, at.id):  # list(map(fill, range(3)))
            for each in [
                each for one in given.values() for each in one if isinstance(each, FunctionType | FunctionText)
            ]:
                self._follow(each, {})
            self._change(given.get(0, ()) if at.id in ("delattr", "setattr") else ())
        elif alone and all(isinstance(each, ModuleType) and each.__name__ not in READERS for each in owner):
            self._change(each for each in given.get(0, ()) if not isinstance(each, UNTOUCHED))

    def _ask(self, node: ast.expr, *names: str) -> None:
        for each in (each for one in self._ends(node) for name in names for each in _member(one, name)):
            self._follow(each, {})

    def _follow(self, found: object, given: Given) -> list[object] | None:
        """What it returns, where it is one's own; else None."""
        match found:
            case MethodType():
                return self._follow(found.__func__, behind([found.__self__], given))
            case partial():
                named: Given = {key: [each] for key, each in found.keywords.items()}
                return self._follow(found.func, named | behind(found.args, given))
            case FunctionType():
                text = _text_of(found)
                return None if text is None else self._enter(text, given)
            case FunctionText():
                return self._enter(found, given)
            case type() if is_own(found):
                made = MadeHere(found)
                for name in ("__new__", "__init__", "__post_init__"):
                    for each in _member(made, name):
                        self._follow(each, given)
                return [made]
            case type() | ModuleType() | BuiltinMethodType():
                return None
        inner = [each for name in ("__call__", "__wrapped__") for each in _member(found, name)]
        return next((self._follow(each, given) for each in inner if isinstance(each, MethodType | FunctionType)), None)

    def _enter(self, text: FunctionText, given: Given) -> list[object]:
        if self.depth >= DEEPEST:
            self.effect.acts.add(INTO_CAGES)
            return []
        key, ways = key_of(text, given), self.seen.setdefault(text.node, {})
        if key not in ways:
            self.new[text.node] = self.new.get(text.node, 0) + 1
            if self.new[text.node] > WAYS:
                key, given = (), {}
        if key not in ways:
            ways[key] = Effect(set(), set(), [], [])  # of one that calls itself
            body = text.node.body if isinstance(text.node.body, list) else [text.node.body]
            run = _Follower(text.module, names_in(text, given), self.seen, self.new, self.depth + 1).over(body)
            ways[key] = run._replace(returned=once(run.returned))
        self.effect.acts.update(ways[key].acts)
        return ways[key].returned
