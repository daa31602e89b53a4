"""A Policy as JSON and back, and its digest. One canonical text per policy: sorted keys, no spaces, ASCII.

ASCII with escapes also keeps file names that are not UTF-8 (Python's surrogate escapes), which TOML cannot hold.
"""

from __future__ import annotations

import json

from pysandbox.errors import PolicyError
from pysandbox.policy.fields import MERGE_WORDS, P, PolicyFields
from pysandbox.policy.refusal import shown
from pysandbox.sha256 import sha256
from pysandbox.shapes import Any, asdict


def to_json(policy: PolicyFields) -> str:
    """The options of a policy: what a kind of it knows besides (a plugin's its project) is not of the text."""
    said = asdict(policy)
    for name in said.keys() - MERGE_WORDS.keys():
        del said[name]
    return json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(policy: PolicyFields) -> str:
    return str(sha256(to_json(policy).encode("ascii")).hexdigest())


def from_json(kind: type[P], text: str) -> P:
    try:
        given = json.loads(text, object_pairs_hook=without_duplicates)
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"not JSON: {error}", suggestion="give the text that to_json wrote") from None
    if not isinstance(given, dict):
        raise PolicyError(f"not a policy: {shown(given)}", suggestion="give the text that to_json wrote")
    return kind(**given)


def without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `object_pairs_hook`: JSON says nothing of a key that occurs twice, and readers differ. Raises ValueError."""
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return table
