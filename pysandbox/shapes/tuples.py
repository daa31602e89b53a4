"""NamedTuple: what the one of `typing` makes, but for its doc strings."""

from __future__ import annotations

from _collections import _tuplegetter  # as collections.namedtuple does

from pysandbox.shapes.made import compiled, make_later

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Declaring(type):
    """The class statement of a subclass makes a tuple instead."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        return _named_tuple(name, namespace)


class _NamedTuple:
    """A tuple whose annotations name its parts."""

    def __mro_entries__(self, _: object) -> tuple[type, ...]:
        return (_BASE,)


_BASE = type.__new__(_Declaring, "NamedTuple", (), {})
NamedTuple = _NamedTuple()


def _named_tuple(name: str, namespace: dict[str, Any]) -> Any:
    names = tuple(namespace.get("__annotations__", ()))
    defaults = {each: namespace[each] for each in names if each in namespace}
    made: Any = type(name, (tuple,), {
        "__slots__": (), "_fields": names, "_field_defaults": defaults, "__match_args__": names,
        "_make": classmethod(_make), "_replace": _with_parts, "_asdict": _part_by_name,
        "__repr__": _tuple_repr, "__getnewargs__": _parts_of, "__replace__": _with_parts,
        **namespace, **{each: _tuplegetter(number, "") for number, each in enumerate(names)},
    })  # fmt: skip
    make_later(made, "__new__", lambda owner: staticmethod(_tuple_new(owner, names, defaults)),
               _NewByHand(made, names, defaults))  # fmt: skip
    return made


class _NewByHand:
    """A constructor that goes a part at a time, until one is compiled (`made.BY_HAND`), whose signature it shows."""

    __slots__ = ("defaults", "names", "owner")

    def __init__(self, owner: Any, names: tuple[str, ...], defaults: dict[str, Any]) -> None:
        self.owner, self.names, self.defaults = owner, names, defaults

    def __get__(self, instance: object, cls: object) -> _NewByHand:
        return self  # as a static method

    @property
    def __wrapped__(self) -> Any:
        return _tuple_new(self.owner, self.names, self.defaults)

    def __call__(self, _cls: Any, *given: Any, **named: Any) -> Any:
        if len(given) == len(self.names) and not named:
            return tuple.__new__(_cls, given)
        values = {**self.defaults, **named, **dict(zip(self.names, given, strict=False))}
        if (
            len(values) != len(self.names)
            or len(given) + len(named) > len(values)
            or not named.keys().isdisjoint(self.names[: len(given)])
        ):
            return self.__wrapped__(_cls, *given, **named)  # which refuses them, and says which
        return tuple.__new__(_cls, [values[name] for name in self.names])


def _tuple_new(owner: Any, names: tuple[str, ...], defaults: dict[str, Any]) -> Any:
    known: dict[str, Any] = {"_new": tuple.__new__, **{f"_default_{name}": each for name, each in defaults.items()}}
    parameters = [f"{name}=_default_{name}" if name in defaults else name for name in names]
    body = [f"return _new(_cls, ({''.join(f'{name},' for name in names)}))"]
    return compiled("__new__", ["_cls", *parameters], body, known, owner)


def _make(cls: Any, parts: Any) -> Any:
    made = tuple.__new__(cls, parts)
    if len(made) != len(cls._fields):
        raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
    return made


def _with_parts(self: Any, /, **changes: Any) -> Any:
    made = self._make(map(changes.pop, self._fields, self))
    if changes:
        raise ValueError(f"Got unexpected field names: {list(changes)!r}")
    return made


def _part_by_name(self: Any) -> dict[str, Any]:
    return dict(zip(self._fields, self, strict=True))


def _parts_of(self: Any) -> tuple[Any, ...]:
    return tuple(self)


def _tuple_repr(self: Any) -> str:
    parts = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{self.__class__.__name__}({parts})"
