"""The one place where a command line (of `run`, `up`, `explain`) becomes a Policy: our defaults, the recipes, the last
word."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from pysandbox.errors import PolicyError
from pysandbox.policy.compose import resolve, shielded
from pysandbox.policy.match import covers
from pysandbox.policy.search import Search
from pysandbox.policy.user_home import home
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple, replace

if TYPE_CHECKING:
    from pysandbox.policy.compose import Dependencies, Layer, Resolved
    from pysandbox.policy.model import Policy

# What a command line is for: working on the files at hand, as oneself. Recipes and flags override it.
DEFAULTS: dict[str, Any] = {"workdir": "write", "run_as": "self"}


OWN = ("/", "/tmp")  # of which every cage has its own: the host's is never granted, and that is said


class ResolvedRequest(NamedTuple):
    """`looked`: what had a say in the policy; when any of it changes, the policy may be another. `labels` are the
    cage's, for the audit. `layers`: where a late error looks for the line that it is about. `because`: what the command
    has added itself, in a sentence."""

    policy: Policy
    looked: Dependencies
    labels: Mapping[str, object]
    layers: tuple[Layer, ...] = ()
    because: str = ""


def working_directory() -> str:
    """Raises PolicyError when it is gone: a policy is read, and a command runs, somewhere."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise PolicyError("the working directory was deleted", key="cwd", suggestion="change to another one") from None


def search_here() -> Search:
    """Where recipes are found from the working directory."""
    return Search.here(working_directory(), os.environ)


def policy_of(
    recipes: Sequence[str],
    *,
    command: Sequence[str],
    extra: Mapping[str, Any],
    pty: bool = False,
) -> ResolvedRequest:
    """The defaults, then what the program calls for, each recipe, `extra`. PolicyError for what cannot be, before
    anything has started."""
    cwd = working_directory()
    resolved = resolve(recipes, command=command, cwd=cwd, extra=extra, defaults=defaults(pty=pty))
    return of_resolved(resolved, cwd, recipes)


def defaults(*, pty: bool) -> dict[str, Any]:
    return {**DEFAULTS, "env_passthrough": ("TERM",)} if pty else DEFAULTS  # a program must know its terminal


def _check_project(resolved: Resolved, cwd: str) -> None:
    """The directory is granted by our default, made for a project. Where it holds the home directory, whoever
    means all of it, keys and tokens included, has to say so."""
    if resolved.policy.workdir == "none" or not resolved.policy.caged:
        return
    if any("workdir" in layer.given for layer in resolved.layers):
        return
    if os.path.realpath(cwd) in OWN:
        return
    homes = {os.path.realpath(each) for each in (home(), os.environ.get("HOME") or home())}
    held = [each for each in homes if each not in OWN and covers(os.path.realpath(cwd), each)]
    if held:
        raise PolicyError(
            f"the current directory, {cwd!r}, {'is' if os.path.realpath(cwd) in held else 'holds'} your home directory,"
            " with all that is secret in it",
            key="filesystem.workdir",
            suggestion="change to a project's directory; or grant it nothing of this one with --workdir none, or all "
            "of it with --workdir write",
        )


def _kept_apart(policy: Policy, resolved: Resolved, cwd: str) -> Policy:
    """The working directory is written by our default, and no more: in a copy-on-write directory it is kept apart
    as all there is (`--cow .`)."""
    if not policy.cow or policy.workdir != "write" or any("workdir" in layer.given for layer in resolved.layers):
        return policy
    from pysandbox.policy.expand import expand
    from pysandbox.policy.paths_wanted import cow_trees

    here, named = os.path.realpath(cwd), expand(policy, env=os.environ, cwd=cwd, home=home())
    apart = any(covers(os.path.realpath(tree), here) for tree in cow_trees(named, cwd))
    changed: Policy = replace(policy, workdir="cow") if apart else policy
    return changed


def of_resolved(resolved: Resolved, cwd: str, recipes: Sequence[str]) -> ResolvedRequest:
    _check_project(resolved, cwd)
    labels = {"recipes": list(recipes)} if recipes else {}
    policy = _kept_apart(shielded(resolved, cwd), resolved, cwd)
    return ResolvedRequest(policy, resolved.looked, labels, resolved.layers, resolved.because)
