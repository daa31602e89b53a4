"""Puts modules of one's own into an interpreter in a cage, from the parts of their sources that came with a call.

    sources = {name: (text, statements, whether it is a package, whether it is to be there at once)}

Each statement runs once in an interpreter, in the order of its module, also where a later call needs others of the same
module: so what an initializer or a preload has bound is there for the calls after it. What is not wanted at once is
imported by whoever needs it, as any module is, and only where the interpreter itself finds no module of that name.
"""

from __future__ import annotations

import importlib
import marshal
import sys
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.machinery import ModuleSpec
    from typing import Any

    Sources = Mapping[str, tuple[str, list[bytes], bool, bool]]
else:
    ModuleSpec = type(sys.__spec__)

_ran: dict[str, set[bytes]] = {}  # statements by module, of those that are there


class _Finder:
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
        _run(module)

    def get_source(self, name: str) -> str:
        return self.sources[name][0] if name in self.sources else ""


_FINDER = _Finder()


def place(sources: Sources, around: Mapping[str, Any]) -> None:
    """Names of `around` are there in each, where it does not define them itself. Raises whatever the statements do."""
    _FINDER.sources, _FINDER.around = sources, around
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)
    for name, (_, _, is_package, at_once) in sources.items():
        if name in _ran:
            _run(sys.modules[name])
        elif at_once:
            parent = name.rpartition(".")[0]
            if parent:
                importlib.import_module(parent)  # the real one, where the cage sees it
            if name in _ran:  # its package has imported it
                continue
            found = sys.modules[name] = types.ModuleType(name)
            found.__loader__ = _FINDER  # type: ignore[assignment]
            found.__package__ = name if is_package else parent
            if is_package:
                found.__path__ = []
            _run(found)


def _run(module: types.ModuleType) -> None:
    name = module.__name__
    ran = _ran.setdefault(name, set())
    for statement in _FINDER.sources.get(name, ("", [], False, False))[1]:
        if statement not in ran:
            ran.add(statement)
            code = marshal.loads(statement)
            for each in _mentioned(code):
                if each in _FINDER.around:
                    module.__dict__.setdefault(each, _FINDER.around[each])
            exec(code, module.__dict__)


def _mentioned(code: types.CodeType) -> set[str]:
    """Every name that it, and what is defined in it, looks up."""
    nested = (_mentioned(each) for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*nested)
