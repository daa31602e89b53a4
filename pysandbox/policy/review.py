"""What a stranger's manifest comes to, and whether its user has looked at it.

A manifest chooses the command, the recipes (files that it brings along, and which of the user's own), and what is
granted besides. All of that is looked at together, and what was looked at is remembered by its digest: of the manifest,
and of every file of the project that had a say in one of its sandboxes. As long as any of them is not exactly what was
looked at, nothing of the manifest counts and nothing is run. A manifest is its place and its bytes: the same bytes in
another directory are another manifest, because `.` is another directory there.

Each file is read once; what is judged, shown and used is the same bytes.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping

from pysandbox.errors import PolicyError
from pysandbox.policy.compose import Resolved, loosened_by, resolve_for_review
from pysandbox.policy.manifest import Manifest, Sandbox
from pysandbox.policy.model import Policy
from pysandbox.policy.recipe import with_base
from pysandbox.policy.search import place_of
from pysandbox.shapes import Any, dataclass


@dataclass(frozen=True, slots=True)
class Reviewed:
    """One sandbox: the policy it asks for, and (`without`) that of its command if nothing were asked for."""

    manifest: Manifest
    sandbox: Sandbox
    resolved: Resolved
    without: Policy

    @property
    def files(self) -> Mapping[str, str]:
        """Place to digest of all that the project brings along: the manifest, and the recipes that had a say."""
        brought = {layer.place: layer.digest for layer in self.resolved.brought}
        return {place_of(self.manifest.file or ""): self.manifest.digest, **brought}

    @property
    def loosens(self) -> tuple[str, ...]:
        """The TOML keys in which it grants more than a bare run of its command has."""
        return loosened_by(with_base(self.without), with_base(self.resolved.policy))

    def require_trust(self) -> None:
        """Raises PolicyError unless each of the files was looked at as it is now."""
        from pysandbox.policy.trust import pins

        known = pins()
        files = self.files
        unknown = [place for place, digest in files.items() if known.get(place) != digest]
        if not unknown:
            return
        changed = [place for place in unknown if place in known]
        what = f"{unknown[0]} has changed since you trusted it" if changed == unknown[:1] else self._untrusted(unknown)
        raise PolicyError(f"{what}; {self._would()}", suggestion=self._what_to_do())

    def _untrusted(self, unknown: list[str]) -> str:
        others = f" with {', '.join(unknown[1:])}" if unknown[1:] else ""
        return f"{unknown[0]}{others} comes with the project, and you have not trusted it"

    def _would(self) -> str:
        grants = f" and grant more than a bare run has in {', '.join(self.loosens)}" if self.loosens else ""
        return f"it would run {shlex.join(self.sandbox.argv)!r} with {', '.join(self.sandbox.recipes)}{grants}"

    def _what_to_do(self) -> str:
        path = shlex.quote(place_of(self.manifest.file or ""))
        return f"look at it and trust it: pysandbox recipe trust {path}; or, this once, add --trust"


def review(manifest: Manifest, sandbox: Sandbox, *, extra: Mapping[str, Any], defaults: Mapping[str, Any]) -> Reviewed:
    """`extra`: the overrides of the sandbox and the user's own last word. Raises PolicyError, which names the sandbox
    where it is about this manifest."""
    root = os.path.dirname(os.path.abspath(manifest.file or ""))
    try:
        resolved, without = resolve_for_review(
            sandbox.recipes, command=sandbox.argv, cwd=root, extra=extra, defaults=defaults
        )
    except PolicyError as error:
        raise named(error, manifest, sandbox) from None
    return Reviewed(manifest, sandbox, resolved, without)


def named(error: PolicyError, manifest: Manifest, sandbox: Sandbox) -> PolicyError:
    """The error with the sandbox that it is about."""
    file = error.file or manifest.file
    key = f"sandbox.{sandbox.name}" + (f".{error.key}" if error.key and file == manifest.file else "")
    return PolicyError(error.message, file=file, line=error.line, key=key, suggestion=error.suggestion)


def review_all(manifest: Manifest, defaults: Mapping[str, Any]) -> Iterator[Reviewed | PolicyError]:
    """Each sandbox with each of its commands; the error of one that comes to nothing, whose files are then not looked
    at."""
    for sandbox in manifest.all_commands:
        try:
            yield review(manifest, sandbox, extra=sandbox.overrides, defaults=defaults)
        except PolicyError as error:
            yield error


def digests(reviewed: list[Reviewed]) -> dict[str, str]:
    """What is remembered when all of these were looked at. PolicyError where a file was not the same for all."""
    found: dict[str, str] = {}
    for each in reviewed:
        for place, digest in each.files.items():
            if found.setdefault(place, digest) != digest:
                raise PolicyError("changed while it was being read", file=place, suggestion="look at it again")
    return found
