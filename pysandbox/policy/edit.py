"""Adding to the text of a recipe or a manifest what it lacks, with everything that is there kept: comments, order,
spelling.

tomlkit makes the edit where the key belongs, and then it is proved: the result must read as the recipe that merging
would give. Where it does not, a table [[also]] at the end says the same, which is proved likewise. So what tomlkit gets
wrong costs an uglier file, never a wrong policy. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pysandbox.errors import PolicyError
from pysandbox.policy.model import options
from pysandbox.policy.recipe import Recipe
from pysandbox.policy.render import BLOCKS, literal
from pysandbox.policy.sources import parse_recipe
from pysandbox.shapes import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tomlkit import TOMLDocument
    from tomlkit.items import Array, Item


def as_also(fix: str) -> str:
    """A fix as it was recorded; where an earlier version wrote it, as one line `key = value`, in the form of today."""
    from pysandbox.policy.also import HEADER, as_toml

    if not fix or fix.startswith(HEADER):
        return fix
    try:
        return as_toml(parse_recipe(_with_section(fix)).given)
    except PolicyError:
        return ""


def _with_section(line: str) -> str:
    key = line.partition("=")[0].strip()
    sections = [described.section for _, described in options() if described.key == key and described.section]
    return f"{sections[0]}.{line}" if len(sections) == 1 else line


def add_to(text: str, given: Mapping[str, Any], file: str | None = None) -> str:
    """`text`, a recipe, with the layer `given` laid over it. Raises PolicyError."""
    before = parse_recipe(text, file)
    wanted = before.merge(Recipe(given)).given
    changed = [each for each in _declared(given) if before.given.get(each[0]) != wanted[each[0]]]
    if not changed:
        return text
    for grow in (True, False):  # a list that cannot grow where it is, is written anew
        edited = _edited(text, changed, before.given, wanted, grow=grow)
        if _reads_as(edited, wanted):
            return edited
    edited = _with_table(text, given)
    if not _reads_as(edited, wanted):
        raise _not_editable(file)
    return edited


def add_to_manifest(text: str, given: Mapping[str, Any], sandbox: str, file: str | None = None) -> str:
    """`text`, a manifest, with `given` laid over the overrides of one of its sandboxes. Raises PolicyError."""
    from pysandbox.policy.manifest import parse_manifest

    before = parse_manifest(text, file)
    over = before.sandbox(sandbox).overrides
    wanted = Recipe(over).merge(Recipe(given)).given
    if wanted == over:
        return text
    edited = _with_table(text, given, sandbox)
    after = {name: each.overrides for name, each in parse_manifest(edited, file).sandboxes.items()}
    if after != {name: wanted if name == sandbox else each.overrides for name, each in before.sandboxes.items()}:
        raise _not_editable(file)
    return edited


def _not_editable(file: str | None) -> PolicyError:
    message = "is laid out in a way that cannot be edited safely"
    return PolicyError(message, file=file, suggestion="add it by hand")


def _with_table(text: str, given: Mapping[str, Any], sandbox: str = "") -> str:
    """The text with one more table [[also]]; where they are written as a list, with one more element of it."""
    from pysandbox.policy.also import HEADER, as_toml

    header, _, lines = as_toml(given).partition("\n")
    named = f"sandbox = [{literal(sandbox)}]\n" if sandbox else ""
    if not re.search(r"""^[ \t]*(?:also|"also"|'also')[ \t]*=""", text, re.MULTILINE):
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}{header}\n{named}{lines}\n"
    import tomlkit

    document = tomlkit.parse(text)
    tables: Any = document[HEADER.strip("[]")]
    inline = ", ".join(f"{named}{lines}".splitlines())  # each value is on one line
    tables.append(tomlkit.parse(f"element = {{ {inline} }}")["element"])
    return tomlkit.dumps(document)


def _edited(
    text: str, changed: Sequence[tuple[str, str, str]], before: Mapping[str, Any], wanted: Mapping[str, Any],
    *, grow: bool,
) -> str:  # fmt: skip
    import tomlkit

    document = tomlkit.parse(text)
    for name, key, section in changed:
        old, new = before.get(name), wanted[name]
        if name in BLOCKS:
            _set_blocks(_table(document, section), key, old or (), new, grow=grow)
        else:
            _set(_table(document, section), key, old if grow else None, new)
    return tomlkit.dumps(document)


def _reads_as(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        return dict(parse_recipe(text).given) == dict(wanted)
    except PolicyError:
        return False


def _declared(given: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    return ((field.name, described.key, described.section) for field, described in options() if field.name in given)


def _table(document: TOMLDocument, section: str) -> Any:
    """The table of a section, made where there is none."""
    import tomlkit

    table: Any = document
    for part in section.split(".") if section else ():
        if part not in table:
            table[part] = tomlkit.table()
        table = table[part]
    return table


def _set(table: Any, key: str, old: Any, new: Any) -> None:
    if isinstance(old, tuple) and isinstance(new, tuple) and isinstance(table.get(key), list):
        if "#" in table[key].as_string():
            table[key] = _with_last_comma(table[key])
        for each in new:
            if each not in old:
                table[key].append(_item(each))
    elif key in table:
        table[key] = _item(new)
    else:
        apart = _taken_off(table)
        table[key] = _item(new)
        for each in apart:
            table.add(each)


def _taken_off(table: Any) -> list[Item]:
    """What stands below the last key of a table and an empty line: to tomlkit it is the table's, to a reader of the
    next one."""
    from tomlkit.items import Table, Whitespace

    if not isinstance(table, Table):
        return []
    body = table.value.body
    last = max((number for number, (key, _) in enumerate(body) if key is not None), default=len(body))
    gap = next((at for at in range(last + 1, len(body)) if isinstance(body[at][1], Whitespace)), len(body))
    apart = [item for _, item in body[gap:]]
    del body[gap:]
    return apart


def _with_last_comma(array: Array) -> Item:
    """tomlkit appends after the comments behind the last element, and sets no comma before them."""
    import tomlkit

    body = array.as_string()[:-1]
    end = _last_of_content(body)
    if body[:end].endswith((",", "[")):
        return array
    whole = tomlkit.value(f"{body[:end]},{body[end:]}]")
    whole.trivia.comment_ws, whole.trivia.comment = array.trivia.comment_ws, array.trivia.comment
    return whole


def _last_of_content(body: str) -> int:
    """Where the last element of a list, or its comma, ends: before trailing space and comments."""
    end, at = 1, 1
    for token in re.finditer(r'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|\s+|.', body[1:]):
        at = token.end() + 1
        if not token[0].isspace() and not token[0].startswith("#"):
            end = at
    return end


def _item(value: Any) -> Item:
    import tomlkit

    return tomlkit.value(literal(value))


def _set_blocks(table: Any, key: str, old: tuple[Any, ...], new: tuple[Any, ...], *, grow: bool) -> None:
    """A block, such as [[host]], for each new rule, or another element where they are written as a list."""
    import tomlkit
    from tomlkit.items import Array

    if key not in table:
        table[key] = tomlkit.aot()
    blocks: Any = table[key]
    for number, rule in enumerate(new):
        if number < len(old):
            _change_block(blocks[number], old[number].given, rule.given, grow=grow)
            continue
        block = tomlkit.inline_table() if isinstance(blocks, Array) else tomlkit.table()
        for name, value in rule.given.items():
            block[name] = _item(value)
        blocks.append(block)


def _change_block(block: Any, old: Mapping[str, Any], new: Mapping[str, Any], *, grow: bool) -> None:
    """What differs of it alone: the other lines stay, and the comments beside them."""
    for name in [each for each in old if each not in new and each in block]:
        del block[name]
    for name, value in new.items():
        if old.get(name) != value or name not in old:
            _set(block, name, old.get(name) if grow else None, value)
