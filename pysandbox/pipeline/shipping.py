"""How a function gets into a cage: by name where it is installed, else as the part of its module's source it needs.

A module of the interpreter's own places (sys.prefix) is shown to the cage with the interpreter, and imported there. Of
any other, the cage may see nothing: the definition of the function is sent, and the definitions, imports and constants
at the top of its module that it names, and those that these name. Nothing else of the module runs, so a script needs no
`if __name__ == "__main__"`. What cannot be found in a source is refused by name.
"""

from __future__ import annotations

import ast
import builtins
import os
import symtable
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib.util import resolve_name

from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from types import ModuleType
    from typing import TypeGuard

    from pysandbox.shapes import Any


IN_A_FILE = "what standard input, -c or a prompt gave Python is in no file: write it to one, and run or import that"


class Definition(NamedTuple):
    """At the top of its module by name, and for a function its line; or by `source`, of one in another function. With
    `alone` nothing of its module's source goes with it. Without a name it is the statement that begins there."""

    name: str
    line: int = 0
    source: str = ""
    alone: bool = False
    column: int = 0


WHOLE = Definition("*")  # all of a module


class Shipped(NamedTuple):
    """A function by its names; `definition` where its module is not imported in the cage."""

    module: str
    name: str
    definition: Definition | None


def shipped(function: Callable[..., Any], *, nested: bool = False) -> Shipped:
    """With `nested` also one that is defined in another function, and uses nothing from there. Raises TypeError."""
    kind = _refused_kind(function, nested)
    if kind:
        raise TypeError(f"{getattr(function, '__qualname__', function)!r} cannot be called in a cage: it is {kind}; "
                        "define a plain function at the top of a module")  # fmt: skip
    module, code = _module_of(function), function.__code__
    if is_installed(module):
        return Shipped(module.__name__, function.__qualname__, None)
    if is_decorated(function):
        return _as_decorated(module, function)
    elsewhere = not is_of_the_file(module, code.co_filename)
    own = source_of(function) if elsewhere or "<locals>" in function.__qualname__ else ""
    if elsewhere:
        own = f"{own}\n{_imports_of(function, own)}"
    definition = Definition(function.__name__, code.co_firstlineno, own, elsewhere)
    # Refused now rather than when it is called. Who decorates has only a part of its module yet: that is not kept.
    look = needed_source if nested else needed_source.__wrapped__
    look(module, frozenset((definition,)))
    return Shipped(function.__module__, function.__name__, definition)


def _module_of(function: Callable[..., Any]) -> ModuleType:
    """Raises TypeError for one that exec() has made in a namespace that is no module's."""
    module = sys.modules.get(function.__module__ or "")
    if module is None:
        raise TypeError(f"{function.__qualname__!r} cannot be called in a cage: its module, {function.__module__!r}, "
                        "is not imported; write it to a file, and import that")  # fmt: skip
    return module


def is_decorated(function: Callable[..., Any]) -> bool:
    """Whether it is what a decorator has made of the one that has its name."""
    return hasattr(function, "__wrapped__") or function.__code__.co_qualname != function.__qualname__


def _as_decorated(module: ModuleType, function: Callable[..., Any]) -> Shipped:
    """With its decorators, by its name. Raises TypeError."""
    name = function.__qualname__
    if getattr(module, name, None) is not function:
        raise TypeError(f"{name!r} cannot be called in a cage: it has other decorators, too; decorate a plain function "
                        "that calls it")  # fmt: skip
    definition = Definition(name)
    needed_source(module, frozenset((definition,)))
    return Shipped(module.__name__, name, definition)


def _refused_kind(function: Callable[..., Any], nested: bool) -> str:
    import inspect

    if not inspect.isfunction(function):
        return "no plain function"
    if function.__name__ == "<lambda>":
        return "a lambda, and not written with def"
    if function.__code__.co_freevars and nested and "<locals>" in function.__qualname__:
        return f"in another function, and uses {', '.join(function.__code__.co_freevars)} from there"
    if "<locals>" in function.__qualname__ and not nested:
        return "defined in another function"
    if "." in function.__qualname__.rpartition("<locals>.")[2]:
        return "a method"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "a generator"
    return "a coroutine" if inspect.iscoroutinefunction(function) else ""


def is_sandboxed(found: object) -> bool:
    return type(found).__name__ == "SandboxedFunction"


