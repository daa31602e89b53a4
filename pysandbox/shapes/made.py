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
BY_HAND = 16  # calls, after which a method is compiled


class _Made:
    """A method that takes this place, in its class, when it is made. Two threads may make it: one is kept. Until it has
    been called `BY_HAND` times, `plain` does for it: to compile it costs more than all that a short program asks of
    it."""

    __slots__ = ("left", "make", "name", "owner", "plain")

    def __init__(self, owner: type, name: str, make: Callable[[type], Any], plain: Any = None) -> None:
        self.owner, self.name, self.make = owner, name, make
        self.plain, self.left = plain, BY_HAND

    def __get__(self, instance: Any, cls: type) -> Any:
        if self.plain is not None and self.left and (instance is not None or self.name == "__new__"):
            self.left -= 1
            return self.plain.__get__(instance, cls)
        made = self.make(self.owner)
        if self.owner.__dict__.get(self.name) is self:
            setattr(self.owner, self.name, made)
        return made.__get__(instance, cls)


def make_later(cls: type, name: str, make: Callable[[type], Any], plain: Any = None) -> None:
    """`make` is given the class. `plain` is a function that does the same, and is not made for it."""
    setattr(cls, name, _Made(cls, name, make, plain))


def compiled(name: str, parameters: list[str], body: list[str], known: dict[str, Any], owner: type) -> Any:
    """The function of that source; what it names is in `known`."""
    lines = "\n ".join(body or ["pass"])
    exec(f"def {name}({', '.join(parameters)}):\n {lines}", known)
    made = known[name]
    made.__qualname__ = f"{owner.__qualname__}.{name}"
    made.__module__ = owner.__module__
    return made
