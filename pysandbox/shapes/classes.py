"""Dataclasses: what `dataclasses` of the standard library makes, as far as this package uses it. No ordering, no
InitVar, no ClassVar."""

from __future__ import annotations

from types import MappingProxyType

from pysandbox.shapes.made import MISSING, make_later
from pysandbox.shapes.methods import (
    equal,
    get_state,
    hashed,
    init,
    plain_equal,
    plain_hashed,
    plain_init,
    plain_shown,
    refusals,
    set_state,
    shown,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_NOTHING: Mapping[str, Any] = MappingProxyType({})


class Field:
    """One field of a dataclass."""

    __slots__ = ("compare", "default", "default_factory", "kw_only", "metadata", "name", "repr", "type")

    def __init__(
        self, default: Any, default_factory: Any, repr: bool, compare: bool, kw_only: bool | None, metadata: Any
    ) -> None:
        self.name = self.type = ""
        self.default, self.default_factory = default, default_factory
        self.repr, self.compare, self.kw_only = repr, compare, kw_only
        self.metadata = _NOTHING if metadata is None else MappingProxyType(metadata)


def field(
    *, default: Any = MISSING, default_factory: Any = MISSING, repr: bool = True, compare: bool = True,
    kw_only: bool | None = None, metadata: Mapping[str, Any] | None = None,
) -> Any:  # fmt: skip
    """What is said of one field, beside its type."""
    return Field(default, default_factory, repr, compare, kw_only, metadata)


def dataclass(
    cls: Any = None, /, *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True
) -> Any:  # fmt: skip
    """A class whose annotations are its fields."""
    if cls is None:
        return lambda declared: _dataclass(declared, frozen, slots, kw_only, eq)
    return _dataclass(cls, frozen, slots, kw_only, eq)


def fields(of: Any) -> tuple[Field, ...]:
    """Each Field of a dataclass or of one of its objects, in order."""
    return tuple(of.__shape__.values())


def replace(of: Any, /, **changes: Any) -> Any:
    """A copy of `of` with some fields changed."""
    for name in of.__shape__:
        if name not in changes:
            changes[name] = getattr(of, name)
    return of.__class__(**changes)


def asdict(of: Any) -> dict[str, Any]:
    """The fields by name, and those of each dataclass in them; every container is new."""
    return {name: _plain(getattr(of, name)) for name in of.__shape__}


class _ForStandard:
    """What those look for who have the standard module."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, cls: Any) -> Any:
        from pysandbox.shapes.standard import twin

        return getattr(twin(cls), self.name)


_FIELDS, _PARAMS = _ForStandard("__dataclass_fields__"), _ForStandard("__dataclass_params__")


def _dataclass(cls: Any, frozen: bool, slots: bool, kw_only: bool, eq: bool) -> Any:
    own = cls.__annotations__
    cls.__shape__ = shape = _shape(cls, kw_only)
    if slots:
        cls = _with_slots(cls, list(own))
    if "__init__" not in cls.__dict__:
        make_later(cls, "__init__", lambda owner: init(owner, shape, frozen), plain_init(cls, shape, frozen))
    if "__repr__" not in cls.__dict__:
        make_later(cls, "__repr__", lambda owner: shown(owner, shape), plain_shown(shape))
    if eq:
        _put_equality(cls, shape, frozen)
    if frozen:
        cls.__setattr__, cls.__delattr__ = refusals(cls, shape)
        if slots and "__getstate__" not in cls.__dict__:
            cls.__getstate__, cls.__setstate__ = get_state, set_state
    cls.__shape_is_frozen__, cls.__replace__ = frozen, replace
    setattr(cls, "__match_args__", tuple(name for name, each in shape.items() if not each.kw_only))  # noqa: B010
    cls.__dataclass_fields__, cls.__dataclass_params__ = _FIELDS, _PARAMS
    if not cls.__doc__:
        cls.__doc__ = f"{cls.__name__}({', '.join(shape)})"
    return cls


def _put_equality(cls: Any, shape: dict[str, Any], frozen: bool) -> None:
    """A class with an `__eq__` of its own has None for a hash by then, which says nothing of what it wants."""
    is_hashed_by_itself = cls.__dict__.get("__hash__") is not None
    if "__eq__" not in cls.__dict__:
        make_later(cls, "__eq__", lambda owner: equal(owner, shape), plain_equal(shape))
    if is_hashed_by_itself:
        return
    if frozen:
        make_later(cls, "__hash__", lambda owner: hashed(owner, shape), plain_hashed(shape))
    else:
        cls.__hash__ = None


def _shape(cls: Any, kw_only: bool) -> dict[str, Any]:
    """The fields by name: those of the bases first, the last base first of all."""
    shape: dict[str, Any] = {}
    for base in cls.__mro__[-1:0:-1]:
        shape.update(base.__dict__.get("__shape__", _NOTHING))
    for name, kind in cls.__annotations__.items():
        default = cls.__dict__.get(name, MISSING)
        if isinstance(default, Field):
            described: Any = default
            if described.default is not MISSING:
                setattr(cls, name, described.default)
            else:
                delattr(cls, name)
        else:
            if default.__class__.__hash__ is None:
                raise ValueError(f"mutable default of {name!r}: use default_factory")
            described = field(default=default)
        described.name, described.type = name, kind
        if described.kw_only is None:
            described.kw_only = kw_only
        shape[name] = described
    return shape


def _with_slots(cls: Any, own: list[str]) -> Any:
    """The class anew: slots can only be given to a class that is not yet made."""
    namespace = dict(cls.__dict__)
    inherited: set[str] = set()
    for base in cls.__mro__[1:-1]:
        inherited.update(base.__dict__.get("__slots__", ()))
    for name in own:
        namespace.pop(name, None)
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    namespace["__slots__"] = tuple(name for name in own if name not in inherited)
    made = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, type):
        return value
    if hasattr(value, "__shape__"):
        return asdict(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_plain, value))
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    if isinstance(value, dict):
        return type(value)((_plain(key), _plain(each)) for key, each in value.items())
    return value
