"""The Policy: what the user wants, complete and frozen.

Its options are `fields.PolicyFields`; here are the doors to texts and recipes, each of them the work of a file that it
names. A Policy says nothing about a kernel: `compile` turns it into a Plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from pysandbox.policy.fields import (
    GRANT_LISTS,
    GRANTING,
    MERGE_WORDS,
    PolicyFields,
    by_toml_key,
    coerced,
    every_grant,
    options,
    suggest_field,
)  # fmt: skip
from pysandbox.policy.host import HostRule
from pysandbox.policy.option import Grant, Option, option
from pysandbox.shapes import TYPE_CHECKING, Self, dataclass

if TYPE_CHECKING:
    from typing import Unpack

    from pysandbox.policy.accepted import Directory
    from pysandbox.policy.keywords import PolicyOptions

__all__ = [
    "GRANTING", "GRANT_LISTS", "MERGE_WORDS", "Grant", "HostRule", "Option", "Policy", "by_toml_key", "coerced",
    "every_grant", "option", "options", "suggest_field",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Policy(PolicyFields):
    """What a cage may see, write, run, use and reach. Everything not granted is refused."""

    if TYPE_CHECKING:
        # A dataclass would say that a field takes what it holds; a Policy takes what can be made into it.
        def __init__(self, **options: Unpack[PolicyOptions]) -> None: ...

    def narrow(self, **tighter: Unpack[PolicyOptions]) -> Self:
        """This policy with some fields tightened (`narrow.py`); PolicyError names the first one that is not."""
        from pysandbox.policy.narrow import narrow

        return narrow(self, tighter)

    @classmethod
    def parse(cls, text: str, file: str | None = None) -> Self:
        """The policy that one TOML text describes (`sources.py`); `file` is its name in errors."""
        from pysandbox.policy.sources import parse_policy

        return parse_policy(cls, text, file)

    @classmethod
    def load(cls, *recipes: str, command: Sequence[str] | None = None, cwd: Directory | None = None) -> Self:
        """Recipes merged left to right (`resolve.py`): names, or paths of TOML files. With `command`, also those that
        its program calls for. `cwd` is the project in which both are looked for, and that of the Cage then; the host's
        without it."""
        from pysandbox.policy.resolve import resolve

        return resolve(cls, recipes, command=command, cwd=cwd).policy

    def to_toml(self) -> str:
        """This policy as a recipe that reads back equal (`render.py`)."""
        from pysandbox.policy.render import to_toml

        return to_toml(self)

    def to_json(self) -> str:
        """Canonical JSON: equal policies, equal text (`serial.py`)."""
        from pysandbox.policy.serial import to_json

        return to_json(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`; refuses what `to_json` cannot have written."""
        from pysandbox.policy.serial import from_json

        return from_json(cls, text)

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON: equal policies, equal digest, on every machine and Python."""
        from pysandbox.policy.serial import digest

        return digest(self)
