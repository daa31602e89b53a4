"""TOML and JSON as an app's files are read: one value for each key, no NaN, no depth without end, and nothing guessed.

Every failure is a PolicyError that names the file. A mark of byte order is no part of either.
"""

from __future__ import annotations

import json
import tomllib

from pysandbox.errors import PolicyError
from pysandbox.policy.refusal import shown
from pysandbox.policy.serial import without_duplicates
from pysandbox.shapes import Any, NoReturn

LARGEST = 1 << 20  # bytes
LARGEST_TOML = 1 << 18  # tomllib takes memory and time with the square of a dotted key, so that both are bounded
MOST_DOTS = 128  # of one line
DEEPEST = 16


def parse_json(content: bytes, file: str | None = None) -> Any:
    text = _text(content, file)
    try:
        value = json.loads(
            text, object_pairs_hook=without_duplicates, parse_constant=_no_number, parse_float=_no_number
        )
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"is not JSON as it is read here: {shown_reason(error)}", file=file) from None
    return _bounded(value, file)


def parse_toml(content: bytes, file: str | None = None) -> dict[str, Any]:
    text = _text(content, file)
    _require_short(text, file)
    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"is not TOML: {shown_reason(error)}", file=file) from None
    found = _bounded(value, file)
    assert isinstance(found, dict)
    return found


def _require_short(text: str, file: str | None) -> None:
    """Asked before tomllib reads it: a key of half a million dots would take the memory of the host."""
    if len(text) > LARGEST_TOML:
        raise PolicyError(f"is larger than {LARGEST_TOML} characters", file=file, suggestion="write it as app.json")
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > MOST_DOTS:
            hint = "write each entry of a list on a line of its own"
            raise PolicyError(f"line {number} has more than {MOST_DOTS} dots", file=file, suggestion=hint)


def shown_reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else shown(str(error)).strip("'\"")


def is_encodable(text: str) -> bool:
    """JSON can hold half of a surrogate pair, which no file, no argv and no socket can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(content: bytes, file: str | None) -> str:
    if len(content) > LARGEST:
        raise PolicyError(f"is larger than {LARGEST} bytes", file=file)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise PolicyError("is not UTF-8", file=file) from None
    if text.startswith("\ufeff"):
        raise PolicyError("begins with a mark of byte order", file=file, suggestion="save it as plain UTF-8")
    return text


def _bounded(value: Any, file: str | None) -> Any:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise PolicyError("is nested too deeply", file=file)
        level = [inner for each in level if isinstance(each, dict | list)
                 for inner in (each.values() if isinstance(each, dict) else each)]  # fmt: skip
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is no integer")
