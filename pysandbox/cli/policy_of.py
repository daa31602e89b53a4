"""The one place where a command line (of `run`, `up`, `explain`) becomes a Policy: our defaults, the recipes, the last
word."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pysandbox.errors import PolicyError
from pysandbox.policy.compose import resolve, shielded

if TYPE_CHECKING:
    from pysandbox.policy.compose import Layer, Looked, Resolved
    from pysandbox.policy.model import Policy

# What a command line is for: working on the files at hand, as oneself. Recipes and flags override it.
DEFAULTS: dict[str, Any] = {"workdir": "write", "run_as": "self"}


class Asked(NamedTuple):
    """`looked`: what had a say in the policy; when any of it changes, the policy may be another. `labels` are the
    cage's, for the audit. `layers`: where a late error looks for the line that it is about."""

    policy: Policy
    looked: Looked
    labels: Mapping[str, object]
    layers: tuple[Layer, ...] = ()


def working_directory() -> str:
    """Raises PolicyError when it is gone: a policy is read, and a command runs, somewhere."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise PolicyError("the working directory was deleted", key="cwd", suggestion="change to another one") from None


def policy_of(
    recipes: Sequence[str],
    *,
    command: Sequence[str],
    extra: Mapping[str, Any],
    pty: bool = False,
) -> Asked:
    """The defaults, then what the program calls for, each recipe, `extra`. PolicyError for what cannot be, before
    anything has started."""
    cwd = working_directory()
    resolved = resolve(recipes, command=command, cwd=cwd, extra=extra, defaults=defaults(pty=pty))
    return of_resolved(resolved, cwd, recipes)


def defaults(*, pty: bool) -> dict[str, Any]:
    return {**DEFAULTS, "env_passthrough": ("TERM",)} if pty else DEFAULTS  # a program must know its terminal


def of_resolved(resolved: Resolved, cwd: str, recipes: Sequence[str]) -> Asked:
    labels = {"recipes": list(recipes)} if recipes else {}
    return Asked(shielded(resolved, cwd), resolved.looked, labels, resolved.layers)
