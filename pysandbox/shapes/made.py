"""A method that is made when it is first looked up: what classes and tuples share."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()


class _Made:
    """It takes this place, in the class that it was made for. Two threads may make it: one is kept."""

    __slots__ = ("make", "name", "owner")

    def __init__(self, owner: type, name: str, make: Callable[[type], Any]) -> None:
        self.owner, self.name, self.make = owner, name, make

    def __get__(self, instance: Any, cls: type) -> Any:
        made = self.make(self.owner)
        if self.owner.__dict__.get(self.name) is self:
            setattr(self.owner, self.name, made)
        return made.__get__(instance, cls)


def make_later(cls: type, name: str, make: Callable[[type], Any]) -> None:
    """`make` is given the class."""
    setattr(cls, name, _Made(cls, name, make))


def compiled(name: str, parameters: list[str], body: list[str], known: dict[str, Any], owner: type) -> Any:
    """The function of that source; what it names is in `known`."""
    lines = "\n ".join(body or ["pass"])
    exec(f"def {name}({', '.join(parameters)}):\n {lines}", known)
    made = known[name]
    made.__qualname__ = f"{owner.__qualname__}.{name}"
    made.__module__ = owner.__module__
    return made
