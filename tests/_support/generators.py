"""What a generator returns that is gone through in steps."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


def returned(steps: Generator[object, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            made: T = ended.value
            return made
