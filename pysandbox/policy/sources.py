"""The TOML door: one text or file read strictly into a Recipe. Whatever the text holds, it is read in full or refused.

A refusal is a PolicyError with file, line and key. Words that the documents know, but this version cannot carry out,
are refused by name, here where they cannot even be read, else where a cage is made (`compile.absent`): a rule that is
ignored is worse than a rule that is missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

from pysandbox.errors import PolicyError
from pysandbox.policy.fields import MERGE_WORDS, P, by_toml_key, options
from pysandbox.policy.merge import merge_layers
from pysandbox.policy.option import Option
from pysandbox.policy.reading import recipe_text, sha256
from pysandbox.policy.recipe import PACKAGED, SHIPPED, Recipe, RecipeMeta, shipped_file
from pysandbox.policy.refusal import CommandRefused, did_you_mean, shown
from pysandbox.policy.validate import KINDS, strings, text
from pysandbox.shapes import TYPE_CHECKING, Any, NoReturn, dataclass, fields

if TYPE_CHECKING:
    from pysandbox.policy.toml_lines import Path

_WHERE = r" \(at (?:line (\d+), column \d+|end of document)\)$"  # how tomllib ends its messages
DEEPEST_KEY = 64  # parts; tomllib takes time by the square of them, and a policy has three
_DEEP = rf"""(?:[ \t]*\.[ \t]*(?:[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')){{{DEEPEST_KEY}}}"""

ALSO = "also"  # [[also]]: tables of a recipe that are merged after the file they stand in, one after the other

SECTIONS = tuple(dict.fromkeys(described.section for _, described in options() if described.section))
_FIELDS = by_toml_key()
_METADATA = tuple(field.name for field in fields(RecipeMeta))
_PREFIXES = Option("recipe", "match_prefix", "Commands below these paths call for this recipe.", "union")

# Parts of the documents' schema that this version does not have, and what they would need.
ABSENT: Mapping[str, str] = {
    "network.strict_loopback": "the cage's loopback is its own and is open",
}

# Words of older schemas, wherever they stand, and what has taken their place.
REPLACED: Mapping[str, str] = {
    "profile": "use profile in [syscalls]",
    "baseline": "use profile in [syscalls]",
    "deny_all": 'use egress = "none" in [network]',
    "syscalls.allow": "use allow_extra: a recipe extends the profile it starts from; only a baseline, the file "
    "default.toml of a directory of recipes, lists calls absolutely",
    "syscalls.deny": "use deny_extra: a recipe extends the profile it starts from; only a baseline, the file "
    "default.toml of a directory of recipes, lists calls absolutely",
}
ABSOLUTE, RELATIVE = ("allow", "deny"), ("allow_extra", "deny_extra")  # RCP-27: never both in one [syscalls]


def read_recipe(file: str) -> Recipe:
    return parse_recipe(recipe_text(file), file)


def shipped(name: str) -> Recipe:
    """The recipe of that name that travels with the package."""
    if name not in SHIPPED:
        known = ", ".join(SHIPPED)
        raise CommandRefused(f"no such recipe ships; there are {known}", did_you_mean(name, SHIPPED)).error(name)
    return read_recipe(shipped_file(name))


def parse_recipe(content: str, file: str | None = None) -> Recipe:
    document = _Document(content, file)
    given: dict[str, Any] = {}
    meta = None
    tables = document.tables()
    besides = tables.pop(ALSO, [])
    for name, value in tables.items():
        if name == "recipe":
            meta = _metadata(document, value)
        elif name in SECTIONS:
            _read_section(document, (name,), value, given)
        else:
            _read_option(document, (name,), value, given)
    return Recipe(with_besides(Within(content, file), given, besides), meta, file)


def _read_section(document: _Document, path: tuple[str, ...], value: Any, given: dict[str, Any]) -> None:
    table = document.table(path, value)
    if path == ("syscalls",):
        _check_one_kind(document, table)
    for key, each in table.items():
        inner = (*path, key)
        if ".".join(inner) in SECTIONS and "." not in key:
            _read_section(document, inner, each, given)
        else:
            _read_option(document, inner, each, given)


def _check_one_kind(document: _Document, table: Mapping[str, Any]) -> None:
    absolute, relative = ([key for key in keys if key in table] for keys in (ABSOLUTE, RELATIVE))
    if absolute and relative:
        message = f"lists calls absolutely, and {relative[0]} changes a list"
        document.refuse(("syscalls", absolute[0]), CommandRefused(message, "keep one of the two kinds"))


def parse_baseline(content: str, file: str | None = None) -> Recipe:
    """The text of a default.toml: [recipe], and in [syscalls] the absolute lists allow and deny (RCP-06, RCP-28)."""
    document = _Document(content, file)
    tables = document.tables()
    for name in tables:
        if name not in ("recipe", "syscalls"):
            document.refuse((name,), CommandRefused("a baseline holds [syscalls] alone", "move it to a recipe"))
    calls = document.table(("syscalls",), tables.get("syscalls", {}))
    _check_one_kind(document, calls)
    for key in calls:
        if key not in ABSOLUTE:
            document.refuse(
                ("syscalls", key), CommandRefused("a baseline lists allow and deny alone", "move it to a recipe")
            )
    if not calls.get("allow"):
        document.refuse(
            ("syscalls",), CommandRefused("a baseline needs the list allow", "pysandbox recipe show --baseline")
        )
    field = _FIELDS["syscalls.lists"]
    try:
        lists = KINDS[str(field.type)](field.metadata["option"], calls)
    except CommandRefused as refused:
        document.refuse(("syscalls",), refused)
    meta = _metadata(document, tables["recipe"]) if "recipe" in tables else None
    return Recipe({field.name: lists}, meta, file)


def parse_policy(kind: type[P], content: str, file: str | None = None) -> P:
    """One text as a complete policy; where its fields contradict each other, the error says on which line."""
    return located(partial(parse_recipe(content, file).policy, kind), content, file)


def located(make: Callable[[], P], content: str, file: str | None) -> P:
    """What `make` makes; its PolicyError with the line of this text that it is about."""
    try:
        return make()
    except PolicyError as error:
        line = _line_of(content, tuple((error.key or "").split(".")))
        raise PolicyError(error.message, file=file, line=line, key=error.key, suggestion=error.suggestion) from None


def _line_of(content: str, path: Path) -> int | None:
    from pysandbox.policy.toml_lines import line_of  # only a refused text needs it

    return line_of(content, path)


@dataclass(frozen=True, slots=True)
class _Document:
    """A text with its name: what a refusal needs to say where it happened."""

    content: str
    file: str | None

    def tables(self) -> dict[str, Any]:
        return self._known() or self._read()

    def _known(self) -> dict[str, Any]:
        """What the text of a shipped recipe says, without a reader of TOML; empty for any other text."""
        if self.file is None or not self.file.startswith(f"{PACKAGED}/"):
            return {}
        from pysandbox.policy.shipped_tables import TABLES

        return dict(TABLES.get(sha256(self.content.encode()), {}))

    def _read(self) -> dict[str, Any]:
        import tomllib

        if deep := re.search(_DEEP, self.content):
            line = self.content.count("\n", 0, deep.start()) + 1
            raise PolicyError(f"a name of more than {DEEPEST_KEY} parts", file=self.file, line=line)
        try:
            return tomllib.loads(self.content)
        except RecursionError:
            raise PolicyError("is nested too deeply", file=self.file) from None
        except ValueError as error:  # TOMLDecodeError, and the numbers that int() and datetime refuse
            raise self._not_toml(str(error)) from None

    def _not_toml(self, message: str) -> PolicyError:
        line = None
        if found := re.search(_WHERE, message):
            message = message[: found.start()]
            line = int(found[1] or self.content.count("\n") + 1)
        return PolicyError(f"not TOML: {message}", file=self.file, line=line)

    def table(self, path: Path, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            write = f"write [{path[-1]}]" if path else None
            self.refuse(path, CommandRefused(f"must be a table, not {shown(value)}", write))
        return value

    def refuse(self, path: Path, refused: CommandRefused) -> NoReturn:
        line = _line_of(self.content, (*path, *refused.at))
        raise refused.error(_dotted(path), file=self.file, line=line) from None


def _dotted(path: Path) -> str:
    return ".".join(str(part) if str(part).isidentifier() else shown(part) for part in path)


def _read_option(document: _Document, path: tuple[str, ...], value: Any, given: dict[str, Any]) -> None:
    field = _FIELDS.get(".".join(path)) if "." not in path[-1] else None
    if field is None:
        document.refuse(path, _unknown(path))
    kind = str(field.type)
    try:
        if field.name == "hosts" and not isinstance(value, list):
            raise CommandRefused(f"must be a list of tables, not {shown(value)}", "write [[host]]")
        if kind == "tuple[tuple[str, str], ...]" and not isinstance(value, dict):
            raise CommandRefused(f"must be a table of strings, not {shown(value)}", 'write { NAME = "value" }')
        given[field.name] = KINDS[kind](field.metadata["option"], value)
    except CommandRefused as refused:
        document.refuse(path, refused)


def _unknown(path: tuple[str, ...]) -> CommandRefused:
    dotted, key = ".".join(path), path[-1]
    if dotted in ABSENT and dotted not in _FIELDS:
        return CommandRefused(f"is not part of this version ({ABSENT[dotted]})", "remove it")
    for word in (dotted, key):
        if word in REPLACED:
            return CommandRefused("is no longer part of a recipe", REPLACED[word])
    section = ".".join(path[:-1])
    return CommandRefused("no such key" if section else "no such key or section", _meant(section, key))


def _meant(section: str, key: str) -> str | None:
    from pysandbox.policy.other_words import in_a_recipe, of_hosts

    known = of_hosts(section, key) or _elsewhere(key) or in_a_recipe(section, key, _elsewhere)
    return known or did_you_mean(key, _known(section))


def _known(section: str) -> list[str]:
    keys = [described.key for _, described in options() if described.section == section]
    inner = [each.removeprefix(f"{section}.") for each in SECTIONS if section and each.startswith(f"{section}.")]
    return [*keys, *inner] if section else [*keys, *SECTIONS, "recipe", ALSO]


def _elsewhere(key: str) -> str | None:
    """Where a key belongs that was written in another section, or under its Python name."""
    for field, described in options():
        if key in (described.key, field.name):
            place = f"in [{described.section}]" if described.section else "above all sections"
            return f"write {described.key} {place}"
    return None


def _metadata(document: _Document, value: Any) -> RecipeMeta:
    given: dict[str, Any] = {}
    for key, each in document.table(("recipe",), value).items():
        path = ("recipe", key)
        if key not in _METADATA:
            document.refuse(path, CommandRefused("no such key", did_you_mean(key, _METADATA)))
        try:
            given[key] = strings(_PREFIXES, each) if key == "match_prefix" else text(each)
        except CommandRefused as refused:
            document.refuse(path, refused)
    return RecipeMeta(**given)


# ---- a layer inside a larger document ------------------------------------------------------------------------


def read_tables(content: str, file: str | None = None) -> dict[str, Any]:
    """A TOML text as plain tables; PolicyError with the line where it is not TOML."""
    return _Document(content, file).tables()


@dataclass(frozen=True, slots=True)
class Within(_Document):
    """One table of a larger document; `at` is where it stands, so that a refusal names the whole path."""

    at: Path = ()

    def refuse(self, path: Path, refused: CommandRefused) -> NoReturn:
        _Document.refuse(self, (*self.at, *path), refused)


def read_layer(place: Within, tables: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a table that has the schema of a recipe, without its [recipe]."""
    given: dict[str, Any] = {}
    for name, value in tables.items():
        if name in SECTIONS:
            _read_section(place, (name,), value, given)
        else:
            _read_option(place, (name,), value, given)
    return given


def with_besides(place: Within, given: Mapping[str, Any], besides: Any) -> Mapping[str, Any]:
    """A layer with the tables [[also]] of its place merged over it, in their order."""
    for number, table in enumerate(each_besides(place, besides)):
        given = merge_layers(MERGE_WORDS, given, read_layer(below(place, number), table))
    return given


def each_besides(place: Within, besides: Any) -> list[dict[str, Any]]:
    """The tables [[also]], each its own to change."""
    if not isinstance(besides, list):
        place.refuse((ALSO,), CommandRefused(f"must be a list of tables, not {shown(besides)}", f"write [[{ALSO}]]"))
    return [dict(below(place, number).table((), each)) for number, each in enumerate(besides)]


def below(place: Within, number: int) -> Within:
    return Within(place.content, place.file, (*place.at, ALSO, number))
