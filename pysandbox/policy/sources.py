"""The TOML door: one text or file read strictly into a Recipe. Whatever the text holds, it is read in full or refused.

A refusal is a PolicyError with file, line and key. Words that the documents know, but this version cannot carry out,
are refused by name: a rule that is ignored is worse than a rule that is missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from pysandbox.errors import PolicyError
from pysandbox.policy.model import Policy, by_toml_key, options
from pysandbox.policy.option import Option
from pysandbox.policy.recipe import Recipe, RecipeMeta
from pysandbox.policy.refusal import Refused, did_you_mean, shown
from pysandbox.policy.toml_lines import Path, line_of
from pysandbox.policy.validate import KINDS, strings, text

_WHERE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")  # how tomllib ends its messages
LARGEST_FILE = 1 << 20  # bytes; a policy that people can review is a thousand times smaller

SECTIONS = tuple(dict.fromkeys(described.section for _, described in options() if described.section))
_FIELDS = by_toml_key()
_METADATA = tuple(field.name for field in fields(RecipeMeta))
_PREFIXES = Option("recipe", "match_prefix", "Commands below these paths call for this recipe.", "union")

# Parts of the documents' schema that this version does not have, and what they would need.
ABSENT: Mapping[str, str] = {
    "host": "contracts per destination need the network gatekeeper",
    "proxy": "the egress proxy needs the network gatekeeper",
    "network.dlp": "scanning of requests needs the network gatekeeper",
    "network.allow_ips": "addresses out of the cage need the network gatekeeper",
    "network.ports": "ports into the cage need the network gatekeeper",
    "network.allow_host_loopback": "the way to the host's loopback needs the network gatekeeper",
    "network.contract_mode": "contracts per destination need the network gatekeeper",
    "network.strict_loopback": "the cage's loopback is its own and is open",
    "syscalls.notifier": "no call is decided at run time",
}

# Words of older schemas, wherever they stand, and what has taken their place.
REPLACED: Mapping[str, str] = {
    "profile": "use profile in [syscalls]",
    "baseline": "use profile in [syscalls]",
    "deny_all": 'use egress = "none" in [network], which is the default',
    "syscalls.allow": "use allow_extra: a recipe extends the profile it starts from",
    "syscalls.deny": "use deny_extra: a recipe extends the profile it starts from",
}


def read_recipe(file: str) -> Recipe:
    return parse_recipe(_contents(file), file)


def parse_recipe(content: str, file: str | None = None) -> Recipe:
    document = _Document(content, file)
    given: dict[str, Any] = {}
    meta = None
    for name, value in document.tables().items():
        if name == "recipe":
            meta = _metadata(document, value)
        elif name in SECTIONS:
            for key, each in document.table((name,), value).items():
                _read_option(document, (name, key), each, given)
        else:
            _read_option(document, (name,), value, given)
    return Recipe(given, meta, file)


def parse_policy(content: str, file: str | None = None) -> Policy:
    """One text as a complete policy; where its fields contradict each other, the error says on which line."""
    recipe = parse_recipe(content, file)
    try:
        return recipe.policy()
    except PolicyError as error:
        line = line_of(content, tuple((error.key or "").split(".")))
        raise PolicyError(error.message, file=file, line=line, key=error.key, suggestion=error.suggestion) from None


def load_policy(*files: str) -> Policy:
    """Files merged left to right into one policy."""
    if len(files) == 1:
        return parse_policy(_contents(files[0]), files[0])
    merged = Recipe({})
    for file in files:
        merged = merged.merge(read_recipe(file))
    return merged.policy()


def _contents(file: str) -> str:
    try:
        with open(file, "rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PolicyError(f"cannot be read: {reason}", file=file, suggestion="give the path of a TOML file") from None
    if len(content) > LARGEST_FILE:
        raise PolicyError(f"is larger than {LARGEST_FILE} bytes", file=file, suggestion="give the path of a TOML file")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise PolicyError("is not UTF-8, which TOML must be", file=file, line=line) from None


@dataclass(frozen=True, slots=True)
class _Document:
    """A text with its name: what a refusal needs to say where it happened."""

    content: str
    file: str | None

    def tables(self) -> dict[str, Any]:
        import tomllib

        try:
            return tomllib.loads(self.content)
        except RecursionError:
            raise PolicyError("is nested too deeply", file=self.file) from None
        except ValueError as error:  # TOMLDecodeError, and the numbers that int() and datetime refuse
            raise self._not_toml(str(error)) from None

    def _not_toml(self, message: str) -> PolicyError:
        line = None
        if found := _WHERE.search(message):
            message = message[: found.start()]
            line = int(found[1] or self.content.count("\n") + 1)
        return PolicyError(f"not TOML: {message}", file=self.file, line=line)

    def table(self, path: Path, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.refuse(path, Refused(f"must be a table, not {shown(value)}", f"write [{path[-1]}]"))
        return value

    def refuse(self, path: Path, refused: Refused) -> NoReturn:
        line = line_of(self.content, (*path, *refused.at))
        raise refused.error(_dotted(path), file=self.file, line=line) from None


def _dotted(path: Path) -> str:
    return ".".join(str(part) if str(part).isidentifier() else shown(part) for part in path)


def _read_option(document: _Document, path: tuple[str, ...], value: Any, given: dict[str, Any]) -> None:
    field = _FIELDS.get(".".join(path)) if "." not in path[-1] else None
    if field is None:
        document.refuse(path, _unknown(path))
    kind = str(field.type)
    try:
        if kind == "tuple[tuple[str, str], ...]" and not isinstance(value, dict):
            raise Refused(f"must be a table of strings, not {shown(value)}", 'write { NAME = "value" }')
        given[field.name] = KINDS[kind](field.metadata["option"], value)
    except Refused as refused:
        document.refuse(path, refused)


def _unknown(path: tuple[str, ...]) -> Refused:
    dotted, key = ".".join(path), path[-1]
    if dotted in ABSENT:
        return Refused(f"is not part of this version ({ABSENT[dotted]})", "remove it")
    for word in (dotted, key):
        if word in REPLACED:
            return Refused("is no longer part of a recipe", REPLACED[word])
    if len(path) == 1:
        return Refused("no such key or section", _elsewhere(key) or did_you_mean(key, _known("")))
    return Refused("no such key", _elsewhere(key) or did_you_mean(key, _known(path[0])))


def _known(section: str) -> list[str]:
    keys = [described.key for _, described in options() if described.section == section]
    return keys if section else [*keys, *SECTIONS, "recipe"]


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
            document.refuse(path, Refused("no such key", did_you_mean(key, _METADATA)))
        try:
            given[key] = strings(_PREFIXES, each) if key == "match_prefix" else text(each)
        except Refused as refused:
            document.refuse(path, refused)
    return RecipeMeta(**given)


# ---- a layer inside a larger document ------------------------------------------------------------------------


def read_tables(content: str, file: str | None = None) -> dict[str, Any]:
    """A TOML text as plain tables; PolicyError with the line where it is not TOML."""
    return _Document(content, file).tables()


def read_text(file: str) -> str:
    """A file of policy: UTF-8, of a size that people can review."""
    return _contents(file)


@dataclass(frozen=True, slots=True)
class Within(_Document):
    """One table of a larger document; `at` is where it stands, so that a refusal names the whole path."""

    at: Path = ()

    def refuse(self, path: Path, refused: Refused) -> NoReturn:
        _Document.refuse(self, (*self.at, *path), refused)


def read_layer(place: Within, tables: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a table that has the schema of a recipe, without its [recipe]."""
    given: dict[str, Any] = {}
    for name, value in tables.items():
        if name in SECTIONS:
            for key, each in place.table((name,), value).items():
                _read_option(place, (name, key), each, given)
        else:
            _read_option(place, (name,), value, given)
    return given
