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
from pysandbox.pipeline.codec import name_of
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
    """Every enum and dataclass that annotations name, and those that their fields name."""
    found = Shapes()
    for each in annotations:
        _declare(each, found)
    return found


def returned_by(function: object) -> object:
    """Its return annotation; None where it has none that can be read."""
    from typing import get_type_hints

    try:
        return get_type_hints(function).get("return")
    except (NameError, TypeError, AttributeError):
        return None


def _declare(annotation: Any, found: Shapes) -> None:
    from dataclasses import fields, is_dataclass
    from typing import get_args, get_type_hints

    for each in get_args(annotation):
        _declare(each, found)
    if not isinstance(annotation, type):
        return
    name = name_of(annotation)
    if issubclass(annotation, enum.Enum):
        found.enums[name] = annotation
    elif is_dataclass(annotation) and name not in found.classes:
        found.classes[name] = annotation
        hints = get_type_hints(annotation)
        for field in fields(annotation):
            _declare(hints.get(field.name), found)
