"""What an answer means: the value, where there is one, or a SandboxedError that says what became of the call.

An answer may hold values of the standard library. What reads them is imported here, with the first function that is to
be called, and never because of what a cage has sent.
"""

from __future__ import annotations

import datetime  # noqa: F401 - for the decoder
import decimal  # noqa: F401
import enum
import pathlib  # noqa: F401
import uuid  # noqa: F401

from pysandbox.errors import SandboxedError
from pysandbox.pipeline import calls
from pysandbox.pipeline.codec import is_named_tuple, name_of
from pysandbox.pipeline.decoder import BadAnswer, Shapes, decode
from pysandbox.pipeline.exchange import ReceivedAnswer
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.shapes import Any


def value_of(answer: ReceivedAnswer, shapes: Shapes) -> Any:
    """Raises SandboxedError."""
    try:
        if answer.kind == calls.RETURNED:
            return decode([bytes(answer.pieces[0]), *answer.pieces[1:]], shapes)
        told = decode(answer.pieces, Shapes())
    except (BadAnswer, IndexError) as error:
        raise SandboxedError(f"what came out of the cage {error}", reason="exited", logs=answer.logs) from None
    if answer.kind == calls.UNFIT:
        raise SandboxedError(str(told), reason="exited", logs=answer.logs)
    raise _raised(told, answer.logs)


def _raised(told: object, logs: str) -> SandboxedError:
    match told:
        case (str(kind), str(message), str(trace)):
            return SandboxedError(f"{kind}: {message}", reason="raised", logs=logs, kind=kind, traceback=trace)
    return SandboxedError("the function raised, and what it raised makes no sense", reason="raised", logs=logs)


def declared(*annotations: object) -> Shapes:
    """Every enum, dataclass and named tuple that annotations name, and those that the fields of these name."""
    found, left = Shapes(), list(annotations)
    seen: dict[int, object] = {}
    while left:
        each = left.pop()
        if id(each) not in seen:
            seen[id(each)] = each  # kept, since its number would be another one's
            left += _named_by(each, found)
    return found


def returned_by(function: object) -> object:
    """A function's return annotation; None where none can be read. Those of its parameters may name what only a type
    checker sees."""
    from types import SimpleNamespace

    function = getattr(function, "__wrapped__", function)
    try:
        alone = SimpleNamespace(__annotations__={"return": function.__annotations__["return"]})
    except (AttributeError, KeyError, NameError):
        return None
    return _hints_of(alone, getattr(function, "__globals__", {})).get("return")


def _hints_of(found: Any, around: dict[str, Any] | None = None) -> dict[str, Any]:
    """What can be read of its annotations: all, or none."""
    from typing import get_type_hints

    try:
        return get_type_hints(found, around)
    except (NameError, TypeError, AttributeError):
        return {}


def _said(annotation: Any, name: str) -> Any:
    """None where it says nothing, or what cannot be read: since Python 3.12 it is evaluated when it is asked for, and
    may name what only a type checker sees."""
    try:
        return getattr(annotation, name, None)
    except (NameError, TypeError, AttributeError):
        return None


def _named_by(annotation: Any, found: Shapes) -> list[Any]:
    """Notes it, where answers may hold its values, and gives what it is made of."""
    from dataclasses import is_dataclass
    from typing import get_args, get_origin, is_typeddict

    if not isinstance(annotation, type) or get_origin(annotation) is not None:
        # list[X], X | Y, Annotated[X, ...]; Box[X] of a generic class; what NewType, a TypeVar and `type` stand for
        others = [_said(annotation, each) for each in ("__supertype__", "__bound__", "__value__")]
        others += _said(annotation, "__constraints__") or ()
        made_of = [*get_args(annotation), get_origin(annotation), *others]
        return [type(each) if isinstance(each, enum.Enum) else each for each in made_of if each is not None]
    name = name_of(annotation)
    if issubclass(annotation, enum.Enum):
        found.enums[name] = annotation
    elif is_dataclass(annotation) or is_named_tuple(annotation):
        found.classes[name] = annotation
        return [*_hints_of(annotation).values()]
    elif is_typeddict(annotation):
        return [*_hints_of(annotation).values()]
    return []
