"""Adding to a recipe's text what it lacks, with everything that is there kept: comments, order, spelling.

The edit is made on the text and then proved: the result must read as the recipe that merging would give, or the edit is
refused. So a layout that this file does not understand costs an error, never a wrong policy. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pysandbox.errors import PolicyError
from pysandbox.policy.model import options
from pysandbox.policy.recipe import Recipe
from pysandbox.policy.refusal import shown
from pysandbox.policy.render import literal
from pysandbox.policy.sources import parse_recipe
from pysandbox.policy.toml_lines import Path, layout


def located(line: str) -> str:
    """A policy line as it can stand at the top of a recipe: with the section of its key in front, if it lacks it."""
    key = line.partition("=")[0].strip()
    sections = [described.section for _, described in options() if described.key == key and described.section]
    return f"{sections[0]}.{line}" if len(sections) == 1 else line


def layer_of(line: str) -> Mapping[str, Any]:
    """What one policy line gives. Raises PolicyError for anything that is more, or less, than one option."""
    given = parse_recipe(located(line)).given
    if len(given) != 1 or len(line.splitlines()) != 1:
        raise PolicyError(f"{shown(line)} is not one line of a policy", suggestion="give one option and its value")
    return given


def add_to(text: str, given: Mapping[str, Any], file: str | None = None) -> str:
    """`text`, a recipe, with the layer `given` laid over it. Raises PolicyError."""
    before = parse_recipe(text, file)
    wanted = before.merge(Recipe(given)).given
    edited = text
    for name, key, section in _declared(given):
        if before.given.get(name) != wanted[name]:
            edited = _with(edited, section, key, before.given.get(name), wanted[name])
    if not _reads_as(edited, wanted):
        message = "is laid out in a way that cannot be edited safely"
        raise PolicyError(message, file=file, suggestion="add the line by hand")
    return edited


def _reads_as(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        return dict(parse_recipe(text).given) == dict(wanted)
    except PolicyError:
        return False


def _declared(given: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    return ((field.name, described.key, described.section) for field, described in options() if field.name in given)


def _with(text: str, section: str, key: str, old: Any, new: Any) -> str:
    values, headers = layout(text)
    path: Path = (section, key) if section else (key,)
    if path in values:
        start, end = values[path]
        if isinstance(old, tuple) and isinstance(new, tuple) and text[start] == "[":
            return _append(text, start, end, [each for each in new if each not in old])
        return text[:start] + literal(new) + text[end:]
    table: Path = (section,) if section else ()
    ends = [end for known, (_, end) in values.items() if known[:-1] == table]
    name = f"{section}.{key}" if section and ends and table not in headers else key  # filesystem.allow = [...]
    return _insert(text, section, max(ends, default=headers.get(table, -1)), f"{name} = {literal(new)}\n")


def _append(text: str, start: int, end: int, items: list[Any]) -> str:
    """Before the closing bracket: one element a line where the list is written so."""
    body, close = text[start : end - 1], end - 1
    written = [literal(each) for each in items]
    content = _last_of_content(body)
    comma = "" if body[:content].rstrip().endswith((",", "[")) else ","
    if "\n" not in body:
        gap = "" if body[:content].endswith("[") else " "
        return f"{text[:start]}{body[:content]}{comma}{gap}{', '.join(written)}{text[close:]}"
    indent = _indent(body)
    lines = "".join(f"{indent}{each},\n" for each in written)
    rest = body[content:]
    tail = rest if rest.endswith("\n") else rest[: rest.rfind("\n") + 1] or "\n"
    closing = "" if rest.endswith("\n") else rest[rest.rfind("\n") + 1 :]
    return f"{text[:start]}{body[:content]}{comma}{tail}{lines}{closing}{text[close:]}"


def _last_of_content(body: str) -> int:
    """Where the last element of a list, or its comma, ends: before trailing space and comments."""
    end, at = 1, 1
    for token in re.finditer(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|\s+|.', body[1:]):
        at = token.end() + 1
        if not token[0].isspace() and not token[0].startswith("#"):
            end = at
    return end


def _indent(body: str) -> str:
    found = re.search(r"\n([ \t]*)[^\s#]", body)
    return found[1] if found else "    "


def _insert(text: str, section: str, after: int, line: str) -> str:
    """On the line after offset `after`, the end of its section's last key or its header; -1 where there is neither."""
    if after < 0 and not section:  # before the first header, or it would belong to that table
        return f"{line}\n{text}" if text else line
    if after < 0:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}[{section}]\n{line}"
    newline = text.find("\n", after)
    if newline < 0:
        return f"{text}\n{line}"
    return text[: newline + 1] + line + text[newline + 1 :]
