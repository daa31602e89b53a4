"""The sources that go with a call: of each module of one's own that it needs, the statements that are needed.

A function of `tools.py` that says `from .shapes import area` needs the part of `shapes.py` that makes `area`, and so
does one that says `shapes.area` after `import shapes`: a constant that nobody names, which may be a secret, stays here.
All of a module goes along where it is used in another way: passed on, imported by `*`, or named by other modules.

That goes on until nothing is named that is neither here nor the interpreter's own; and what these modules have done to
what is sent goes along (`effects`), and all of those that `modules=` names. Only what this program has imported is
looked at: nothing is imported, and nothing is run, to find out.
"""

from __future__ import annotations
import __future__

import ast
import marshal
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from types import ModuleType

from pysandbox.pipeline.effects import Effects, Running, running_lines
from pysandbox.pipeline.shipping import (
    WHOLE,
    Definition,
    is_ones_own,
    needed_source,
    origin_of,
    text_of,
)
from pysandbox.runtime.missing_walls import level_of_caller
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

BLOCKS = re.compile(r"^(?=\S)", re.MULTILINE)  # the lines of a module that begin something, with what is below them
IMPORTS = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*(\([^)]*\)|[^\n#]+)|import[ \t]+([^\n#]+))", re.MULTILINE
)
Definitions = dict[str, set[Definition]]  # by module
Statements = list[tuple[tuple[str, int], bytes]]
Sources = dict[str, tuple[str, Statements, bool, bool]]  # as `placing` has them


def gathered(definitions: Mapping[str, set[Definition]], modules: Sequence[str] = ()) -> Sources:
    """With all of the `modules`. Raises TypeError."""
    wanted = frozenset((name, sys.modules[name], frozenset(each)) for name, each in definitions.items())
    arguments = (wanted, tuple(modules), len(sys.modules), running_lines())
    sources, absent = _gathered(*arguments)
    if any(name in sys.modules for name in absent):  # the program has imported it since
        for each in (_gathered, _compiled, needed_source):
            each.cache_clear()
        sources, _ = _gathered(*arguments)
    return sources


@lru_cache(256)
def _gathered(
    definitions: frozenset[tuple[str, ModuleType, frozenset[Definition]]], modules: tuple[str, ...], _imported: int,
    running: Running,
) -> tuple[Sources, frozenset[str]]:  # fmt: skip
    """The sources, and the modules that would be looked at, had this program imported them. Gathered anew where it has
    imported any, and where those that run have gone on."""
    wanted: Definitions = {name: set(each) for name, _, each in definitions}
    effects = Effects(running)
    for name in named_modules(modules):
        wanted.setdefault(name, set()).update(effects.whole(sys.modules[name]))
    at_once, todo, absent = list(wanted), list(wanted), set[str]()
    while todo:
        absent |= _complete(wanted, todo)
        for name, effect in [*effects.on(_sent_parts(wanted))]:
            if effect not in wanted[name]:
                wanted[name].add(effect)
                todo.append(name)
    _tell(frozenset(_sent_parts(wanted).items()), len(sys.modules), effects)
    sources = {
        name: (*_compiled(name, sys.modules[name], frozenset(wanted[name])), _is_package(name), name in at_once)
        for name in (_as_they_were_run(wanted) if len(wanted) > 1 else wanted)
        if wanted[name] or _can_be_sent(name, WHOLE)
    }
    return sources, frozenset(absent)


def named_modules(names: Iterable[str]) -> list[str]:
    """With those in packages, as far as the program has imported them. Raises TypeError."""
    found = []
    for name in names:
        if not is_ones_own(sys.modules.get(name)):
            why = "is installed with the interpreter" if name in sys.modules else "was not imported by this program"
            raise TypeError(f"modules= names {name!r}, which {why}: name those of your own that it has imported")
        found += [each for each in list(sys.modules) if f"{each}.".startswith(f"{name}.")]
    return [each for each in found if is_ones_own(sys.modules.get(each))]


_told: set[int] = set()  # hashes


def _tell(sources: frozenset[tuple[str, str]], imported: int, effects: Effects) -> None:
    """Once. Raises what a filter of warnings(3) makes of it."""
    import warnings

    if hash((sources, imported)) not in _told:
        for each in effects.left_out(dict(sources)):
            warnings.warn(each, stacklevel=level_of_caller())
        _told.add(hash((sources, imported)))


def _as_they_were_run(names: Iterable[str]) -> list[str]:
    """What a module imports was run before the rest of it; what several import, when the first of them did."""
    found: dict[str, bool] = {}

    def visit(name: str) -> None:
        left = [(name, iter(_imports_of(sys.modules[name])))]  # a chain of imports may be longer than a stack is deep
        found[name] = False
        while left:
            at, others = left[-1]
            inner = next((each for each in others if each not in found and is_ones_own(sys.modules.get(each))), None)
            if inner is None:
                found[at] = found.pop(at, True)
                left.pop()
            else:
                found[inner] = False
                left.append((inner, iter(_imports_of(sys.modules[inner]))))

    wanted = set(names)
    for name in [each for each in list(sys.modules) if each in wanted]:
        if name not in found:
            visit(name)
    return [each for each in found if each in wanted]