def is_installed(module: ModuleType) -> bool:
    """Whether a cage that is shown the interpreter can import it."""
    file = getattr(module, "__file__", None)
    return module.__name__ != "__main__" and (not file or _is_below_the_interpreter(file))


def is_ones_own(module: ModuleType | None) -> TypeGuard[ModuleType]:
    """Whether it is of a file that a cage may not see."""
    return module is not None and getattr(module, "__file__", None) is not None and not is_installed(module)


@cache
def _is_below_the_interpreter(file: str) -> bool:
    return os.path.realpath(file).startswith(_places_of_the_interpreter())


@cache
def _places_of_the_interpreter() -> tuple[str, ...]:
    return tuple(f"{os.path.realpath(each)}/lib" for each in {sys.prefix, sys.base_prefix, sys.exec_prefix})


@lru_cache(1024)
def is_of_the_file(module: ModuleType, file: str) -> bool:
    """Whether what was compiled from there is in the module's source: not so what a notebook has, or exec(3)."""
    import inspect

    try:
        return os.path.realpath(inspect.getsourcefile(module) or "") == os.path.realpath(file)
    except TypeError:
        return False


def _imports_of(function: Callable[..., Any], source: str) -> str:
    """Statements for the modules that it names. Raises TypeError for what else it uses."""
    from types import ModuleType as Module

    around: dict[str, Any] = getattr(function, "__globals__", {})
    definition = next(each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef))
    definition.decorator_list = []
    used = [(name, around[name]) for name in sorted({*_names(definition)}) if name in around]
    if values := [name for name, each in used if not isinstance(each, Module) and name != function.__name__]:
        raise TypeError(f"{function.__name__!r} cannot be called in a cage: it uses {', '.join(values)} from around "
                        "it, and their source is in no file; define it in the function, or pass it")  # fmt: skip
    return "".join(f"import {each.__name__} as {name}\n" for name, each in used if isinstance(each, Module))


def source_of(found: Any) -> str:
    """Raises TypeError."""
    import inspect

    try:
        source = inspect.getsource(found)
        return source if inspect.ismodule(found) else textwrap.dedent(source)
    except (OSError, TypeError) as error:
        what = "a function of '__main__'" if found.__name__ == "__main__" else repr(found.__name__)
        raise TypeError(f"{what} cannot be called in a cage: its source is not found ({error}); {IN_A_FILE}") from None


@lru_cache(1024)
def text_of(module: ModuleType) -> str:
    """All of its source; none where there is none."""
    try:
        return source_of(module)
    except (TypeError, OSError):
        return ""


@lru_cache(256)
def needed_source(module: ModuleType, definitions: frozenset[Definition]) -> str:
    """The statements of a module that some definitions need. Raises TypeError."""
    statements = [] if all(each.alone for each in definitions) else top_statements(module)
    targets: list[ast.stmt] = []
    for wants in definitions:
        if wants == WHOLE:
            targets += statements
            continue
        if not wants.name:
            targets += [each for each in statements if (each.lineno, each.col_offset) == (wants.line, wants.column)]
            continue
        targets += [_function(statements, wants)] if wants.line else _binding(module, statements, wants.name)
        targets += [each for each in ast.parse(wants.source).body if isinstance(each, ast.Import)]
    for each in (each for statement in statements for each in at_top(statement)):
        if isinstance(each, ast.FunctionDef) and is_sandboxed(getattr(module, each.name, None)):
            each.decorator_list = []  # in the cage it is called as a function; what only these name stays here
    wanted, kept = {name for each in targets for name in _names(each)}, {id(each): each for each in targets}
    while more := [each for each in statements if id(each) not in kept and wanted & set(bound_in(module, each))]:
        for each in more:
            kept[id(each)] = each
            wanted |= set(_names(each))
    body = [each for each in statements if _is_future(each) and id(each) not in kept]
    return _in_its_lines([*body, *kept.values()])


def top_statements(module: ModuleType) -> list[ast.stmt]:
    """The statements of a module that a cage may get. Raises TypeError, OSError."""
    return list(_outermost(_tree_of(module).body))


def _tree_of(module: ModuleType) -> ast.Module:
    """Raises TypeError."""
    try:
        tree = ast.parse(source_of(module))
    except SyntaxError as error:
        raise TypeError(f"{module.__name__!r} cannot be sent to a cage: its source is not found ({error})") from None
    if module.__name__ == "__main__":  # of `python -m`: in the cage it is in no package
        for each in ast.walk(tree):
            if isinstance(each, ast.ImportFrom) and each.level:
                each.module, each.level = origin_of(module, each), 0
    return tree


