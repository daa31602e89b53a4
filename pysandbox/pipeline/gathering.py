"""The sources that go with a call: of each module of one's own that it needs, the statements that are needed.

A function of `tools.py` that says `from .shapes import area` needs the part of `shapes.py` that makes `area`, and of
`import shapes` all of it. That goes on until nothing is named that is neither here nor the interpreter's own. Only what
this program has imported is looked at: nothing is imported, and nothing is run, to find out.
"""

from __future__ import annotations
import __future__

import ast
import marshal
import sys
from collections.abc import Iterator
from functools import lru_cache
from types import ModuleType

from pysandbox.pipeline.shipping import WHOLE, Definition, is_installed, needed_source, origin_of
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

Definitions = dict[str, set[Definition]]  # by module
Sources = dict[str, tuple[str, list[bytes], bool, bool]]  # as `placing` has them


def gathered(definitions: Mapping[str, set[Definition]]) -> Sources:
    """Raises TypeError."""
    return _gathered(frozenset((sys.modules[name], frozenset(each)) for name, each in definitions.items()))


@lru_cache(256)
def _gathered(definitions: frozenset[tuple[ModuleType, frozenset[Definition]]]) -> Sources:
    wanted: Definitions = {module.__name__: set(each) for module, each in definitions}
    at_once, todo = set(wanted), list(wanted)
    while todo:
        module = sys.modules[todo.pop()]
        source = needed_source(module, frozenset(wanted[module.__name__]))
        for name, definition in _imported_by(module, ast.parse(source)):
            there = wanted.setdefault(name, set())
            if definition not in there and _can_be_sent(name, definition):
                there.add(definition)
                todo.append(name)
    return {
        name: (*_compiled(sys.modules[name], frozenset(each)), hasattr(sys.modules[name], "__path__"), name in at_once)
        for name, each in wanted.items()
        if each
    }


@lru_cache(256)
def _compiled(module: ModuleType, definitions: frozenset[Definition]) -> tuple[str, list[bytes]]:
    """Each statement alone: compiled once, and by the interpreter that runs in the cage, too."""
    source = needed_source(module, definitions)
    body, file = ast.parse(source).body, f"<{module.__name__}>.py"
    flags = 0
    for each in body:
        if isinstance(each, ast.ImportFrom) and each.module == "__future__":
            for alias in each.names:
                flags |= getattr(__future__, alias.name).compiler_flag
    alone = (ast.Module([each], []) for each in body)
    return source, [marshal.dumps(compile(each, file, "exec", flags, dont_inherit=True)) for each in alone]


def _can_be_sent(name: str, definition: Definition) -> bool:
    """What cannot is left to the cage, which may have it, or says what it lacks."""
    try:
        needed_source(sys.modules[name], frozenset((definition,)))
    except (TypeError, OSError):
        return False
    return True


def _imported_by(module: ModuleType, tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """What it imports of modules of one's own, also in its functions."""
    for each in ast.walk(tree):
        if isinstance(each, ast.Import):
            for alias in each.names:
                parts = alias.name.split(".")
                names = [alias.name] if alias.asname else [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
                yield from ((name, WHOLE) for name in names if _is_ones_own(name))
        elif isinstance(each, ast.ImportFrom) and (origin := origin_of(module, each)):
            for alias in each.names:
                inner = f"{origin}.{alias.name}"
                if _is_ones_own(inner):
                    yield inner, WHOLE
                elif _is_ones_own(origin):
                    yield origin, _defined(origin, alias.name)


def _defined(origin: str, name: str) -> Definition:
    """All of a module of which a name cannot be found in its source."""
    return Definition(name) if name != "*" and _can_be_sent(origin, Definition(name)) else WHOLE


def _is_ones_own(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and getattr(module, "__file__", None) is not None and not is_installed(module)
