"""Tightening a policy: `Policy.narrow` may change a field only towards less, as the field's declaration says."""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.policy.fields import P, options
from pysandbox.policy.option import Tighter
from pysandbox.policy.refusal import CommandRefused, shown
from pysandbox.policy.tighter import same
from pysandbox.shapes import Any, replace

TIGHTER: Mapping[str, Tighter] = {field.name: described.tighter for field, described in options()}


def narrow(policy: P, tighter: Mapping[str, Any]) -> P:
    """`policy` with these fields; PolicyError names the first of them that would grant more than before."""
    narrowed: P = replace(policy, **tighter)
    for field, described in options():
        old, new = getattr(policy, field.name), getattr(narrowed, field.name)
        if old != new and not TIGHTER[field.name](old, new, policy):
            message = f"may only be tightened; {_looser(new, old)}"
            if TIGHTER[field.name] is same:
                message = f"cannot be changed; {shown(new)} allows what {shown(old)} does not"
            raise CommandRefused(message, "make a new Policy to grant more").error(described.toml_key)
    return narrowed


def _looser(new: Any, old: Any) -> str:
    """What differs, where two lists have something in common."""
    if isinstance(new, tuple) and isinstance(old, tuple):
        more, less = tuple(each for each in new if each not in old), tuple(each for each in old if each not in new)
        if (more or less) and len(more) < len(new):
            said = [f"{word} {shown(each)}" for word, each in (("with", more), ("without", less)) if each]
            return f"{' and '.join(said)} it is looser than before"
    return f"{shown(new)} is looser than {shown(old)}"
