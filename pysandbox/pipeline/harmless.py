"""Which statements must not be made again in a cage: those of the program itself.

    main()                              # calls into cages, reads the host's files, ends the program
    for each in items: parse(each)      # where `parse` is sandboxed, or calls what is

One that calls into a cage, itself or by whatever it calls, stays here. So does one that runs at this moment: it has not
had its effect yet. A function of one's own is called in a cage only where all that it does is to compute, and to change
containers: it names nothing but data, classes and functions of one's own, and PURE modules.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

from pysandbox.pipeline.changes import (
    CHANGING,
    DEEPEST,
    called_in,
    changes_in,
    definition_of,
    first_line,
    is_own_class,
    is_own_function,
    is_own_module,
    named_by,
    statements_of,
)
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.shapes import Any

PURE = frozenset(("math", "cmath", "itertools", "operator", "functools", "collections", "re", "struct", "string"))
READING = frozenset(("get", "items", "keys", "values", "copy", "count", "index", "join", "split", "strip", "lower",
                     "upper", "format", "startswith", "endswith", "replace", "encode", "decode"))  # fmt: skip
COMPUTING = frozenset((
    "abs", "all", "any", "bin", "bool", "bytearray", "bytes", "chr", "complex", "dict", "divmod", "enumerate", "filter",
    "float", "frozenset", "hash", "hex", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min",
    "next", "oct", "ord", "pow", "range", "repr", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "type",
    "zip",
))  # fmt: skip
OUTWARD = (ast.With, ast.AsyncWith, ast.Import, ast.ImportFrom, ast.Await, ast.AsyncFor, ast.Yield, ast.YieldFrom)
DATA = (str, bytes, bytearray, int, float, complex, tuple, list, dict, set, frozenset, type(None))


# ---- calls into cages ------------------------------------------------------------------------------------------------


def is_about_cages(statement: ast.stmt, around: Mapping[str, Any]) -> bool:
    """Whether it calls into one, or makes one: that is the program's own part, and no cage could do it."""
    followed: list[object] = []
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        named: list[ast.AST] = []
        followed += [_function_of(called_in(each), around) for each in statement.decorator_list]
    else:
        named = [statement]
    names = {each.id for node in named for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in around}
    if any(_is_of_cages(around[each]) for each in names):
        return True
    for node in named:
        for each in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
            followed += _called(each, around)
    return _leads_to_cages(followed)


def _is_of_cages(found: object) -> bool:
    homes = (
        [found.__name__]
        if isinstance(found, ModuleType)
        else [getattr(found, "__module__", ""), type(found).__module__]
    )
    return any(isinstance(each, str) and each.partition(".")[0] == "pysandbox" for each in homes)


def _called(call: ast.Call, around: Mapping[str, Any]) -> Iterator[object]:
    """What is called, and what it is given, where it may call that: `run(main)`."""
    called = called_in(call)
    function = _function_of(called, around)
    yield function
    if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Call):  # Runner().go()
        yield named_by(called_in(called.value), around)
    if isinstance(function, FunctionType) and not _calls_what_it_is_given(function):
        return
    if isinstance(called, ast.Attribute) and called.attr in CHANGING and not isinstance(function, FunctionType):
        return
    if function is not None:
        yield from (named_by(each, around) for each in [*call.args, *(each.value for each in call.keywords)])


def _function_of(called: ast.expr, around: Mapping[str, Any]) -> object:
    function = named_by(called, around)
    if function is None and isinstance(called, ast.Attribute):
        return getattr(type(named_by(called.value, around)), called.attr, None)
    return function


def _calls_what_it_is_given(function: FunctionType) -> bool:
    node = definition_of(function)
    if node is None:
        return True
    given = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    return any(isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in given
               for each in ast.walk(node))  # fmt: skip


def _leads_to_cages(found: Iterable[object]) -> bool:
    """By every name that the code of functions and classes of one's own has, and theirs, however deep."""
    left, seen = list(found), set[int]()
    while left:
        each = left.pop()
        if id(each) in seen or each is None:
            continue
        seen.add(id(each))
        if _is_of_cages(each):
            return True
        if isinstance(each, type):
            left += [getattr(inner, "__func__", inner) for inner in vars(each).values()] if is_own_class(each) else []
        elif isinstance(each, FunctionType) and is_own_function(each):
            names = set(mentioned(each.__code__))
            if any(name.partition(".")[0] == "pysandbox" for name in names):
                return True
            here = [each.__globals__[name] for name in names if name in each.__globals__]
            modules = [one for one in here if is_own_module(one)]
            left += [*here, *(vars(module)[name] for module in modules for name in names if name in vars(module))]
            left += [cell.cell_contents for cell in each.__closure__ or () if cell != type(cell)()]
        elif is_own_class(type(each)):
            left.append(type(each))
    return False


