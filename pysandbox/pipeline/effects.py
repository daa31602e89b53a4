"""What modules do, as they run, to what of them goes into a cage: such statements go along.

    HANDLERS, TABLE = {}, []                        # a function that names them has them in its cage
    for each in range(256): TABLE.append(each * 2)  # nobody names this, and without it TABLE is empty there
    @register("csv")                                # the same, where `register` sets an item of HANDLERS

Of a module of which a part is sent each statement goes along that changes (`acting`) an object which the sent parts
bind. Two kinds stay: what leads to a call into a cage, which is the program's own part, and what is not over yet.
One that cannot be made again in the cage fails there, and is named in the error.

Other modules go whole where `modules=` names them. What those that are not sent have changed is told, and not done.
"""

from __future__ import annotations

import ast
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from types import FunctionType, ModuleType

from pysandbox.pipeline.acting import INTO_CAGES, Acts, acts_of, is_of_cages, statements_of
from pysandbox.pipeline.shipping import Definition, bound_by, is_ones_own, origin_of

CONSTANT = (str, bytes, int, float, complex, type(None), range, ModuleType)
# Modules of classes whose objects cannot be changed, and of what is a library's own.
UNCHANGING = frozenset(
    ("re", "pathlib", "datetime", "zoneinfo", "decimal", "fractions", "uuid", "ipaddress", "operator")
)
OF_LIBRARIES = frozenset(("logging", "os"))
DEEPEST, MOST = 3, 10_000  # of objects in one another, which are looked at
Running = frozenset[tuple[str, int]]


def effects_on(sources: Mapping[str, str], running: Running) -> Iterator[tuple[str, Definition]]:
    """What goes along with the sent parts of modules, by their names."""
    sent, seen = _sent(sources), dict[ast.AST, Acts]()
    for name in sources:
        yield from ((name, each) for each, acts in _own_acts(sys.modules[name], running, seen) if acts & sent.keys())


def effects_of_others(sources: Mapping[str, str], running: Running) -> Iterator[tuple[str, int, str]]:
    """What does not, of modules that are not sent: of each the first, by its line, and what is changed."""
    sent, seen = _sent(sources), dict[ast.AST, Acts]()
    for name, module in list(sys.modules.items()):
        if name not in sources and is_ones_own(module) and _reaches(module, sent, sources):
            for each, acts in _own_acts(module, running, seen):
                if found := acts & sent.keys():
                    yield name, each.line, sent[found.pop()]
                    break


def whole(module: ModuleType, running: Running) -> set[Definition]:
    """All of its statements that may go."""
    return {each for each, _ in _own_acts(module, running, {})}


def _sent(sources: Mapping[str, str]) -> dict[object, str]:
    """What `acting` calls the objects and names that are sent, and how they are called."""
    names = ((name, each) for name, source in sources.items() for each in bound_by(sys.modules[name], source))
    return {**{each: ".".join(each) for each in names}, **{id(each): name for each, name in _objects(sources)}}


def _reaches(module: ModuleType, sent: Mapping[object, str], sources: Collection[str]) -> bool:
    """Whether it has any of these, or something of the modules that are sent."""
    for each in list(vars(module).values()):
        home = each.__name__ if isinstance(each, ModuleType) else getattr(type(each), "__module__", "")
        if isinstance(each, FunctionType | type):
            home = each.__module__
        if id(each) in sent or home in sources:
            return True
    return False


def _own_acts(module: ModuleType, running: Running, seen: dict[ast.AST, Acts]) -> Iterator[tuple[Definition, Acts]]:
    line = min((line for name, line in running if name == module.__name__), default=sys.maxsize)
    for each in statements_of(module):
        if (each.end_lineno or 0) < line and INTO_CAGES not in (acts := acts_of(module, each, seen)):
            yield Definition("", each.lineno, column=each.col_offset), acts


def running_lines() -> Running:
    """Where each module of one's own is that runs, in whichever thread: what stands there, or below, is not over."""
    found = set()
    for frame in sys._current_frames().values():
        while frame is not None:
            module = sys.modules.get(frame.f_globals.get("__name__", ""))
            if frame.f_code.co_name == "<module>" and is_ones_own(module) and vars(module) is frame.f_globals:
                found.add((module.__name__, frame.f_lineno))
            frame = frame.f_back  # type: ignore[assignment]
    return frozenset(found)


def _objects(sources: Mapping[str, str]) -> Iterator[tuple[object, str]]:
    """What could be changed of what sent parts bind, with what is in there, and how it is called. What comes from an
    installed module is a setting of that one, and so is a logger."""
    left = deque[tuple[object, str, int]]()
    for name, source in sources.items():
        module = sys.modules[name]
        for node in ast.parse(source).body:
            if isinstance(node, ast.ImportFrom):
                if is_ones_own(sys.modules.get(origin_of(module, node))):
                    left.extend(_bound_there(name, node))
            else:
                left.extendleft(_bound_there(name, node))
    seen = set[int]()
    while left and len(seen) < MOST:
        found, name, depth = left.popleft()
        if id(found) not in seen and not _is_constant(found):
            seen.add(id(found))
            yield found, name
            left.extend((each, name, depth + 1) for each in (_parts_of(found) if depth < DEEPEST else ()))


def _bound_there(name: str, node: ast.stmt) -> Iterator[tuple[object, str, int]]:
    module = sys.modules[name]
    return ((vars(module).get(each), f"{name}.{each}", 0) for each in bound_by(module, ast.unparse(node)))


def _is_constant(found: object) -> bool:
    if isinstance(found, tuple | frozenset):
        return all(map(_is_constant, found))
    home = str(type(found).__module__).partition(".")[0]
    if home in UNCHANGING | OF_LIBRARIES or found is sys.path or isinstance(found, CONSTANT) or is_of_cages(found):
        return True
    if any(each.__module__ == "enum" for each in type(found).__mro__):
        return True
    is_frozen = getattr(getattr(type(found), "__dataclass_params__", None), "frozen", False)
    return bool(is_frozen) and hasattr(found, "__dict__") and all(map(_is_constant, vars(found).values()))


def _parts_of(found: object) -> Collection[object]:
    if isinstance(found, dict):
        return list(dict.values(found))
    if isinstance(found, list | tuple | set | frozenset | deque):
        return list(found)
    kind = found if isinstance(found, type) else type(found)
    is_own = kind is not FunctionType and is_ones_own(sys.modules.get(kind.__module__))
    return list(vars(found).values()) if is_own and hasattr(found, "__dict__") else ()
