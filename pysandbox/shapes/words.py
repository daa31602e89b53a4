"""The words of `typing` at run time, where nobody evaluates an annotation: one object stands for all of them."""

from __future__ import annotations

from types import GenericAlias

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class _Word:
    """May be called, subscripted, joined with `|`, and be a base that adds nothing."""

    __slots__ = ("__args__",)

    def __init__(self, args: object = ()) -> None:
        self.__args__ = args if isinstance(args, tuple) else (args,)

    def __getitem__(self, args: object) -> _Word:
        return _Word(args)

    def __call__(self, *_: object, **__: object) -> _Word:
        return self

    def __or__(self, _: object) -> _Word:
        return self

    __ror__ = __or__

    def __mro_entries__(self, _: object) -> tuple[type, ...]:
        return ()


class Generic:
    """A base that may be subscripted, as may those who have it: `Result[str]`."""

    __slots__ = ()
    __class_getitem__ = classmethod(GenericAlias)  # type: ignore[var-annotated]


class Protocol(Generic):
    """A base that says nothing."""

    __slots__ = ()


IO = Any = Literal = NoReturn = Self = TextIO = TypeAlias = TypeVar = _Word()


def NewType(name: str, of: object) -> Callable[[object], object]:  # noqa: N802  # as typing spells it
    """As typing's: the value itself."""
    return lambda value: value


def overload(declared: object) -> object:
    """As typing's: the last declaration, which is none of these, is the function."""
    return declared


def get_args(of: _Word) -> tuple[object, ...]:
    """The values of a Literal."""
    return of.__args__ if isinstance(of.__args__, tuple) else ()


def cast(kind: object, value: object) -> object:
    """As typing's: the value itself."""
    return value
