"""A call as it goes into a cage: a pickle of function and arguments, and the sources of what the cage cannot import.

    pieces[0]   a pickle of (the function's names or None, many calls or one, what `gathering` has of the sources)
    pieces[1]   a pickle of (the function or None, arguments, named arguments)
    the rest    its large buffers, out of band

Functions and classes among the arguments are sent as the function itself is: by name, and by the part of their module's
source they need. What pickle refuses (a lambda, a function with values from around it) goes by value where cloudpickle
is installed, on both sides; nothing comes back that way.
"""

from __future__ import annotations

import io
import pickle
import sys
from functools import cache
from importlib.util import find_spec
from types import FunctionType, ModuleType

from pysandbox.pipeline import calls
from pysandbox.pipeline.codec import BESIDE
from pysandbox.pipeline.gathering import Definitions, gathered
from pysandbox.pipeline.shipping import (
    IN_A_FILE,
    Definition,
    Shipped,
    is_decorated,
    is_installed,
    is_sandboxed,
    needed_source,
    shipped,
)
from pysandbox.shapes import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pysandbox.shapes import Any

    Piece = bytes | memoryview
BY_NAME = (FunctionType, type, type(cache(len)))


class _Bytes:
    """Many bytes, which pickle would copy into what it writes, as a buffer beside it: bytes again where it is read."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __reduce_ex__(self, _: object) -> tuple[type, tuple[pickle.PickleBuffer]]:
        return bytes, (pickle.PickleBuffer(self._data),)


class SentCall(NamedTuple):
    """`function` is Shipped, or goes with the arguments. With `many`, each of the arguments is those of one call.
    `modules` go along whole."""

    function: Shipped | Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    named: dict[str, Any] | None = None
    many: bool = False
    modules: tuple[str, ...] = ()


def module_names(modules: Iterable[str | ModuleType]) -> tuple[str, ...]:
    """The names that `modules=` gives, some of modules that are not imported yet. Raises TypeError."""
    if isinstance(modules, str | ModuleType):
        raise TypeError(f"modules= is a list, as [{getattr(modules, '__name__', modules)!r}]")
    names = [each.__name__ if isinstance(each, ModuleType) else each for each in modules]
    for each in names:
        if not isinstance(each, str):
            raise TypeError(f"modules= has names of modules, or modules, and not {each!r}")
        top = each.partition(".")[0]
        if each not in sys.modules and (not top.isidentifier() or find_spec(top) is None):
            raise TypeError(f"modules= names {each!r}, and there is no such module")
    return tuple(names)


def sent(function: Callable[..., Any]) -> Shipped | Callable[..., Any]:
    """By its names; what was not written with def (a class, a builtin, a partial) goes with the arguments. Raises
    TypeError."""
    return shipped(function, nested=True) if isinstance(function, FunctionType) else function


def packed(call: SentCall) -> list[Piece]:
    """Raises TypeError where something of it cannot be sent, and whatever its own pickling raises."""
    try:
        return _packed(call, pickle.Pickler)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        try:
            from cloudpickle import Pickler as ByValue
        except ImportError:
            raise TypeError(
                f"it cannot be sent into a cage: {error}; cloudpickle, where it is installed, sends lambdas and "
                "functions that use what is around them"
            ) from error
    try:
        return _packed(call, ByValue)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(f"it cannot be sent into a cage: {error}") from error


def _packed(call: SentCall, pickler: Any) -> list[Piece]:
    definitions: Definitions = {}
    function: object = call.function
    name = None
    if isinstance(function, Shipped):
        name, function = (function.module, function.name), None
        if call.function.definition is not None:  # type: ignore[union-attr]
            definitions[name[0]] = {call.function.definition}  # type: ignore[union-attr]
    arguments = tuple(map(_beside, call.arguments))
    content = (function, arguments, {name: _beside(each) for name, each in (call.named or {}).items()})
    buffers: list[pickle.PickleBuffer] = []
    given = _written(pickler, content, definitions, buffers.append)
    if len(buffers) + 2 > calls.MOST_PIECES:
        given, buffers = _written(pickler, content, definitions, None), []
    first = pickle.dumps((name, call.many, gathered(definitions, call.modules)), protocol=5)
    return [first, given, *(each.raw() for each in buffers)]


def _beside(argument: object) -> object:
    return _Bytes(argument) if type(argument) is bytes and len(argument) >= BESIDE else argument


def _written(pickler: Any, content: object, definitions: Definitions, beside: Any) -> bytes:
    written = io.BytesIO()
    writer = _noting(pickler)(written, protocol=5, buffer_callback=beside)
    writer.definitions = definitions
    writer.dump(content)
    return written.getvalue()


@cache
def _noting(pickler: Any) -> Any:
    class Writer(pickler):  # type: ignore[misc]
        """Notes what is sent by name, and is not installed."""

        definitions: Definitions

        def reducer_override(self, found: Any) -> Any:
            if _note(found, self.definitions):
                return NotImplemented
            if pickler is not pickle.Pickler:
                return super().reducer_override(found)
            if isinstance(found, FunctionType | type) and found.__module__ == "__main__":
                raise pickle.PicklingError(f"{found.__qualname__!r} is in no file that could be sent; {IN_A_FILE}")
            return NotImplemented

    return Writer


def _note(found: Any, definitions: Definitions) -> bool:
    """Whether it is sent by its name, as pickle does it, and is defined at the top of a module whose source can be."""
    if not isinstance(found, BY_NAME) and not is_sandboxed(found):
        return False
    module, name = sys.modules.get(found.__module__), found.__qualname__
    if module is None or is_installed(module) or getattr(module, name.partition(".")[0], None) is None:
        return False
    there: Any = module
    for part in name.split("."):
        there = getattr(there, part, None)
    if there is not found:
        return False
    function = found.__wrapped__ if is_sandboxed(found) else found
    plain = isinstance(function, FunctionType) and "." not in name and not is_decorated(function)
    definition = Definition(name.partition(".")[0], function.__code__.co_firstlineno if plain else 0)
    try:
        needed_source(module, frozenset((definition,)))
    except TypeError:  # by its name or by its value, as the pickler can
        return False
    definitions.setdefault(found.__module__, set()).add(definition)
    return True