def mentioned(code: CodeType) -> Iterator[str]:
    """Every name that it, and what is defined in it, looks up."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from mentioned(each)


# ---- what runs at this moment ----------------------------------------------------------------------------------------


def running_statements() -> frozenset[tuple[str, int]]:
    """The modules and first lines of those that change something, and are not over, in whichever thread."""
    found = set()
    for frame in sys._current_frames().values():
        while frame is not None:
            if frame.f_code.co_name == "<module>":
                found |= _running_in(frame.f_globals, frame.f_lineno)
            frame = frame.f_back  # type: ignore[assignment]
    return frozenset(found)


def _running_in(around: Mapping[str, Any], line: int) -> set[tuple[str, int]]:
    name = around.get("__name__", "")
    module = sys.modules.get(name)
    if not is_own_module(module) or vars(module) is not around:
        return set()
    there = [each for each in statements_of(module) if line in range(first_line(each), (each.end_lineno or 0) + 1)]
    return {(name, each.lineno) for each in there if next(changes_in(each), None) is not None}


# ---- what computes, and changes containers ---------------------------------------------------------------------------


def is_harmless(function: object, depth: int = 0) -> bool:
    """Whether to call it does no more than that."""
    if isinstance(function, type) and is_own_class(function):
        made = [getattr(function, each, None) for each in ("__init__", "__new__", "__post_init__")]
        return type(function) is type and all(
            is_harmless(each, depth) for each in made if isinstance(each, FunctionType)
        )
    if not isinstance(function, FunctionType):
        return False
    node = definition_of(function) if is_own_function(function) and depth < DEEPEST else None
    if node is None or any(isinstance(each, OUTWARD) for each in ast.walk(node)):
        return False
    here = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    here |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    inner = {each.name for each in ast.walk(node) if isinstance(each, ast.FunctionDef)} - {node.name}
    around = {name: each for name, each in function.__globals__.items() if name not in here | inner}
    names = {each.id for part in node.body for each in ast.walk(part) if isinstance(each, ast.Name)}
    return all(_is_known(around[name]) for name in names if name in around) and all(
        _is_harmless_call(each, around, here, inner, depth + 1)
        for part in node.body for each in ast.walk(part) if isinstance(each, ast.Call)
    )  # fmt: skip


def _is_known(found: object) -> bool:
    if _is_of_cages(found):
        return False
    if isinstance(found, ModuleType):
        return is_own_module(found) or found.__name__ in PURE
    if isinstance(found, type | FunctionType | BuiltinFunctionType):
        module = getattr(found, "__module__", None)
        return module in PURE or module == "builtins" or is_own_module(sys.modules.get(module or ""))
    return isinstance(found, DATA) or type(found).__module__ in PURE or is_own_class(type(found))


def _is_harmless_call(call: ast.Call, around: Mapping[str, Any], here: set[str], inner: set[str], depth: int) -> bool:
    called = call.func
    if isinstance(called, ast.Name) and called.id not in around:
        of_python = getattr(builtins, called.id, None)
        is_error = isinstance(of_python, type) and issubclass(of_python, Exception)
        return called.id in inner or (called.id not in here and (called.id in COMPUTING or is_error))
    found = named_by(called, around)
    if found is not None:
        return getattr(found, "__module__", None) in PURE or is_harmless(found, depth)
    return isinstance(called, ast.Attribute) and is_harmless_method(called, around, depth)


def is_harmless_method(called: ast.Attribute, around: Mapping[str, Any], depth: int = 0) -> bool:
    """One of a container or text, by its name; one of an object of one's own, by what it says."""
    owner = named_by(called.value, around)
    if isinstance(owner, ModuleType):
        return False
    if owner is not None and is_own_class(type(owner)):
        return is_harmless(getattr(type(owner), called.attr, None), depth)
    return called.attr in CHANGING | READING
