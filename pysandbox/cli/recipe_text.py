"""What `pysandbox recipe` prints for people: each function makes the lines of one action from plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from pysandbox.policy.explain import words
from pysandbox.policy.model import GRANT_LISTS, Grant, Policy, options
from pysandbox.policy.render import to_toml
from pysandbox.policy.way_out import effective_egress
from pysandbox.shapes import Any

LISTED = {field.name: described.listed for field, described in options()}  # its heading, "" is the last one
GROUPS = (("Recipes", ""), ("Services (contracts of hosts)", "service:"), ("Tools (with their credentials)", "tool:"))


def listing(document: Mapping[str, Any]) -> Iterator[str]:
    for title, prefix in GROUPS:
        rows = [row for row in document["recipes"] if _kind(row["name"]) == prefix]
        if rows:
            yield f"{title}:"
            yield from (line for row in rows for line in _row(row))
            yield ""
    yield "Search path (the first that has a name wins):"
    yield from (f"  {directory}" for directory in document["search_path"])
    baseline = document["baseline"]
    yield ""
    yield f"Baseline: {baseline['allowed']} allowed, {baseline['denied']} denied system calls ({baseline['source']})"
    yield "A recipe changes it with allow_extra and deny_extra in [syscalls]."


def _kind(name: str) -> str:
    kind, colon, _ = name.rpartition(":")
    return kind + colon


def _row(row: Mapping[str, Any]) -> Iterator[str]:
    strict = " (strict)" if row["strict"] else ""
    yield f"  {row['name']:<20}  {row['description']}{strict}"
    marks = [*(f"+{name}" for name in row["allow_syscalls"]), *(f"-{name}" for name in row["deny_syscalls"])]
    yield f"  {'':<20}  {' '.join([*marks, row['path']])}"


def shown(toml: str, layers: Iterable[Mapping[str, str]]) -> Iterator[str]:
    for layer in layers:
        yield f"# {layer['why']}: {layer['name']} ({layer['path']})"
    yield ""
    yield from toml.rstrip("\n").split("\n")


def baseline(document: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield "# A baseline: saved as default.toml in a directory of recipes, it takes the place of the shipped one."
    yield "[syscalls]"
    for key, names in document.items():
        yield f"{key} = ["
        yield from (f'    "{name}",' for name in names)
        yield "]"


def explanation(policy: Policy, document: Mapping[str, Any]) -> Iterator[str]:
    for row in document["recipes"]:
        yield f"{row['name']}: {row['description'] or 'no description'} ({row['path']})"
    if policy.strict:
        yield "Strict: a process is killed at its first refused system call, and nothing may degrade."
    for name in GRANT_LISTS:
        yield from _paths(LISTED[name], getattr(policy, name))
    yield f"Network: {effective_egress(policy)}"
    yield from _block("Hosts", (_host(rule.given) for rule in policy.hosts))
    yield from _block("Secrets", map(str, policy.secrets))
    yield from _block("Variables passed through", (*(f"{name} (set)" for name in document["env_set"]),
                                                   *(f"{name} (unset)" for name in document["env_unset"])))  # fmt: skip
    yield from _block("Variables set", (f"{name}={value}" for name, value in policy.env))
    yield from _block("Executables", policy.allow_execve)
    yield from _block("Limits", (f"{name}: {words(value)}" for name, value in _listed_as("Limits", policy)))
    yield from _block("System calls", (*(f"+{name}" for name in policy.allow_syscalls),
                                       *(f"-{name}" for name in policy.deny_syscalls)))  # fmt: skip
    yield from _block("Besides", (f"{name}: {words(value)}" for name, value in _listed_as("", policy)))
    yield from _block("Found by the place of a program below", document["match_prefix"])


def _paths(title: str, grants: tuple[Grant, ...]) -> Iterator[str]:
    yield from _block(title, (f"{each.path}{' (if it exists)' if each.optional else ''}" for each in grants))


def _block(title: str, lines: Iterable[str]) -> Iterator[str]:
    rows = list(lines)
    if rows:
        yield f"{title}:"
        yield from (f"  {row}" for row in rows)


def _host(given: Mapping[str, Any]) -> str:
    words = [f"{name} {_words(value)}" for name, value in given.items() if name != "domain"]
    return f"{given['domain']}{': ' + '; '.join(words) if words else ''}"


def _words(value: object) -> str:
    return " ".join(value) if isinstance(value, tuple) else str(value)


def _listed_as(heading: str, policy: Policy) -> Iterator[tuple[str, object]]:
    """The options under one heading that the policy gives; "" has those that have none of their own."""
    return ((name, value) for name, value in policy.explicit.items() if LISTED[name] == heading)


def suggestions(command: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not rows:
        yield f"No matching recipes for {command[0]!r}"
        return
    for row in rows:
        how = "used without being asked for" if row["automatic"] else f"-r {row['name']}"
        yield f"  {row['name']:<20}  {row['because']}; {how}"


def toml_diff(old: Policy, new: Policy, old_name: str, new_name: str) -> Iterator[str]:
    """What differs, as lines of TOML."""
    from difflib import unified_diff

    before, after = (to_toml(each).splitlines() for each in (old, new))
    return unified_diff(before, after, old_name, new_name, lineterm="", n=1)


def difference(without: Policy, policy: Policy, path: str, keys: Sequence[str]) -> Iterator[str]:
    """What the file changes."""
    yield from toml_diff(without, policy, "without it", path)
    yield f"grants more in: {', '.join(keys)}" if keys else "grants no more than there would be without it"
