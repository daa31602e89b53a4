"""One [[secret]] block: a value that commands may use, and never have. The cage holds a placeholder of the same shape;
the inspector puts the value in its place, towards the named hosts and where the block says.

A policy says where a value comes from, and holds none: so neither does anything that is made, kept or told of it. What
a column may hold is here; reading the value is `gate.secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pysandbox.policy.option import column
from pysandbox.policy.refusal import CommandRefused, did_you_mean, shown
from pysandbox.shapes import MISSING, Any, Field, dataclass, fields

GIVEN = "given"
RULES = ("secret.hosts", "secret.in", "secret.revoked")  # behind a request that is refused
BODY, BASIC, HEADER, QUERY = "body", "basic", "header:", "query:"
EXAMPLE = 'write such as "header:authorization", "query:key", "basic" or "body"'
# What frames a message, or is for one hop alone, is written anew and takes nothing.
NO_HEADERS = frozenset((
    "connection", "content-length", "host", "http2-settings", "keep-alive", "proxy-authenticate",
    "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
))  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Secret:
    """A value, by its name. In TOML `source` is spelled from, and `places` in."""

    name: str = column(
        "secret", "name", "The variable by which commands find it: what stands there is a placeholder.", merge="last",
        item="secret name",
    )  # fmt: skip
    source: str = column(
        "secret", "from", "Where the value is: env:NAME, a variable of the host program; file:/PATH, a file that the "
        "cage cannot see; given, by the program: Cage(secrets={...}).",
        default=GIVEN, merge="last", item="secret source",
    )  # fmt: skip
    hosts: tuple[str, ...] = column(
        "secret", "hosts", "The names that it may be sent to, each of which a [[host]] block allows.", merge="union",
        item="domain",
    )  # fmt: skip
    places: tuple[str, ...] = column(
        "secret", "in", "Where in a request: header:NAME; query:KEY, a whole value; basic, the user or password of "
        "Authorization: Basic; body, of JSON, a form or plain text.",
        merge="union", item="secret place",
    )  # fmt: skip

    @property
    def given(self) -> dict[str, Any]:
        """The columns that differ from their default, as they are spelled in TOML."""
        said = ((each.metadata["option"].key, getattr(self, each.name), each.default) for each in COLUMNS)
        return {key: value for key, value, default in said if value != default}

    def __str__(self) -> str:
        return f"{self.name} (from {self.source}; to {', '.join(self.hosts)}; in {', '.join(self.places)})"


COLUMNS = fields(Secret)


def secret_of(value: object, coerced: Callable[[Field[Any], object], Any]) -> Secret:
    """Reads a table as TOML has it, or one with the names of the fields. Raises CommandRefused."""
    given = value.given if type(value) is Secret else value
    if not isinstance(given, Mapping):
        raise CommandRefused(f"must be a table, not {shown(value)}", 'write [[secret]] and below it name = "TOKEN"')
    keys = {spelling: each for each in COLUMNS for spelling in (each.metadata["option"].key, each.name)}
    for key in given:
        if key not in keys:
            raise CommandRefused(f"{shown(key)} is not a key of a secret", did_you_mean(str(key), list(keys)), (key,))
    columns = {keys[key].name: coerced(keys[key], each) for key, each in given.items()}
    for each in COLUMNS:
        if not columns.get(each.name, each.default is not MISSING):
            key = each.metadata["option"].key
            raise CommandRefused(f"a secret needs the key {key}", each.metadata["option"].doc)
    return Secret(**columns)


def secret_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", name):
        raise CommandRefused(f"{shown(name)} is not the name of a variable", 'write such as "GITHUB_TOKEN"')
    return name


def secret_source(source: str) -> str:
    kind, _, rest = source.partition(":")
    if kind == "command":
        raise CommandRefused(
            "a value is not asked of a command: whoever writes a policy would choose what this user runs, outside of "
            "every cage", 'run it yourself and hand the value over: from = "env:NAME"',
        )  # fmt: skip
    if kind == "env" and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", rest):
        return source
    if kind == "file" and rest.startswith(("/", "~/")):
        return source
    if source == GIVEN:
        return source
    raise CommandRefused(f"{shown(source)} says not where a value is", 'write "env:NAME", "file:/PATH" or "given"')


def secret_place(place: str) -> str:
    if place in (BODY, BASIC):
        return place
    if place.startswith(HEADER):
        name = place.removeprefix(HEADER).lower()
        if name in NO_HEADERS:
            raise CommandRefused(f"{shown(name)} is written anew for each server, and takes no value", EXAMPLE)
        if re.fullmatch(r"[a-z0-9!#$%&'*+.^_`|~-]{1,128}", name):
            return HEADER + name
    if place.startswith(QUERY) and re.fullmatch(r"[!-~]{1,128}", place.removeprefix(QUERY)):
        return place
    raise CommandRefused(f"{shown(place)} is not a place of a request", EXAMPLE)
