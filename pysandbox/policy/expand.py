"""Expansion: the paths of a policy as its author wrote them become absolute paths, from a given environment.

Known are `$NAME`, `${NAME}`, `$$` for a dollar sign, and a leading `~`; anything else that a shell would know is
refused. An unset or empty variable is refused too: `$CACHE/..` must not come to mean `/`. Relative paths lie below
the working directory and may not climb out of it. Pure: environment, directory and home are arguments.

The result holds literal paths. It is not expanded again; `quoted` makes a policy of it that can be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from pysandbox.policy.fields import GRANT_LISTS, GRANTING, P, options
from pysandbox.policy.merge import union_grants
from pysandbox.policy.option import Grant
from pysandbox.policy.patterns import escape
from pysandbox.policy.refusal import CommandRefused, shown
from pysandbox.policy.secret import Secret
from pysandbox.shapes import Any, dataclass, replace

# Not compiled here: it costs more than everything else in this file, and most policies have no dollar sign.
_DOLLAR = r"\$(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)|\{(?P<braced>[^}]*)\}|(?P<dollar>\$))?"
_TOML_KEY = {field.name: described.toml_key for field, described in options()}


class Unset(CommandRefused):
    """A path names a variable that the environment does not hold, or holds empty."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a path is expanded with."""

    env: Mapping[str, str]
    cwd: str
    home: str
    taken: Callable[[str], str] = str  # what is put into a path from here: as it is, or as a pattern has it

    def absolute(self, path: str) -> str:
        """The literal, absolute, normal form of one path; Refused says what stands in the way."""
        if path.startswith("~"):
            return normal(self._home(path) + self._substituted(path[1:]))
        expanded = self._substituted(path)
        return normal(expanded) if expanded.startswith("/") else self._below_cwd(path, expanded)

    def _home(self, path: str) -> str:
        if path[1:2] not in ("", "/"):
            raise CommandRefused(f"{shown(path)}: only ~ and ~/ stand for a directory", "write the path out")
        if not self.home.startswith("/"):
            raise CommandRefused(f"{shown(path)}: there is no home directory", "set HOME, or write the path out")
        return self.taken(self.home)

    def _substituted(self, path: str) -> str:
        return path if "$" not in path else re.sub(_DOLLAR, lambda match: self._value(match, path), path)

    def _value(self, match: re.Match[str], path: str) -> str:
        if match["dollar"]:
            return "$"
        name = match["name"] or match["braced"]
        if not name:
            raise CommandRefused(f"{shown(path)}: a dollar sign without a name", "write $$ for a dollar sign")
        if not self.env.get(name):
            raise Unset(
                f"{shown(path)}: the variable {shown(name)} is unset or empty",
                "set it, or write the path out; $$ is a dollar sign",
            )
        return self.taken(self.env[name])

    def _below_cwd(self, path: str, expanded: str) -> str:
        depth = 0
        for part in expanded.split("/"):
            depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
            if depth < 0:
                raise CommandRefused(f"{shown(path)} leaves the working directory", "write an absolute path")
        return normal(f"{self.taken(self.cwd)}/{expanded}")


def normal(path: str) -> str:
    """An absolute path without empty, `.` and `..` components, by letters."""
    if "/." not in path and "//" not in path and not path.endswith("/"):
        return path
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def expand(policy: P, *, env: Mapping[str, str], cwd: str, home: str) -> P:
    """`policy` with every path literal and absolute. PolicyError names the option of the first that cannot be.

    `~` is `home`, which a variable moves no grant away from; where $HOME is another one, as under sudo or in the
    containers of some CI, what is taken away below `~` and is there is taken away in both."""
    given = env.get("HOME") or home
    other = normal(given if given.startswith("/") else f"{cwd}/{given}")
    if other not in ("/", normal(home)):
        policy = _with_denials_in(policy, other)
    return _with_paths(policy, Surroundings(env, cwd, home).absolute, Surroundings(env, cwd, home, escape).absolute)


def _with_denials_in(policy: P, other: str) -> P:
    changes: dict[str, Any] = {}
    for name in GRANT_LISTS:
        grants = getattr(policy, name)
        own = [each for each in grants if each.path == "~" or each.path.startswith("~/")]
        if own and name not in GRANTING:
            there = (Grant(quote(escape(other)) + each.path[1:], optional=True) for each in own)
            changes[name] = (*grants, *there)
    return replace(policy, **changes) if changes else policy


def quoted(policy: P) -> P:
    """An expanded policy as one whose expansion is that policy again: what `to_toml` may write for later use."""
    return _with_paths(policy, quote, quote)


def quote(path: str) -> str:
    return path.replace("$", "$$")


def _with_paths(policy: P, absolute: Callable[[str], str], absolute_pattern: Callable[[str], str]) -> P:
    changes: dict[str, Any] = {}
    name = ""
    try:
        for name in GRANT_LISTS:
            grants = getattr(policy, name)
            made = absolute if name in GRANTING else absolute_pattern
            changes[name] = union_grants(Grant(made(each.path), each.optional) for each in grants)
        name = "allow_execve"
        changes[name] = tuple(absolute(each) for each in policy.allow_execve)
        name = "secrets"
        if policy.secrets:
            changes[name] = tuple(_with_path(each, absolute) for each in policy.secrets)
    except CommandRefused as refused:
        raise refused.error(_TOML_KEY[name]) from None
    changes = {name: value for name, value in changes.items() if value != getattr(policy, name)}
    expanded: P = replace(policy, **changes) if changes else policy
    return expanded


def _with_path(secret: Secret, absolute: Callable[[str], str]) -> Secret:
    kind, _, path = secret.source.partition(":")
    return replace(secret, source=f"file:{absolute(path)}") if kind == "file" else secret


def expand_prefixes(prefixes: Iterable[str], *, env: Mapping[str, str], cwd: str, home: str) -> tuple[str, ...]:
    """The prefixes of a recipe's match_prefix; one whose variable is unset matches nothing and is left out."""
    around = Surroundings(env, cwd, home)
    expanded = []
    for prefix in prefixes:
        try:
            expanded.append(around.absolute(prefix))
        except Unset:
            continue
        except CommandRefused as refused:
            raise refused.error("recipe.match_prefix") from None
    return tuple(expanded)
