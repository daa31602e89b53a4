"""The methods of a dataclass, as functions of its fields."""

from __future__ import annotations

from _thread import get_ident

from pysandbox.shapes.made import MISSING, compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def init(owner: Any, shape: dict[str, Any], frozen: bool) -> Any:
    """Parameters in the order of the fields, those by keyword after them."""
    known: dict[str, Any] = {"_missing": MISSING, "_set": object.__setattr__}
    first, named, body = ["self"], list[str](), list[str]()
    for name, each in shape.items():
        parameter = name
        if each.default is not MISSING:
            known[f"_default_{name}"] = each.default
            parameter = f"{name}=_default_{name}"
        elif each.default_factory is not MISSING:
            known[f"_make_{name}"] = each.default_factory
            parameter = f"{name}=_missing"
            body.append(f"if {name} is _missing: {name} = _make_{name}()")
        (named if each.kw_only else first).append(parameter)
        body.append(f"_set(self, {name!r}, {name})" if frozen else f"self.{name} = {name}")
    if hasattr(owner, "__post_init__"):
        body.append("self.__post_init__()")
    made = compiled("__init__", [*first, "*", *named] if named else first, body, known, owner)
    made.__annotations__ = {**{name: each.type for name, each in shape.items()}, "return": None}
    return made


def plain_init(owner: Any, shape: dict[str, Any], frozen: bool) -> Any:
    """An initializer that goes a field at a time. What is wrong with its arguments, the compiled one says."""

    def plain(self: Any, *given: Any, **named: Any) -> None:
        first = [name for name, each in shape.items() if not each.kw_only]
        values = dict(zip(first, given, strict=False))
        fits = len(given) <= len(first) and not (named.keys() & values.keys()) and named.keys() <= shape.keys()
        values.update(named)
        for name, each in shape.items():
            if name not in values:
                if each.default is not MISSING:
                    values[name] = each.default
                elif each.default_factory is not MISSING:
                    values[name] = each.default_factory()
        if not fits or len(values) != len(shape):
            init(owner, shape, frozen)(self, *given, **named)  # which refuses them, and says which
            return
        put = object.__setattr__ if frozen else setattr
        for name in shape:
            put(self, name, values[name])
        if hasattr(owner, "__post_init__"):
            self.__post_init__()

    return plain


def _parts(shape: dict[str, Any], of: str) -> str:
    return "(" + "".join(f"{of}.{name}," for name, each in shape.items() if each.compare) + ")"


def equal(owner: Any, shape: dict[str, Any]) -> Any:
    mine, other = _parts(shape, "self"), _parts(shape, "other")
    body = [f"if other.__class__ is self.__class__: return {mine} == {other}", "return NotImplemented"]
    return compiled("__eq__", ["self", "other"], body, {}, owner)


def plain_equal(shape: dict[str, Any]) -> Any:
    def plain(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        names = [name for name, each in shape.items() if each.compare]
        return tuple(getattr(self, name) for name in names) == tuple(getattr(other, name) for name in names)

    return plain


def plain_hashed(shape: dict[str, Any]) -> Any:
    return lambda self: hash(tuple(getattr(self, name) for name, each in shape.items() if each.compare))


_being_shown: set[tuple[int, int]] = set()  # (object, thread): what holds itself is shown once


def shown(owner: Any, shape: dict[str, Any]) -> Any:
    """A plan's digest reads some hundred of them."""
    parts = ", ".join(f"{name}={{self.{name}!r}}" for name, each in shape.items() if each.repr)
    known = {"_id": id, "_thread": get_ident, "_being_shown": _being_shown}
    body = [
        "key = _id(self), _thread()",
        "if key in _being_shown: return '...'",
        "_being_shown.add(key)",
        f"try: return f'{{self.__class__.__qualname__}}({parts})'",
        "finally: _being_shown.discard(key)",
    ]
    return compiled("__repr__", ["self"], body, known, owner)


def plain_shown(shape: dict[str, Any]) -> Any:
    def plain(self: Any) -> str:
        key = id(self), get_ident()
        if key in _being_shown:
            return "..."
        _being_shown.add(key)
        try:
            parts = ", ".join([f"{name}={getattr(self, name)!r}" for name, each in shape.items() if each.repr])
            return f"{self.__class__.__qualname__}({parts})"
        finally:
            _being_shown.discard(key)

    return plain


def hashed(owner: Any, shape: dict[str, Any]) -> Any:
    return compiled("__hash__", ["self"], [f"return hash({_parts(shape, 'self')})"], {}, owner)


def refusals(cls: Any, shape: dict[str, Any]) -> tuple[Any, Any]:
    """`__setattr__` and `__delattr__` of a frozen class."""

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in shape:
            raise _frozen(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in shape:
            raise _frozen(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return set_attribute, delete_attribute


def _frozen(message: str) -> AttributeError:
    from dataclasses import FrozenInstanceError

    return FrozenInstanceError(message)


def get_state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__shape__]


def set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__shape__, state, strict=True):
        object.__setattr__(self, name, value)
