"""`dataclass`, `NamedTuple` and the words of `typing`, made for a program that starts often.

The standard ones compile the methods of each class when it is declared: half of what it cost to import this package.
Here a method is compiled when it is first looked up, and is an ordinary function from then on. What is declared reads
the same, type checkers are told that it is the same, and the functions of `dataclasses` work on these classes.

    classes.py   dataclass, field, fields, replace, asdict
    tuples.py    NamedTuple
    words.py     Any, Literal, Protocol, ...: they say nothing at run time, where annotations are texts
    made.py      a method that is made when it is first looked up
    pattern.py   a regular expression that is compiled when it is first used
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import MISSING, Field, asdict, dataclass, field, fields, replace
    from typing import (
        IO,
        Any,
        Generic,
        Literal,
        NamedTuple,
        NewType,
        NoReturn,
        Protocol,
        Self,
        TextIO,
        TypeAlias,
        TypeVar,
        cast,
        get_args,
        overload,
    )
else:
    from pysandbox.shapes.classes import MISSING, Field, asdict, dataclass, field, fields, replace
    from pysandbox.shapes.tuples import NamedTuple
    from pysandbox.shapes.words import (
        IO,
        Any,
        Generic,
        Literal,
        NewType,
        NoReturn,
        Protocol,
        Self,
        TextIO,
        TypeAlias,
        TypeVar,
        cast,
        get_args,
        overload,
    )

__all__ = [
    "IO", "MISSING", "TYPE_CHECKING", "Any", "Field", "Generic", "Literal", "NamedTuple", "NewType", "NoReturn",
    "Protocol", "Self", "TextIO", "TypeAlias", "TypeVar", "asdict", "cast", "dataclass", "field", "fields", "get_args",
    "overload", "replace",
]  # fmt: skip
