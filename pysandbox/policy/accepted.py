"""What may be written for an option in Python, for type checkers: wider than what a Policy keeps of it.

A field of Policy is annotated with what it holds when it is made (`tuple[Grant, ...]`); here is what its coercion in
`validate` takes (a list of strings). ACCEPTED has a row for each annotation, under the same keys as `validate.KINDS`.
`tools/genref.py` makes `keywords.py` of it and of the declarations. Nothing of this is imported when a cage starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex, TypeAlias, TypeVar, overload

from pysandbox.policy.option import Grant

if TYPE_CHECKING:
    from os import PathLike

_Item_co = TypeVar("_Item_co", covariant=True)


class Listed(Protocol[_Item_co]):
    """A sequence that is not a string: `allow="/usr"` would otherwise pass for a list of four paths. A `str` has no
    `__contains__` that takes any object. Not for hosts: neither checker infers the type of a table through a protocol.
    """

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> _Item_co: ...
    @overload
    def __getitem__(self, index: slice, /) -> Sequence[_Item_co]: ...
    def __contains__(self, value: object, /) -> bool: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[_Item_co]: ...
    def __reversed__(self) -> Iterator[_Item_co]: ...
    def index(self, value: Any, start: int = 0, stop: int = ..., /) -> int: ...
    def count(self, value: Any, /) -> int: ...


Directory: TypeAlias = "str | PathLike[str]"
# A table for a path, as TOML has it, is taken as well; in Python there is Grant for it.
Paths: TypeAlias = "Listed[str | PathLike[str] | Grant]"
Strings: TypeAlias = Listed[str]
Ports: TypeAlias = Listed[int]
Variables: TypeAlias = Mapping[str, str] | Listed[tuple[str, str]]
ListsByName: TypeAlias = Mapping[str, Strings] | Listed[tuple[str, Strings]]

# In the words of `keywords.py`, which has the aliases above and its own. CHOICE becomes the option's choices.
ACCEPTED: Mapping[str, str] = {
    "bool": "bool",
    "bool | None": "bool | None",
    "int": "int",
    "int | None": "int | None",
    "float": "float",
    "float | None": "float | None",
    "str": "CHOICE",
    "str | None": "CHOICE | None",
    "tuple[Grant, ...]": "Paths",
    "tuple[str, ...]": "Strings",
    "tuple[int, ...]": "Ports",
    "tuple[tuple[str, str], ...]": "Variables",
    "tuple[tuple[str, tuple[str, ...]], ...]": "ListsByName",
    "tuple[HostRule, ...]": "Sequence[str | HostRule | HostTable]",
    "tuple[Secret, ...]": "Sequence[Secret | SecretTable]",
    "tuple[OwnDetector, ...]": "Sequence[OwnDetector | DetectorTable]",
}
