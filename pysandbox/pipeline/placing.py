"""Puts modules of one's own into an interpreter in a cage, from the parts of their sources that came with a call.

    sources = {name: (text, statements, whether it is a package, whether it is to be there at once)}

Each statement runs once in a module, in the order of its source, also where a later call needs others of the same one:
so what an initializer or a preload has bound is there for the calls after it. One that raises has not run, and a module
that is imported anew begins anew. What is not wanted at once is imported by whoever needs it, as any module is, and
only where the interpreter itself finds no module of that name.
"""

from __future__ import annotations

import importlib
import marshal
import sys
import types
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.machinery import ModuleSpec
    from typing import Any

    # A statement is known by its text, and which of those alike it is: marshal writes the same code in several ways.
    Statement = tuple[tuple[str, int], bytes]
    Sources = Mapping[str, tuple[str, list[Statement], bool, bool]]
else:
    ModuleSpec = type(sys.__spec__)

RAN = "__pysandbox_ran__"  # in a module that is put here: the statements that have run in it
FAILED = "__pysandbox_failed__"  # in what was raised: which of them has
MOST_TEXT = 200  # letters of it


class _PlacedModules:
    """The last of sys.meta_path; a loader, too, and what finds the lines for a traceback (linecache(3))."""

    def __init__(self) -> None:
        self.sources: Sources = {}
        self.around: Mapping[str, Any] = {}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name in self.sources:
            return ModuleSpec(name, self, is_package=self.sources[name][2])  # type: ignore[arg-type]
        if any(each.startswith(f"{name}.") for each in self.sources):
            return ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__dict__[RAN] = set()
        _run(module)

    def get_source(self, name: str) -> str:
        return self.sources[name][0] if name in self.sources else ""


_FINDER = _PlacedModules()


def place(sources: Sources, around: Mapping[str, Any]) -> None:
    """Names of `around` are there in each, where it does not define them itself. Raises whatever the statements do."""
    _FINDER.sources, _FINDER.around = sources, around
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)
    for name, (_, _, is_package, at_once) in sources.items():
        parent = name.rpartition(".")[0]
        if at_once and parent and not _is_here(name):
            importlib.import_module(parent)  # the real one, where the cage sees it; it may import this one
        if _is_here(name):
            _run(sys.modules[name])
        elif at_once:
            found = sys.modules[name] = types.ModuleType(name)
            found.__loader__ = _FINDER  # type: ignore[assignment]
            found.__package__ = name if is_package else parent
            if is_package:
                found.__path__ = []
            found.__dict__[RAN] = set()
            _run(found)


def _is_here(name: str) -> bool:
    """Whether there is one of this name that came with a call."""
    return RAN in getattr(sys.modules.get(name), "__dict__", ())


def _run(module: types.ModuleType) -> None:
    ran = module.__dict__.setdefault(RAN, set())
    for known_by, statement in _FINDER.sources.get(module.__name__, ("", [], False, False))[1]:
        if known_by not in ran:
            code = marshal.loads(statement)
            for each in _mentioned(code):
                if each in _FINDER.around:
                    module.__dict__.setdefault(each, _FINDER.around[each])
            try:
                exec(code, module.__dict__)
            except BaseException as error:
                _note(error, known_by[0], module.__name__)
                raise
            ran.add(known_by)


def _note(error: BaseException, statement: str, module: str) -> None:
    """The innermost one is told. What an import lacks says enough."""
    if not isinstance(error, ImportError) and not hasattr(error, FAILED):
        shown = statement if len(statement) <= MOST_TEXT else f"{statement[:MOST_TEXT]}..."
        with suppress(AttributeError, TypeError):  # a class that takes no more attributes
            setattr(error, FAILED, f"in a statement of {module!r} that goes along with the function: {shown}")


def _mentioned(code: types.CodeType) -> set[str]:
    """Every name that it, and what is defined in it, looks up."""
    nested = (_mentioned(each) for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*nested)
