"""What a return annotation declares, however it says so: enums, dataclasses, named tuples, and what they hold."""

from __future__ import annotations

import enum
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar

import pytest

from pysandbox.pipeline.answers import declared, returned_by

if TYPE_CHECKING:
    from nowhere import Unseen  # type: ignore[import-not-found]

T = TypeVar("T")


class Colour(enum.Enum):
    RED = 1


@dataclass
class Point:
    colour: Colour


class Row(NamedTuple):
    point: Point
    rest: list[Row]


class Table(TypedDict):
    rows: list[Row]


@dataclass
class Box(Generic[T]):
    content: T


Own = NewType("Own", Row)
Bound = TypeVar("Bound", bound=Point)


@pytest.mark.parametrize(
    ("annotation", "names"),
    [
        (Optional[Colour], "Colour"),  # noqa: UP045 - as many write it
        (Sequence[tuple[Point, ...]], "Point Colour"),
        (Point | int | None, "Point Colour"),
        (Annotated[Point, "in metres"], "Point Colour"),
        (Literal[Colour.RED], "Colour"),
        (Row, "Row Point Colour"),
        (Table, "Row Point Colour"),
        (Box[Point], "Box Point Colour"),
        (Own, "Row Point Colour"),
        (Bound, "Point Colour"),
        (dict[str, Any], ""),
        (None, ""),
    ],
    ids=str,
)
def test_all_that_it_names_may_come_back(annotation: object, names: str) -> None:
    found = declared(annotation)
    assert {each.rpartition(":")[2] for each in {*found.enums, *found.classes}} == set(names.split())


def reads(one: Unseen) -> Point:
    return Point(one)


def test_parameters_may_name_what_only_a_type_checker_sees() -> None:
    assert returned_by(reads) is Point


if sys.version_info >= (3, 12):  # for its statements

    def test_what_is_evaluated_late_may_name_it_too() -> None:
        around: dict[str, Any] = {"Point": Point}
        exec("type Alias = list[Unseen]\ntype Seen = list[Point]\ndef of[T: Unseen](one: T) -> T: ...\n"
             "def among[T: (Unseen, int)](one: T) -> T: ...\n", around)  # fmt: skip
        for each in (around["Alias"], returned_by(around["of"]), returned_by(around["among"])):
            assert not declared(each).classes
        assert set(declared(around["Seen"]).classes.values()) == {Point}


class Late:
    """As a TypeVar or `type` of Python 3.12 is."""

    def __getattr__(self, name: str) -> object:
        raise NameError(name)


def test_what_cannot_be_read_of_an_annotation_declares_nothing() -> None:
    assert not declared(Late()).classes
