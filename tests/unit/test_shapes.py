"""Classes of `pysandbox.shapes` are what the standard library would have made of the same declaration."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest

from pysandbox import shapes
from pysandbox.shapes.made import BY_HAND
from pysandbox.shapes.pattern import pattern

HOW = [{}, {"frozen": True}, {"slots": True}, {"frozen": True, "slots": True}, {"kw_only": True}, {"eq": False}]
HOW += [{"frozen": True, "slots": True, "kw_only": True}, {"frozen": True, "slots": True, "eq": False}]


def declare(dataclass: Callable[..., Any], field: Callable[..., Any], how: dict[str, bool]) -> Any:
    class Above:
        above: int = 1

    base = dataclass(**how)(Above)

    class Shape(base):
        name: str = "x"
        hidden: int = field(default=3, repr=False)
        beside: int = field(default=4, compare=False)
        made: list[int] = field(default_factory=list, metadata={"said": 1})

        def double(self) -> int:
            return 2 * self.above

    return dataclass(**how)(Shape)


@pytest.fixture(params=HOW, ids=lambda how: "-".join(how) or "plain")
def both(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    how = request.param
    return declare(shapes.dataclass, shapes.field, how), declare(dataclasses.dataclass, dataclasses.field, how)


def outcome(does: Callable[[], Any]) -> Any:
    try:
        return does()
    except (TypeError, AttributeError) as error:
        return type(error), str(error).replace("Shape.__init__", "__init__").replace("declare.<locals>.", "")


@pytest.mark.parametrize("given", [{}, {"above": 2, "made": [1]}, {"unknown": 1}])
def test_an_object_is_made_shown_and_compared_as_the_standard_one(both: tuple[Any, Any], given: dict[str, Any]) -> None:
    ours, theirs = (outcome(lambda: repr(each(**given))) for each in both)  # noqa: B023
    assert ours == theirs
    if "unknown" in given:
        return
    for change in ({}, {"beside": 9}, {"hidden": 9}, {"name": "y"}):
        answers = [each(**given) == each(**{**given, **change}) for each in both]
        assert answers[0] == answers[1]
    assert outcome(lambda: hash(both[0](made=())) != 0) == outcome(lambda: hash(both[1](made=())) != 0)


def test_it_is_taken_for_a_dataclass_by_the_standard_functions(both: tuple[Any, Any]) -> None:
    ours, theirs = both
    assert inspect.signature(ours) == inspect.signature(theirs) or "factory" in str(inspect.signature(theirs))
    assert ours.__match_args__ == theirs.__match_args__
    assert dataclasses.is_dataclass(ours)
    told = [[(f.name, f.type, f.default, f.repr, f.compare, f.kw_only, dict(f.metadata)) for f in dataclasses.fields(c)]
            for c in both]  # fmt: skip
    assert told[0] == told[1]
    assert dataclasses.asdict(ours(above=5)) == dataclasses.asdict(theirs(above=5)) == shapes.asdict(ours(above=5))
    assert dataclasses.replace(ours(), name="z").name == shapes.replace(ours(), name="z").name == "z"
    assert copy.deepcopy(ours(above=7)).above == 7


def test_what_is_frozen_cannot_be_set_nor_deleted(both: tuple[Any, Any]) -> None:
    def change(of: Any) -> Any:
        of.name = "y"
        return of.name

    def forget(of: Any) -> None:
        del of.name

    assert outcome(lambda: change(both[0]())) == outcome(lambda: change(both[1]()))
    assert outcome(lambda: forget(both[0]())) == outcome(lambda: forget(both[1]()))


@shapes.dataclass(frozen=True, slots=True)
class Kept:
    name: str
    parts: tuple[int, ...] = ()


class Pair(shapes.NamedTuple):
    """Two."""

    first: int
    second: str = "b"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"


class StandardPair(typing.NamedTuple):
    first: int
    second: str = "b"


@pytest.mark.parametrize("value", [Kept("a", (1,)), Pair(1), Pair(2, "c")])
@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_it_is_pickled(value: Any, protocol: int) -> None:
    assert pickle.loads(pickle.dumps(value, protocol)) == value


def test_a_method_that_is_called_often_is_made_once_and_then_is_a_function() -> None:
    """Until then it says and refuses the same, which the tests above see: each class of theirs is new."""

    @shapes.dataclass(frozen=True)
    class Often:
        name: str

    for _ in range(BY_HAND // 2):
        assert not inspect.isfunction(Often.__dict__["__init__"])
        assert Often("a") == Often(name="a")
    assert Often("b") != Often("a")
    assert inspect.isfunction(Often.__dict__["__init__"])
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'name'"):
        Often()  # type: ignore[call-arg]


def test_a_class_is_shown_the_same_by_hand_and_compiled() -> None:
    @shapes.dataclass
    class Node:
        name: str
        hidden: int = shapes.field(default=0, repr=False)
        inside: object = None

    node = Node("it's {a}")
    node.inside = [node, Node("b")]
    shown = {repr(node) for _ in range(BY_HAND)}
    assert inspect.isfunction(Node.__dict__["__repr__"])
    name = Node.__qualname__
    assert shown == {repr(node)} == {f"""{name}(name="it's {{a}}", inside=[..., {name}(name='b', inside=None)])"""}


def test_a_mutable_default_is_refused() -> None:
    class Shared:
        items: list[int] = []  # noqa: RUF012

    with pytest.raises(ValueError, match="default_factory"):
        shapes.dataclass(Shared)


def test_a_tuple_with_names_is_as_the_standard_one() -> None:
    ours, theirs = Pair(1), StandardPair(1)
    assert ours == theirs == (1, "b")
    assert repr(ours) == repr(theirs).replace("StandardPair", "Pair")
    assert ours._asdict() == theirs._asdict()
    assert ours._replace(second="z") == theirs._replace(second="z")
    assert (Pair._fields, Pair._field_defaults) == (StandardPair._fields, StandardPair._field_defaults)
    assert (ours.both, Pair.__doc__, Pair._make([1, "x"])) == ("1b", "Two.", (1, "x"))
    first, second = ours
    assert (first, second) == (1, "b")
    for wrong in (lambda: Pair(), lambda: ours._replace(third=1), lambda: Pair._make([1])):  # type: ignore[call-arg]
        with pytest.raises((TypeError, ValueError)):
            wrong()


def test_a_tuple_is_the_same_by_hand_and_compiled() -> None:
    class Three(shapes.NamedTuple):
        first: int
        second: str = "b"
        third: int = 3

    class Standard(typing.NamedTuple):
        first: int
        second: str = "b"
        third: int = 3

    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((1,), {}), ((1, "x"), {}), ((1, "x", 9), {}), ((), {"first": 1}), ((1,), {"third": 5}),
        ((), {"third": 1, "second": "s", "first": 0}), ((), {}), ((1, "x", 3, 4), {}), ((1,), {"first": 2}),
        ((1,), {"fourth": 2}), ((), {"second": "x"}), ((1, "x"), {"second": "y"}),
    ]  # fmt: skip
    assert inspect.signature(Three).parameters.keys() == inspect.signature(Standard).parameters.keys()
    for _ in range(BY_HAND):  # from by hand to compiled
        for given, named in calls:
            ours, theirs = (outcome(lambda: each(*given, **named)) for each in (Three, Standard))  # noqa: B023
            if isinstance(theirs, Standard):
                assert ours == tuple(theirs) and type(ours) is Three
            else:
                assert ours[0] is theirs[0]
    assert inspect.isfunction(Three.__new__)
    assert copy.copy(Three(1)) == Three(1)


def test_a_pattern_is_compiled_when_it_is_used() -> None:
    late = pattern(r"(?a)a(\d)")
    found = late.fullmatch("a1")
    assert found is not None and found[1] == "1"
    assert late.findall("a1a2") == ["1", "2"]
    assert late.pattern == r"(?a)a(\d)"
    with pytest.raises(AttributeError):
        late.no_such_method  # type: ignore[attr-defined]  # noqa: B018
