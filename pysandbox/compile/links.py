"""Grants and denials that lead through a symlink which a cage may have put there, or may put there for the next one.

`./out` may be a directory today and, after a cage that may write the project, a link to any directory of the host: the
next policy that grants `./out` would grant that. Which links a cage has made nobody can tell from looking at them, so
the place decides. A link counts as replaceable where the caller could replace it, and it lies

    in a writable grant of this very policy;
    in a writable grant of an earlier cage of this program (`PathFacts.written`);
    below the working directory, which is what cages are usually given, unless that holds the home directory itself.

A link elsewhere (/bin, /etc/localtime, ~/project -> /data/project) is the host's and is followed. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pysandbox.errors import SandboxCompileError
from pysandbox.policy.match import covers
from pysandbox.policy.model import Policy
from pysandbox.policy.paths_wanted import writable_trees
from pysandbox.probe.facts import PathFact, PathFacts


def written_trees(policy: Policy, paths: PathFacts) -> tuple[str, ...]:
    """The directories, by their real paths, that a cage of this policy may write."""
    asked = (paths[path] for path in writable_trees(policy, paths.cwd))
    return tuple(fact.real for fact in asked if fact.kind == "dir")


def replaceable_places(policy: Policy, paths: PathFacts) -> Mapping[str, bool]:
    """Below each of these a link is not followed."""
    places = [*written_trees(policy, paths), *paths.written]
    cwd, home = paths[paths.cwd].real, paths[paths.home].real
    if not covers(cwd, home):
        places.append(cwd)
    return dict.fromkeys(places, True)


def replaceable(fact: PathFact, places: Iterable[str]) -> str | None:
    """The first link on the way that a cage may replace."""
    for link in fact.loose:
        if any(link != place and covers(place, link) for place in places):
            return link
    return None


def leads_through(fact: PathFact, link: str) -> str:
    target = dict(fact.links)[link]
    return f"{fact.path!r} leads through {link!r}, a link to {target!r} which a cage may put there or replace"


def refused(fact: PathFact, link: str, key: str) -> SandboxCompileError:
    suggestion = f"if that is what you mean, write where it leads to: {fact.real!r}"
    return SandboxCompileError(leads_through(fact, link), key=key, suggestion=suggestion)
