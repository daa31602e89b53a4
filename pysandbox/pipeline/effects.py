"""What modules do, as they run, to what of them goes into a cage: such statements go along.

    HANDLERS, TABLE = {}, []                        # a function that names them has them in its cage
    for each in range(256): TABLE.append(each * 2)  # nobody names this, and without it TABLE is empty there
    @register("csv")                                # the same, where `register` sets an item of HANDLERS

Of a module of which a part is sent each statement goes along that changes (`acting`) an object which the sent parts
bind. These stay: an assignment to a name, which is there for its name; what leads to a call into a cage, which is the
program's own part; and what is not over yet. Where the first changes what is sent, or the second only holds what does,
that is told. One that cannot be made again in the cage fails there, and is named in the error.

Other modules go whole where `modules=` names them. What those that are not sent have changed is told, and not done.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from types import FunctionType, ModuleType

from pysandbox.pipeline.acting import INTO_CAGES, Effect, binds, effect_of, hears, is_of_cages, is_own, statements_of
from pysandbox.pipeline.shipping import Definition, at_top, bound_by, bound_in, is_ones_own, origin_of, text_of
from pysandbox.pipeline.standing import is_veiled
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.pipeline.acting import Seen
    from pysandbox.shapes import Any

CONSTANT = (str, bytes, int, float, complex, type(None), range, ModuleType)
# Modules of classes whose objects cannot be changed, and of what is a library's own.
UNCHANGING = frozenset(
    ("re", "pathlib", "datetime", "zoneinfo", "decimal", "fractions", "uuid", "ipaddress", "operator")
)
OF_LIBRARIES = frozenset(("logging", "os"))
COMPOUND = ast.If | ast.For | ast.While | ast.With | ast.Try | ast.TryStar | ast.Match
HOLDERS = (list, tuple, set, frozenset, deque)
DEEPEST, MOST = 3, 10_000  # of objects in one another, which are looked at
BLOCKS = re.compile(r"^(?=[^\s#)\]}])", re.MULTILINE)  # lines of a module that begin something, with what is below them
DOES = re.compile(
    r"@|[^\n'\"#]*;|class\b(?=.*\()|(?!import\b|from\b|def\b|async def\b|class\b|\w+\s*(?::[^=(]*)?=[^(]*\Z)"
)
Running = frozenset[tuple[str, int]]


class Effects:
    """Reads the modules of one program, while nothing else of it runs: each statement is read once."""

    def __init__(self, running: Running) -> None:
        self._running = {name: min(line for each, line in running if each == name) for name, _ in running}
        self._seen: Seen = {}
        self._of: dict[ast.stmt, Effect] = {}

    def on(self, sources: Mapping[str, str]) -> Iterator[tuple[str, Definition]]:
        """What goes along with the sent parts of modules, by their names."""
        sent = sent_of(sources)
        for name in sources:
            for each, effect in self._over(sys.modules[name]):
                if effect.acts & sent.keys() and INTO_CAGES not in effect.acts:
                    yield name, _definition(each)

    def whole(self, module: ModuleType) -> set[Definition]:
        """All of its statements that may go."""
        return {_definition(each) for each, effect in self._over(module) if INTO_CAGES not in effect.acts}

    def left_out(self, sources: Mapping[str, str]) -> Iterator[str]:
        """What changes them and does not go, in words: of each module the first."""
        sent = sent_of(sources)
        for name, module in list(sys.modules.items()):
            if name in sources:
                found = self._left_in(module, sent)
            elif is_ones_own(module) and _may_do(module, sent):
                found = self._left_in_another(module, sent)
            else:
                continue
            for line, changed, why in found:
                yield f"line {line} of {name!r} changes {sent[changed]!r}, which a cage gets without that: {why}"
                break

    def _left_in(self, module: ModuleType, sent: Mapping[object, str]) -> Iterator[tuple[int, object, str]]:
        for each, effect in self._over(module):
            bound = {(module.__name__, name) for name in bound_in(module, each)}
            if INTO_CAGES in effect.acts:
                why = f"line {each.lineno} also calls into a cage, and stays; write this outside of it"
                for one in (one for one in at_top(each) if isinstance(one, ast.stmt) and not isinstance(one, COMPOUND)):
                    acts = self._effect(module, one).acts
                    if INTO_CAGES not in acts:
                        yield from ((one.lineno, changed, why) for changed in acts & sent.keys())
            elif not effect.acts & sent.keys() and not (binds(each) and bound & sent.keys()):
                made = [vars(module).get(name) for _, name in bound]
                aside = effect.aside | {id(one) for one in effect.asked if any(_has(one, other) for other in made)}
                why = "an assignment goes along for its name alone, a call whose result nobody keeps for what it does"
                yield from ((each.lineno, changed, why) for changed in aside & sent.keys())

    def _left_in_another(self, module: ModuleType, sent: Mapping[object, str]) -> Iterator[tuple[int, object, str]]:
        name = module.__name__
        why = f"nothing that is sent names {name!r}; with modules=[{name!r}] all of it goes along"
        for each, effect in self._over(module):
            if INTO_CAGES not in effect.acts:
                yield from ((each.lineno, one, why) for one in (effect.acts | effect.aside) & sent.keys())

    def _over(self, module: ModuleType) -> Iterator[tuple[ast.stmt, Effect]]:
        line = self._running.get(module.__name__, sys.maxsize)
        yield from ((e, self._effect(module, e)) for e in statements_of(module) if (e.end_lineno or 0) < line)

    def _effect(self, module: ModuleType, statement: ast.stmt) -> Effect:
        if statement not in self._of:
            self._of[statement] = effect_of(module, statement, self._seen)
        return self._of[statement]


def _definition(statement: ast.stmt) -> Definition:
    return Definition("", statement.lineno, column=statement.col_offset)


def sent_of(sources: Mapping[str, str]) -> dict[object, str]:
    """What `acting` calls the objects and names that are sent, and how they are called."""
    names = ((name, each) for name, source in sources.items() for each in bound_by(sys.modules[name], source))
    return {**{each: ".".join(each) for each in names}, **{id(each): name for each, name in _objects(sources)}}


def _may_do(module: ModuleType, sent: Mapping[object, str]) -> bool:
    """Whether something at its top, outside of classes, names what is sent, or what of one's own might change that. By
    its text, since a program may have hundreds of modules, of which most only define."""
    around = vars(module)
    for block in BLOCKS.split(text_of(module)):
        if DOES.match(block):
            is_class = block.startswith("class")
            named = {*re.findall(r"[^\W\d]\w*", block.partition(":")[0] if is_class else block)} & around.keys()
            found = [around[each] for each in named]
            if any(hears(each) if is_class else id(each) in sent or _is_ones_own(each) for each in found):
                return True
    return False


def _is_ones_own(found: object) -> bool:
    if is_veiled(found):
        return False
    if isinstance(found, ModuleType):
        return is_ones_own(found)
    return is_own(found if isinstance(found, FunctionType | type) else type(found))


def _has(found: object, other: object) -> bool:
    """Whether it is in there, at whatever depth: a method that has made it has put it there."""
    left, seen = deque([found]), set[int]()
    while left and len(seen) < MOST and not _is_constant(other):
        each = left.popleft()
        if each is other:
            return each is not found
        if id(each) not in seen and not is_veiled(each) and not isinstance(each, ModuleType | FunctionType | type):
            seen.add(id(each))
            left.extend(gc.get_referents(each))
    return False


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
    if is_veiled(found):
        return True
    if isinstance(found, tuple | frozenset):
        return all(map(_is_constant, _items_of(found)))
    home = str(type(found).__module__).partition(".")[0]
    if home in UNCHANGING | OF_LIBRARIES or found is sys.path or isinstance(found, CONSTANT) or is_of_cages(found):
        return True
    if any(each.__module__ == "enum" for each in type(found).__mro__):
        return True
    is_frozen = getattr(getattr(type(found), "__dataclass_params__", None), "frozen", False)
    return bool(is_frozen) and hasattr(found, "__dict__") and all(map(_is_constant, vars(found).values()))


def _items_of(found: object) -> list[object]:
    """Without what a class of one's own would run."""
    kinds: tuple[Any, ...] = HOLDERS
    return [each for kind in kinds if isinstance(found, kind) for each in kind.__iter__(found)]


def _parts_of(found: object) -> Collection[object]:
    if isinstance(found, dict):
        return list(dict.values(found))
    if isinstance(found, HOLDERS):
        return _items_of(found)
    kind = found if isinstance(found, type) else type(found)
    is_own = kind is not FunctionType and is_ones_own(sys.modules.get(kind.__module__))
    return list(vars(found).values()) if is_own and hasattr(found, "__dict__") else ()
