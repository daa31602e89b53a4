"""The files of `[proxy] upstream_ca`: whoever writes one decides which servers are believed, so no cage may. Pure.

They are read anew for each Runtime, so what a cage of this policy, or an earlier one, writes there would hold for the
next: its own certificate, and with that any server that the network leads to.
"""

from __future__ import annotations

from pysandbox.compile.links import leads_through, replaceable, replaceable_places
from pysandbox.compile.shown import View, nearest
from pysandbox.errors import SandboxCompileError
from pysandbox.policy.match import covers
from pysandbox.policy.model import Policy
from pysandbox.probe.facts import PathFact, PathFacts

KEY = "proxy.upstream_ca"


def refuse_writable_authorities(policy: Policy, paths: PathFacts, view: View) -> None:
    """Raises SandboxCompileError for the first file that is none, or that a cage could change."""
    for path in policy.proxy_upstream_ca:
        fact = paths[path]
        if fact.kind != "file":
            what = "does not exist" if fact.kind == "missing" else "is no regular file"
            raise SandboxCompileError(
                f"{path!r} {what}", key=KEY, suggestion="name a file of certificates in PEM, by an absolute path"
            )
        link = replaceable(fact, replaceable_places(policy, paths))
        why = leads_through(fact, link) if link is not None else _written_by(fact, paths, view)
        if why:
            suggestion = f'keep it where no cage writes, or deny it: deny = ["{fact.real}"] in [filesystem]'
            raise SandboxCompileError(why, key=KEY, suggestion=suggestion)


def _written_by(fact: PathFact, paths: PathFacts, view: View) -> str:
    """How a cage could change the file; empty where none could."""
    tree = nearest(fact.real, view.trees)
    if tree is not None and tree.access == "write" and nearest(fact.real, view.holes) is None:
        return f"the cage may write {fact.path!r} ({tree.key}), and so decide which servers it is to believe"
    if any(covers(place, fact.real) for place in paths.written):
        return f"an earlier cage of this program may have written {fact.path!r}, which says which servers to believe"
    return ""
