"""A keyword that a call does not take: whose it is, or which word was probably meant.

Everything that may be said of a cage is said in one of three places: to its Policy, to the Cage, to a command. Who
guesses the place meets a TypeError, as of any Python function, with the line to write instead. Read only then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

TEXT = frozenset({"text", "encoding", "errors"})


def misplaced(call: str, unknown: Iterable[str]) -> TypeError:
    """`call` is "run", "spawn" or "Cage"."""
    word = next(iter(unknown))
    return TypeError(f"{call}() has no option {word!r}{_advice(call, word)}")


def _advice(call: str, word: str) -> str:
    from difflib import get_close_matches

    from pysandbox.policy.model import Policy
    from pysandbox.policy.other_words import suggestion_for
    from pysandbox.shapes import fields

    own = _taken_by(call)
    if word in {each.name for each in fields(Policy)}:
        return f": it is the policy's: {_in_a_policy(call, word)}"
    for other, written in (
        ("Cage", "Cage(policy, {}=...)"),
        ("run", "run([...], {}=...)"),
        ("spawn", "spawn([...], {}=...)"),
    ):
        if other != call and word in _taken_by(other):
            return f": it belongs to {written.format(word)}"
    if near := get_close_matches(word, own, 1):
        return f" (did you mean {near[0]!r}?)"
    meant = suggestion_for(word, lambda field: _in_a_policy(call, field))
    return f" ({meant})" if meant else f"; it takes {', '.join(sorted(own))}"


def _in_a_policy(call: str, word: str) -> str:
    return f"Cage(Policy({word}=...))" if call == "Cage" else f"{call}([...], Policy({word}=...))"


def _taken_by(call: str) -> Collection[str]:
    from pysandbox.keywords import CageOptions, RunOptions, SpawnOptions

    if call == "Cage":
        return set(CageOptions.__annotations__)
    return {*(RunOptions if call == "run" else SpawnOptions).__annotations__, *TEXT}
