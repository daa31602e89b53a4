"""What a cage has in place of a value: a text of the same shape, so that programs which look at a token before they
send it take it for one, and of the same length where the value is long enough, so that a message keeps its length.

Nothing of the value is in it but its length, where its hyphens and dots are, whether it has letters, and a beginning
that everybody knows (`ghp_`). Pure, but for chance.
"""

from __future__ import annotations

import os
import string

LEAST_BITS = 64.0  # of chance in one: no text has it by accident
# What tells the kind of a token; longer ones first where one begins another.
BEGINNINGS = (
    "github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "gldt-", "sk-ant-api03-", "sk-ant-", "sk-proj-",
    "sk-or-v1-", "sk_live_", "sk_test_", "rk_live_", "pk_live_", "sk-", "xoxb-", "xoxp-", "xoxa-", "xapp-", "npm_",
    "pypi-", "AKIA", "ASIA", "AIza", "ya29.", "hf_", "gsk_", "r8_", "dop_v1_", "shpat_", "SG.", "eyJ",
)  # fmt: skip
KEPT = "-_."
DIGITS, LOWER = string.digits, string.ascii_lowercase
ALPHABETS = (DIGITS, DIGITS + "abcdef", DIGITS + "ABCDEF", DIGITS + LOWER, DIGITS + string.ascii_uppercase)
ANY = DIGITS + string.ascii_letters


def placeholder_for(value: str) -> str:
    """Another one each time."""
    beginning = next((each for each in BEGINNINGS if value.startswith(each)), "")
    rest = value[len(beginning) :]
    drawn = [letter for letter in rest if letter not in KEPT]
    alphabet = next((each for each in ALPHABETS if drawn and set(drawn) <= set(each)), ANY)
    shape = [letter if letter in KEPT else "" for letter in rest]
    wanted = int(LEAST_BITS / _bits(alphabet)) + 1
    shape += [""] * (wanted - len(drawn))
    return beginning + "".join(letter or _draw(alphabet) for letter in shape)


def _bits(alphabet: str) -> float:
    from math import log2

    return log2(len(alphabet))


def _draw(alphabet: str) -> str:
    while (number := os.urandom(1)[0]) >= 256 - 256 % len(alphabet):
        pass
    return alphabet[number % len(alphabet)]