@lru_cache(1024)
def _imports_of(module: ModuleType) -> list[str]:
    """Names that it imports as it runs, with the packages that they are in: by its text, since a program may have
    hundreds of modules, and a name too many does no harm here."""
    names: list[str] = []
    for block in BLOCKS.split(text_of(module)):
        if block.startswith(("def ", "async ", "class ", "@")):
            continue
        for dots, origin, given, plain in IMPORTS.findall(block):
            of = [each.split()[0] for each in (plain or given.strip("() ")).split(",") if each.split()]
            within = origin_of(module, ast.ImportFrom(origin, [], len(dots))) if given else ""
            names += [within, *(f"{within}.{each}" for each in of)] if within else of if plain else []
    parts = (each.split(".") for each in names)
    return [".".join(each[:end]) for each in parts for end in range(1, len(each) + 1)]


def _complete(wanted: Definitions, todo: list[str]) -> set[str]:
    """Adds what the modules that are to be looked at need of others. The names of those that are not imported."""
    absent = set()
    while todo:
        importer = todo.pop()
        source = needed_source(sys.modules[importer], frozenset(wanted[importer]))
        for name, found in _imported_by(sys.modules[importer], ast.parse(source), wanted[importer]):
            if name not in sys.modules:
                absent.add(name)
            if not is_ones_own(sys.modules.get(name)):
                continue
            there = wanted.setdefault(name, set())
            definition = _sendable(name, found)
            if definition is not None and definition not in there:
                there.add(definition)
                todo.append(name)
    return absent


def _sent_parts(wanted: Definitions) -> dict[str, str]:
    """What is sent of the source of each module."""
    return {
        name: needed_source(sys.modules[name], frozenset(definitions))
        for name, definitions in wanted.items()
        if definitions and not all(each.alone for each in definitions)
    }


@lru_cache(256)
def _compiled(name: str, module: ModuleType, definitions: frozenset[Definition]) -> tuple[str, Statements]:
    """Each statement alone: compiled once, and by the interpreter that runs in the cage, too."""
    source = needed_source(module, definitions)
    body, file = ast.parse(source).body, f"<{name}>.py"
    flags = 0
    for each in body:
        if isinstance(each, ast.ImportFrom) and each.module == "__future__":
            for alias in each.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    texts = [ast.unparse(each) for each in body]
    alone = (compile(ast.Module([each], []), file, "exec", flags, dont_inherit=True) for each in body)
    return source, [((text, texts[:at].count(text)), marshal.dumps(each))
                    for at, (text, each) in enumerate(zip(texts, alone, strict=True))]  # fmt: skip


def _can_be_sent(name: str, definition: Definition) -> bool:
    """What cannot is left to the cage, which may have it, or says what it lacks."""
    try:
        needed_source(sys.modules[name], frozenset((definition,)))
    except (TypeError, OSError):
        return False
    return True


def _sendable(name: str, definition: Definition | None) -> Definition | None:
    """The definition, or what the module says it is asked for; None for what the cage has to look for."""
    asked = () if definition is None else (definition, Definition("__getattr__"))
    return next((each for each in asked if _can_be_sent(name, each)), None)


def _imported_by(
    module: ModuleType, tree: ast.Module, wanted: set[Definition]
) -> Iterator[tuple[str, Definition | None]]:
    """What it imports, also in its functions, and what it uses of that; None where it is to be there at least."""
    from_outside, used = {each.name for each in wanted}, _used(tree)
    nodes = [each for each in ast.walk(tree) if isinstance(each, ast.Import | ast.ImportFrom)]
    named = {alias.name for each in nodes if isinstance(each, ast.Import) for alias in each.names}
    here = {".".join(parts[:end]) for parts in (each.split(".") for each in named) for end in range(1, len(parts) + 1)}

    def as_module(name: str, bound: str) -> Iterator[tuple[str, Definition | None]]:
        yield name, WHOLE if from_outside & {bound, "*"} else None
        for chain in used.get(bound, ()):
            yield from _reached(name, chain, here)

    for each in nodes:
        origin = origin_of(module, each) if isinstance(each, ast.ImportFrom) else ""
        for alias in each.names:
            top, bound = alias.name.partition(".")[0], alias.asname or alias.name
            if isinstance(each, ast.Import):
                yield alias.name, None
                yield from as_module(alias.name if alias.asname else top, alias.asname or top)
            elif origin and _is_module_of(origin, alias.name):
                yield from as_module(f"{origin}.{alias.name}", bound)
            elif origin:
                yield f"{origin}.{alias.name}", None
                yield origin, WHOLE if alias.name == "*" else Definition(alias.name)


def _used(tree: ast.Module) -> dict[str, set[tuple[str, ...]]]:
    """By name, the attributes of attributes that are asked of it: () where it is used in another way."""
    found: dict[str, set[tuple[str, ...]]] = {}
    inner = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    for each in ast.walk(tree):
        chain: list[str] = []
        node = each if id(each) not in inner else None
        while isinstance(node, ast.Attribute):
            chain.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, set()).add(tuple(chain))
    return found


def _reached(name: str, chain: tuple[str, ...], here: set[str]) -> Iterator[tuple[str, Definition | None]]:
    """What `name.a.b` needs, of modules below one another; those of `here` are imported by who says it."""
    for each in chain:
        if each == "__dict__":
            break
        inner = f"{name}.{each}"
        if inner not in here:
            yield name, Definition(each)
        if not _is_module_of(name, each):
            return
        name = inner
    yield name, WHOLE


def _is_module_of(package: str, name: str) -> bool:
    """Whether that is what it means there: `from .parse import parse` makes a function of a module's name."""
    found = sys.modules.get(f"{package}.{name}")
    return found is not None and getattr(sys.modules.get(package), name, found) is found


def _is_package(name: str) -> bool:
    return hasattr(sys.modules[name], "__path__")
