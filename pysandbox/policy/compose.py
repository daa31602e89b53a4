"""`resolve` for everybody who has a Policy: recipes, by their names or as layers, become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pysandbox.policy import resolve as anyone
from pysandbox.policy.layers import Dependencies, Layer
from pysandbox.policy.model import Policy
from pysandbox.policy.resolve import located, loosened_by, shielded, without_unheld
from pysandbox.shapes import TYPE_CHECKING, Any

if TYPE_CHECKING:
    Resolved = anyone.Resolved[Policy]
else:
    Resolved = anyone.Resolved

__all__ = [
    "Dependencies", "Layer", "Resolved", "compose", "located", "loosened_by", "resolve", "resolve_for_review",
    "shielded", "without_unheld",
]  # fmt: skip


def resolve(
    names: Sequence[str], *, command: Sequence[str] | None = None, cwd: str | None = None,
    extra: Policy | Mapping[str, Any] | None = None, defaults: Mapping[str, Any] | None = None,
) -> Resolved:  # fmt: skip
    """The Policy that these recipes make for a command in a working directory (`resolve.resolve`). Raises
    PolicyError."""
    return anyone.resolve(Policy, names, command=command, cwd=cwd, extra=extra, defaults=defaults)


def resolve_for_review(
    names: Sequence[str], *, command: Sequence[str], cwd: str, extra: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[Resolved, Policy]:
    """For `review.py` alone, which judges (`resolve.resolve_for_review`)."""
    return anyone.resolve_for_review(Policy, names, command=command, cwd=cwd, extra=extra, defaults=defaults)


def compose(
    layers: Sequence[Layer], *, base: Layer | None = None, baseline: Layer | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Policy:  # fmt: skip
    """The layers merged left to right, as a Policy. Raises PolicyError."""
    return anyone.compose(Policy, layers, base=base, baseline=baseline, defaults=defaults)