def _function(statements: list[ast.stmt], wanted: Definition) -> ast.stmt:
    """Without its one decorator, and in the line where it stands; where that is below a condition, `with` or `try`, all
    of this. Raises TypeError."""
    if wanted.source:
        statements = [each for each in ast.parse(wanted.source).body if isinstance(each, ast.FunctionDef)]
        for each in statements:
            ast.increment_lineno(each, wanted.line - 1)
    found = ((outer, each) for outer in statements for each in at_top(outer) if isinstance(each, ast.FunctionDef))
    for outer, each in found:
        if each.name == wanted.name and wanted.line in range(_first_line(each), (each.end_lineno or 0) + 1):
            if len(each.decorator_list) > 1:
                raise TypeError(f"{wanted.name!r} cannot be called in a cage: it has other decorators, too")
            each.decorator_list = []
            return outer
    raise TypeError(f"{wanted.name!r} cannot be called in a cage: it is not at the top of its module, or below "
                    '`if __name__ == "__main__"` or `if TYPE_CHECKING`')  # fmt: skip


def _binding(module: ModuleType, statements: list[ast.stmt], name: str) -> list[ast.stmt]:
    """What defines a class, a constant, or a function with its decorators. Raises TypeError."""
    found = [each for each in statements if name in bound_in(module, each)]
    if not found:
        raise TypeError(f"{name!r} cannot be sent to a cage: it is not defined at the top of its module")
    return [each for each in found if isinstance(each, ast.FunctionDef)] or found


def _in_its_lines(body: list[ast.stmt]) -> str:
    """The statements, each in the line where it stood, so that a traceback tells its number."""
    lines: list[str] = []
    for each in sorted(body, key=lambda each: each.lineno):
        text = ast.unparse(each).split("\n")
        lines += [""] * (each.lineno - 1 - len(lines))
        lines += text
    return "\n".join(lines) + "\n"


def _first_line(node: ast.FunctionDef) -> int:
    return min([node.lineno, *(each.lineno for each in node.decorator_list)])


def _outermost(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements but conditions that ask whether this is the script itself, or whether a type checker reads it."""
    for each in body:
        if isinstance(each, ast.If) and ("__main__" in ast.dump(each.test) or "TYPE_CHECKING" in ast.dump(each.test)):
            continue
        yield each


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _names(node: ast.AST) -> Iterator[str]:
    """What it looks up outside of itself: a function's own variable may be called as something of the module is."""
    yield from _looked_up(symtable.symtable(ast.unparse(node), "<names>", "exec"))
    for each in at_top(node):
        if isinstance(each, ast.AugAssign) and isinstance(each.target, ast.Name):
            yield each.target.id


def _looked_up(table: symtable.SymbolTable) -> Iterator[str]:
    is_function = table.get_type() not in ("module", "class")
    for each in table.get_symbols():
        if (each.is_global() if is_function else each.is_referenced()) and not hasattr(builtins, each.get_name()):
            yield each.get_name()
    for child in table.get_children():
        yield from _looked_up(child)


def bound_in(module: ModuleType, node: ast.stmt) -> Iterator[str]:
    for each in at_top(node):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield each.name
        elif isinstance(each, ast.ImportFrom) and each.names[0].name == "*":
            yield from _exported_by(origin_of(module, each))
        elif isinstance(each, ast.alias):
            yield (each.asname or each.name).partition(".")[0]
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id


def at_top(node: ast.AST) -> Iterator[ast.AST]:
    """A statement, and what runs with it: not what is in functions and classes."""
    yield node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        for each in ast.iter_child_nodes(node):
            yield from at_top(each)


def bound_by(module: ModuleType, source: str) -> list[str]:
    """The names that the statements of a part of it bind."""
    return [name for each in ast.parse(source).body for name in bound_in(module, each)]


def _exported_by(name: str) -> list[str]:
    """What `from name import *` binds."""
    around = vars(sys.modules[name]) if name in sys.modules else {}
    names: list[str] = around.get("__all__") or [each for each in around if not each.startswith("_")]
    return names


def origin_of(module: ModuleType, node: ast.ImportFrom) -> str:
    """The module that it names; "" where there can be none."""
    if not node.level:
        return node.module or ""
    package = module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0]
    if module.__name__ == "__main__":
        package = module.__package__ or ""
    try:
        return resolve_name("." * node.level + (node.module or ""), package)
    except ImportError:
        return ""
