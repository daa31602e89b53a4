"""What modules of one's own do, as they run, to something that goes into a cage.

    HANDLERS = {}                                   # registry.py; a function that names HANDLERS has it in its cage
    for each in range(256): TABLE.append(...)       # a statement that nobody names, and without it TABLE is empty
    @register("csv")                                # csv_files.py, which is imported for nothing else

Such a statement goes along, with what it needs, whoever has imported its module: in this program it has had its effect.
In the module that defines the object, or that of the function itself, that is so of any value. Any other module only
registers: its functions and classes go along, and what it sets under a key that the sent code says in so many words. A
value that nobody names, which may be a secret, stays here. What is the program's own part does, too (`harmless`).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from types import FunctionType, ModuleType

from pysandbox.pipeline.changes import (
    CHANGING,
    CONTAINERS,
    ObjectChange,
    arguments_of,
    called_in,
    changed_by,
    changes_in,
    is_own_class,
    is_own_function,
    is_own_module,
    keys_of,
    named_by,
    objects_along,
    statements_of,
)
from pysandbox.pipeline.harmless import is_about_cages, is_harmless, is_harmless_method, mentioned
from pysandbox.pipeline.shipping import Definition, bound_by
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.shapes import Any

ASKING = frozenset(("get", "pop", "setdefault", "__getitem__"))
OF_ITSELF = CHANGING - {"pop", "popitem", "popleft", "setdefault"}  # methods that tell nothing of what is in there


def effects_on(
    sources: Mapping[str, str], callers: Collection[str], running: Collection[tuple[str, int]] = ()
) -> Iterator[tuple[str, Definition]]:
    """The statements of all of one's own modules that change what the sent parts of modules bind; `callers` are the
    modules of the functions that are sent, and a statement that is running has had no effect yet."""
    sent = _Sent(sources, callers)
    for name, module in list(sys.modules.items()):
        if not sent.changeable or not is_own_module(module) or not sent.may_be_reached_by(module):
            continue
        for statement, changes in _changing_statements(module):
            if (name, statement.lineno) not in running and sent.is_changed_by(module, statement, changes):
                yield name, Definition("", statement.lineno, column=statement.col_offset)


@lru_cache(256)
def _changing_statements(module: ModuleType) -> list[tuple[ast.stmt, list[ObjectChange]]]:
    found = ((each, list(changes_in(each))) for each in statements_of(module))
    return [(each, changes) for each, changes in found if changes]


def _can_be_changed(found: object) -> bool:
    if isinstance(found, FunctionType):
        return bool(vars(found))
    return isinstance(found, CONTAINERS) or is_own_class(found if isinstance(found, type) else type(found))


class _Sent:
    """The objects that sent code binds, and how it uses them."""

    def __init__(self, sources: Mapping[str, str], callers: Collection[str]) -> None:
        self.modules = [sys.modules[name] for name in sources]
        self.values: set[int] = set()
        self.changeable: dict[int, object] = {}
        self.near: dict[int, set[str]] = {}  # the modules of which any change of an object goes along
        self.keys: set[tuple[int, object]] = set()  # of an object, by its number; of whichever, by 0
        self.whole: set[int] = set()  # objects that are used in another way than by literal keys
        self.by_key: set[int] = set()  # and those that are used so, or changed
        for name, source in sources.items():
            module = sys.modules[name]
            tree = ast.parse(source)
            for each in bound_by(module, source):
                found = vars(module).get(each)
                self.values.add(id(found))
                if each in vars(module) and _can_be_changed(found):
                    self.changeable[id(found)] = found
                    self.near.setdefault(id(found), set(callers))
            made_here = [each for each in tree.body if not isinstance(each, ast.Import | ast.ImportFrom)]
            for each in bound_by(module, ast.unparse(ast.Module(made_here, []))):
                self.near.setdefault(id(vars(module).get(each)), set(callers)).add(name)
            self._note_uses(tree, vars(module))

    def _note_uses(self, tree: ast.Module, around: Mapping[str, Any]) -> None:
        by_key: set[int] = set()  # nodes of the tree
        for node in ast.walk(tree):
            for of, key in _literal_use(node):
                found = named_by(of, around)
                self.keys.add((0 if found is None else id(found), key))
                by_key.add(id(of))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in OF_ITSELF:
                by_key.add(id(node.value))
            is_used = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
            if is_used and (found := named_by(node, around)) is not None:  # type: ignore[arg-type]
                (self.by_key if id(node) in by_key else self.whole).add(id(found))

    def may_be_reached_by(self, module: ModuleType) -> bool:
        """Whether it has one of the objects in its namespace, or a function, a class or the whole of their modules."""
        numbers = {id(each) for each in self.modules} | {id(vars(each)) for each in self.modules}
        for each in list(vars(module).values()):
            globals_of = each.__globals__ if isinstance(each, FunctionType) else None
            made_in = sys.modules.get(each.__module__) if isinstance(each, type) else None
            if id(each) in self.changeable or {id(each), id(globals_of), id(made_in)} & numbers:
                return True
        return False

    def is_changed_by(self, module: ModuleType, statement: ast.stmt, changes: Iterable[ObjectChange]) -> bool:
        around, changing = vars(module), False
        for change in changes:
            for found in changed_by(change, around):
                if id(found) in self.changeable:
                    if not self._goes_along(change, found, module):
                        return False
                    changing = True
        if not changing or is_about_cages(statement, around):
            return False
        near = set().union(*(self.near[each] for each in self.changeable))
        if module.__name__ not in near and not self._only_registers(statement, around):
            return False
        return all(_is_safe(each, around) for each in changes)

    def _only_registers(self, statement: ast.stmt, around: Mapping[str, Any]) -> bool:
        """Whether a condition, a loop or the like has nothing in it that would go along beside that."""
        if not isinstance(statement, ast.If | ast.For | ast.Try | ast.With | ast.While | ast.Match):
            return True
        targets = {each.target.id for each in ast.walk(statement)
                   if isinstance(each, ast.For) and isinstance(each.target, ast.Name)}  # fmt: skip
        names = [each for each in ast.walk(statement) if isinstance(each, ast.Name) and each.id not in targets]
        return not isinstance(statement, ast.With | ast.While) and all(
            isinstance(each.ctx, ast.Load) and not (each.id in around and self._is_value(around[each.id]))
            for each in names
        )

    def _is_value(self, found: object) -> bool:
        is_code = isinstance(found, type | FunctionType | ModuleType) or callable(found)
        return not is_code and id(found) not in self.values

    def _goes_along(self, change: ObjectChange, found: object, module: ModuleType) -> bool:
        if change.decorates or isinstance(change.node.ctx if hasattr(change.node, "ctx") else None, ast.Del):
            return True
        keys, around = keys_of(change), vars(module)
        node = change.node.func if isinstance(change.node, ast.Call) else change.node
        of = node.value if isinstance(node, ast.Attribute | ast.Subscript) else None
        directly = of is not None and named_by(of, around) is found
        if directly and keys:
            if any((number, key) in self.keys for number in (id(found), 0) for key in keys):
                return len(keys) == 1 or module.__name__ in self.near[id(found)]
            if id(found) in self.by_key - self.whole:
                return False
        return module.__name__ in self.near[id(found)] or self._registers(change, directly, around)

    def _registers(self, change: ObjectChange, directly: bool, around: Mapping[str, Any]) -> bool:
        """Whether all that it gives is functions and classes, names for them, and what is sent already."""
        given = arguments_of(change)
        if isinstance(change.node, ast.Subscript) and not _is_label(change.node.slice):
            return False
        if not given:
            return directly  # clear()
        if isinstance(change.node, ast.Call) and self._names_values(named_by(called_in(change.node), around)):
            return False
        kinds = [self._kind_of(each, around) for each in given]
        return "code" in kinds and "other" not in kinds

    def _names_values(self, found: object) -> bool:
        """Whether a function that only it calls, and so would go along, names a value that would not otherwise."""
        left, seen = [found], set[int]()
        while left:
            each = left.pop()
            if id(each) in seen or not isinstance(each, FunctionType) or not is_own_function(each):
                continue
            seen.add(id(each))
            if sys.modules.get(each.__module__) not in self.modules:
                here = [each.__globals__[name] for name in mentioned(each.__code__) if name in each.__globals__]
                if any(self._is_value(one) and id(one) not in self.changeable for one in here):
                    return True
                left += here
        return False

    def _kind_of(self, node: ast.expr, around: Mapping[str, Any]) -> str:
        if isinstance(node, ast.Lambda):
            return "code"
        if isinstance(node, ast.Constant):
            return "label"
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            parts = [*node.values, *node.keys] if isinstance(node, ast.Dict) else node.elts
            kinds = {"other" if each is None else self._kind_of(each, around) for each in parts}
            return next((kind for kind in ("other", "code") if kind in kinds), "label")
        found = named_by(node, around)
        if isinstance(found, type) or is_own_function(found):
            return "code"
        return "label" if found is not None and id(found) in self.values else "other"


def _is_label(key: ast.expr) -> bool:
    """Whether it can be had in the cage as here: `os.environ["NAME"]` cannot."""
    return not any(isinstance(each, ast.Call | ast.Subscript) for each in ast.walk(key))


def _literal_use(node: ast.AST) -> Iterator[tuple[ast.expr, object]]:
    """What is asked for which key: `of["key"]`, `of.get("key")`, `"key" in of`, `of.key`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        if not isinstance(node.ctx, ast.Store):
            yield node.value, node.slice.value
    elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant) and len(node.ops) == 1:
        if isinstance(node.ops[0], ast.In | ast.NotIn):
            yield node.comparators[0], node.left.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ASKING:
        yield from ((node.func.value, each.value) for each in node.args[:1] if isinstance(each, ast.Constant))


def _is_safe(change: ObjectChange, around: Mapping[str, Any]) -> bool:
    """A call for nothing but its effect is made again only where that does no more than to change containers."""
    if change.decorates or not isinstance(change.node, ast.Call):
        return True
    called = called_in(change.node)
    found = named_by(called, around)
    if found is not None:
        return is_harmless(found) if is_own_function(found) or isinstance(found, type) else True
    if not isinstance(called, ast.Attribute):
        return True
    if is_harmless_method(called, around):
        return True
    owner = objects_along(called.value, around)
    return bool(owner) and called.attr not in CHANGING and not is_own_class(type(owner[-1]))
