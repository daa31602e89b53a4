"""Showing what a project brings along, in words and as the lines it would change, and asking whether to trust it.

For `recipe trust`, and for `up` at a terminal. What is pinned is the digest of the bytes that were shown.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator

from pysandbox.cli import console
from pysandbox.cli.policy_of import DEFAULTS
from pysandbox.errors import PolicyError
from pysandbox.policy.review import Reviewed, digests, review_all
from pysandbox.policy.search import SYSTEM
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.policy.compose import Layer
    from pysandbox.policy.manifest import Manifest


class ManifestReport:
    """A manifest, all of it, read for being shown: `lines` for people, `digests` to be pinned."""

    def __init__(self, manifest: Manifest) -> None:
        found = list(review_all(manifest, DEFAULTS))
        self.reviewed = [each for each in found if isinstance(each, Reviewed)]
        self.errors = [each for each in found if isinstance(each, PolicyError)]
        self.digests = digests(self.reviewed)
        if not self.reviewed:
            raise self.errors[0]

    @property
    def loosens(self) -> list[str]:
        return list(dict.fromkeys(key for each in self.reviewed for key in each.loosens))

    def lines(self) -> Iterator[str]:
        for each in self.reviewed:
            yield from described(each)
            yield ""
        for error in self.errors:
            yield f"cannot be looked at, and is not trusted: {error}"


def described(reviewed: Reviewed) -> Iterator[str]:
    """One sandbox: what it runs, where its recipes come from, what it may do, and the lines that it changes."""
    from pysandbox.cli.recipe_text import difference
    from pysandbox.policy.explain import topics
    from pysandbox.policy.recipe import with_base

    sandbox, policy = reviewed.sandbox, reviewed.resolved.policy
    yield f"sandbox {sandbox.name} of {reviewed.manifest.file}"
    yield f"  runs: {shlex.join(sandbox.argv)}"
    yield from (f"  {line}" for line in _origins(reviewed.resolved.layers))
    for heading, sentences in topics(policy):
        yield from (f"  {heading}: {sentence}" for sentence in sentences)
    yield from (f"  sets {name}={value}" for name, value in policy.env)
    changes = difference(with_base(reviewed.without), with_base(policy), f"sandbox {sandbox.name}", reviewed.loosens)
    yield from (f"  {line}" for line in changes)


def _origins(layers: Iterable[Layer]) -> Iterator[str]:
    for layer in layers:
        if layer.path:
            yield f"{layer.why} recipe: {layer.name} ({layer.path}, {_origin(layer)})"


def _origin(layer: Layer) -> str:
    from pysandbox.policy.recipe import PACKAGED

    if layer.place:
        return "belongs to another user" if layer.foreign else "comes with the project"
    if layer.path.startswith(f"{PACKAGED}/"):
        return "ships with pysandbox"
    return "the system's" if layer.path.startswith(f"{SYSTEM}/") else "your own"


def agreed(question: str) -> bool:
    """Asks on standard error; no where there is nobody to ask."""
    if sys.stdin is None or not sys.stdin.isatty() or sys.stderr is None:
        return False
    console.ask(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def can_ask() -> bool:
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stderr))


def ask_for_trust(manifest: Manifest) -> bool:
    """At a terminal: show all of the manifest, ask, and remember a yes."""
    from pysandbox.policy.trust import pin

    shown = ManifestReport(manifest)
    console.show(shown.lines())
    if not agreed(f"Trust {os.path.abspath(manifest.file or '')} to run this, as long as nothing of it changes?"):
        return False
    pin(shown.digests)
    return True
