"""False credentials: variables of a cage whose values nobody has a use for but a thief. What is sent of one is refused,
and told by its name, wherever it goes.

A value has the form of its service, so that whoever collects credentials takes it along. Each cage has values of its
own, so that nobody who has seen two cages knows them by being the same. Looked for are its pieces of sixteen letters,
in their order and backwards, in small letters and in capitals. Each has a block of eight in it that the value has at a
multiple of eight: those are the literals, so the scan takes no longer for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from pysandbox.dlp.detector import Detector
from pysandbox.shapes import NamedTuple

PIECE, BLOCK = 16, 8
OURS = "PYSANDBOX_CANARY_"
AWS, BUNDLE = "AWS_", "AWS_CA_BUNDLE"  # which every cage has that is looked into
CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
LETTERS = CAPITALS + "abcdefghijklmnopqrstuvwxyz"


class Canary(NamedTuple):
    detector: str
    prefix: str
    alphabet: str
    letters: int  # after the prefix


OF_VARIABLES: Mapping[str, Canary] = {
    "PYSANDBOX_CANARY_GITHUB_PAT": Canary("canary_github_pat", "ghp_", LETTERS, 36),
    "PYSANDBOX_CANARY_NPM_TOKEN": Canary("canary_npm_token", "npm_", LETTERS, 36),
    "PYSANDBOX_CANARY_AWS_ACCESS_KEY": Canary("canary_aws_access_key", "AKIA", CAPITALS, 16),
    "AWS_ACCESS_KEY_ID": Canary("canary_aws_access_key_id", "AKIA", CAPITALS, 16),
    "AWS_SECRET_ACCESS_KEY": Canary("canary_aws_secret_access_key", "", LETTERS, 40),
}
DETECTORS = frozenset(each.detector for each in OF_VARIABLES.values())


def new_values(names: Iterable[str]) -> dict[str, str]:
    """Values for these variables of one cage."""
    return {name: _new_value(OF_VARIABLES[name]) for name in names}


def _new_value(canary: Canary) -> str:
    number, said = int.from_bytes(os.urandom(64), "big"), []
    for _ in range(canary.letters):
        number, letter = divmod(number, len(canary.alphabet))
        said.append(canary.alphabet[letter])
    return canary.prefix + "".join(said)


def given(env: Mapping[str, str]) -> dict[str, str]:
    """The variables by pysandbox's own names among these: in a cage, the false credentials that it was given."""
    return {
        name: env[name] for name, canary in OF_VARIABLES.items()
        if name.startswith(OURS) and re.fullmatch(f"{canary.prefix}[{canary.alphabet}]{{{canary.letters}}}",
                                                  env.get(name, ""))
    }  # fmt: skip


def besides(env: Iterable[str], said: Mapping[str, str]) -> dict[str, str]:
    """The false credentials that a command may have beside its variables: no key of AWS where there is anything else of
    AWS."""
    has_aws = any(each.startswith(AWS) and each != BUNDLE for each in env)
    return {name: value for name, value in said.items() if not (has_aws and name.startswith(AWS))}


def detectors(said: Mapping[str, str]) -> tuple[Detector, ...]:
    """Rows for these variables and values. They go nowhere, whatever a policy lists."""
    return tuple(_detector(OF_VARIABLES[name].detector, value.encode()) for name, value in said.items())


def _detector(name: str, value: bytes) -> Detector:
    spellings = tuple(dict.fromkeys(_spellings(value)))
    literals = {each for spelled, at in spellings for each in _blocks(spelled, at)}
    pieces = {spelled[at : at + PIECE] for spelled, _ in spellings for at in range(len(spelled) - PIECE + 1)}
    whole = [spelled for spelled, _ in spellings]
    expression = b"|".join(map(re.escape, (*whole, *sorted(pieces))))  # the first that matches counts
    size = len(value)
    return Detector(name, tuple(sorted(literals)), expression, (), (), never=True, lead=size - BLOCK, longest=size)


def _spellings(value: bytes) -> Iterator[tuple[bytes, int]]:
    """Each with where its first block begins: backwards, they end where they began."""
    for spelled in (value, value.lower(), value.upper()):
        yield spelled, 0
    yield value[::-1], len(value) % BLOCK


def _blocks(spelled: bytes, first: int) -> Iterator[bytes]:
    for at in range(first, len(spelled) - BLOCK + 1, BLOCK):
        yield spelled[at : at + BLOCK]
