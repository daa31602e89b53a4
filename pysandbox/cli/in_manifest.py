"""What a line offers as flags of `pysandbox run`, for a command of `pysandbox up`, which has no such flags: the keys
that mean the same in the manifest.

    to allow it: --host a.example   becomes   to allow it: host = [{ domain = "a.example" }] (in [sandbox.NAME] of ...)
"""

from __future__ import annotations

import re

from pysandbox.policy.manifest import MANIFEST
from pysandbox.policy.model import options

WORD = r"'[^']*(?:'\"'\"'[^']*)*'|[^\s;,']+"


def in_manifest(line: str, sandbox: str) -> str:
    """`line`, with each flag that a policy has as `key = value`, and where that is to be written."""
    flags = [(said.flag, field.type.startswith("bool")) for field, said in options() if said.flag]
    valued, plain = ("|".join(flag for flag, is_plain in flags if is_plain == each) for each in (False, True))
    told = re.sub(rf"(?<![\w-])(?:(?:{valued}|-r) (?:{WORD})|(?:{plain})(?![\w-]))", _key, line)
    return line if told == line else f"{told} (in [sandbox.{sandbox}] of {MANIFEST})"


def _key(found: re.Match[str]) -> str:
    """The flag as it was, where no key says it."""
    import shlex

    from pysandbox.cli.flags import Parser, UsageError, add_policy_flags, policy_values
    from pysandbox.errors import PolicyError
    from pysandbox.policy.also import as_toml
    from pysandbox.policy.render import literal

    words = shlex.split(found[0])
    if words[0] == "-r":
        return f"one more of recipes: {literal(words[1])}"
    try:
        parser = Parser("pysandbox run", "", "")
        add_policy_flags(parser, {})
        _, _, lines = as_toml(policy_values(parser.read(words))).partition("\n")
    except (UsageError, PolicyError):
        return found[0]
    return ", ".join(lines.splitlines()) or found[0]
