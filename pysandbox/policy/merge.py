"""How two layers of policy become one: the merge laws, one function per merge word of an `Option`.

    union    lists: every item once, in the order of first occurrence; variables: the later value of a name wins
    or       true as soon as one layer says true, and never false again (strict)
    last     the later layer wins where it says anything
    overlay  the later value replaces the earlier one entirely (the metadata of a recipe)
    max      the larger number
    widest   lists of a [[host]] block of which an empty one allows anything: all of both, or anything
    loosest  caps of a [[host]] block: the larger, or none where either has none
    blocks   tables with a `domain`: one for each domain, two of one domain merged column by column ([[host]])
    scopes   lists by name: the union for each name ([network.dlp.extra_scopes])
    named    tables with a `name`: one for each name, of two the later as a whole ([[secret]])

Every rule is associative, and merging a layer with itself changes nothing. What a layer allows, no other takes away by
allowing something else; only what says how a cage is held (a single value, `allow_execve`, addresses beside
egress = "direct") is decided by who says it. A layer is a mapping that holds only the fields it gives. Pure: nothing is
read, nothing is validated; this file imports only the declarations' words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pysandbox.policy.option import Grant, Merge
from pysandbox.shapes import Any


def union_grants(grants: Iterable[Grant]) -> tuple[Grant, ...]:
    """Each path once. A path stays optional only while every layer that names it calls it optional."""
    merged: dict[str, Grant] = {}
    for grant in grants:
        known = merged.setdefault(grant.path, grant)
        if known.optional and not grant.optional:
            merged[grant.path] = grant
    return tuple(merged.values())


def union(earlier: tuple[Any, ...], later: tuple[Any, ...]) -> tuple[Any, ...]:
    """The union of two lists of grants, of (name, value) pairs or of strings."""
    both = (*earlier, *later)
    if not both:
        return both
    if isinstance(both[0], Grant):
        return union_grants(both)
    if isinstance(both[0], tuple):
        return tuple(dict(both).items())
    return tuple(dict.fromkeys(both))


def blocks(rules: Iterable[Any]) -> tuple[Any, ...]:
    """Each domain once, in the order of first occurrence."""
    merged: dict[str, Any] = {}
    for rule in rules:
        merged[rule.domain] = merged[rule.domain].merge(rule) if rule.domain in merged else rule
    return tuple(merged.values())


def scopes(pairs: Iterable[tuple[str, tuple[str, ...]]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Each name once, with the union of its lists."""
    merged: dict[str, tuple[str, ...]] = {}
    for name, items in pairs:
        merged[name] = union(merged.get(name, ()), items)
    return tuple(merged.items())


def named(tables: Iterable[Any]) -> tuple[Any, ...]:
    """Each name once, in the order of first occurrence; of two tables the later."""
    return tuple({each.name: each for each in tables}.values())


def either(earlier: bool, later: bool) -> bool:
    return earlier or later


def replaced(earlier: Any, later: Any) -> Any:
    return later


def widest(earlier: tuple[Any, ...], later: tuple[Any, ...]) -> tuple[Any, ...]:
    """Merges two lists where an empty one allows anything."""
    return union(earlier, later) if earlier and later else ()


def loosest(earlier: int | None, later: int | None) -> int | None:
    """Merges two caps where None is no cap."""
    return None if earlier is None or later is None else max(earlier, later)


RULES: Mapping[Merge, Callable[[Any, Any], Any]] = {
    "union": union,
    "or": either,
    "last": replaced,
    "overlay": replaced,
    "max": max,
    "widest": widest,
    "loosest": loosest,
    "blocks": lambda earlier, later: blocks((*earlier, *later)),
    "scopes": lambda earlier, later: scopes((*earlier, *later)),
    "named": lambda earlier, later: named((*earlier, *later)),
}


def merge_layers(words: Mapping[str, Merge], earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Both layers as one; `words` holds the merge word of every field. A field that neither gives stays out."""
    merged = dict(earlier)
    for name, value in later.items():
        merged[name] = RULES[words[name]](merged[name], value) if name in merged else value
    if "host_loopback_ports" in merged and any(map(_opens_all_ports, (earlier, later))):
        merged["host_loopback_ports"] = ()
    return merged


def _opens_all_ports(layer: Mapping[str, Any]) -> bool:
    """A list beside `allow_host_loopback` holds it to these, where one layer says both."""
    return bool(layer.get("allow_host_loopback")) and not layer.get("host_loopback_ports")
