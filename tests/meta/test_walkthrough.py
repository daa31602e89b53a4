"""docs/walkthrough.md leads through the code as it is: each link to its definition, each step from one before it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from _support.tree import REPOSITORY, installed

PAGE = REPOSITORY / "docs" / "walkthrough.md"
LINK = re.compile(r"\[`(?P<text>[^`]+)`\]\(\.\./(?P<path>[\w/.]+)#(?P<symbol>[\w.]+)\)")
ITEM = re.compile(r"^1\. (.*(?:\n   .*)*)", re.MULTILINE)
# Begins a program, or is called for what happened elsewhere.
ENTRIES = frozenset(("Cage.run", "init_main"))
DEFINITION = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
C_TYPE = r"^(?:struct|enum|union) {name} \{{.*?^\}}"
C_FUNCTION = r"^[a-z_][\w ]*[ *]{name}\([^;{{}}]*\) *\{{.*?^\}}"


class Place(NamedTuple):
    text: str
    path: str
    symbol: str


def places(text: str) -> list[Place]:
    return [Place(**found.groupdict()) for found in LINK.finditer(text)]


def every_place() -> list[Place]:
    return places(PAGE.read_text(encoding="utf-8"))


def source(path: str) -> str:
    return installed(REPOSITORY / path).read_text(encoding="utf-8")


def in_python(text: str, symbol: str) -> str | None:
    """The source of a class, a function or a method."""
    node: ast.AST = ast.parse(text)
    for name in symbol.split("."):
        body = (each for each in getattr(node, "body", ()) if isinstance(each, DEFINITION))
        found = [each for each in body if each.name == name]
        if not found:
            return None
        node = found[-1]  # the overloads of a function come before it
    return ast.get_source_segment(text, node)


def in_c(text: str, symbol: str) -> str | None:
    """The source of a function with its body, of a struct or of an enum."""
    for pattern in (C_FUNCTION, C_TYPE):
        found = re.search(pattern.format(name=symbol), text, re.MULTILINE | re.DOTALL)
        if found:
            return found[0]
    return None


@cache
def definition(path: str, symbol: str) -> str | None:
    return (in_python if path.endswith(".py") else in_c)(source(path), symbol)


def steps() -> Iterator[tuple[Place, list[Place]]]:
    """Each step that begins with a link, with all the places that were named up to it."""
    before: list[Place] = []
    for item in ITEM.findall(PAGE.read_text(encoding="utf-8")):
        found = places(item)
        yield found[0], list(before)
        before += found


def test_every_link_leads_to_a_definition_of_that_name() -> None:
    found = every_place()
    assert len(found) > 50
    assert [each for each in found if each.text != each.symbol] == []
    assert [each for each in found if definition(each.path, each.symbol) is None] == []


def test_every_step_is_a_link() -> None:
    items = ITEM.findall(PAGE.read_text(encoding="utf-8"))
    assert [item for item in items if not item.startswith("[`")] == []


def test_every_step_is_taken_by_one_before_it() -> None:
    astray = []
    for step, before in steps():
        called = re.compile(rf"\b{step.symbol.rpartition('.')[2]}\b")
        callers = (definition(each.path, each.symbol) or "" for each in before if each != step)
        if step.symbol not in ENTRIES and not any(map(called.search, callers)):
            astray.append(step.symbol)
    assert not astray, f"no step before these calls them: {astray}"


@pytest.mark.parametrize(("path", "symbol"), [
    ("pysandbox/cage.py", "Cage.runs"), ("pysandbox/cage.py", "start"), ("csrc/init/main.c", "handle_messages"),
    ("csrc/init/init.h", "begin_command"), ("csrc/abi.h", "psb_exe"),
])  # fmt: skip
def test_what_is_not_defined_there_is_not_found(path: str, symbol: str) -> None:
    """A call, a declaration, a part of a name: none of them is a definition."""
    assert definition(path, symbol) is None
