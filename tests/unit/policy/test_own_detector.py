"""A detector of a policy: what its pattern may be, and what is made of it. A pattern is a stranger's: it is bounded."""

from __future__ import annotations

import random
import re
import time
from typing import Any

import pytest

from pysandbox import Policy, PolicyError
from pysandbox.dlp.detector import own
from pysandbox.dlp.engine import scan
from pysandbox.dlp.nominate import Nominator
from pysandbox.dlp.work import Undecodable
from pysandbox.policy.expression import MOST_STEPS, WINDOW, bounded
from pysandbox.policy.own_detector import ScanDetector, scan_detector
from pysandbox.policy.refusal import CommandRefused

KEY = b"k" * 16
TAIL = b"a1b2c3d4e5f6a7b8c9d0"


def policy(pattern: str = "acme_[a-z0-9]{20,40}", **said: Any) -> Policy:
    return Policy(dlp_detectors=[{"name": "acme_token", "pattern": pattern, **said}])


def row(pattern: str, **said: Any) -> ScanDetector:
    return scan_detector(policy(pattern, **said).dlp_detectors[0])


def found(text: bytes, pattern: str, **said: Any) -> set[str]:
    made = own([row(pattern, **said)])
    return {each.detector for each in scan(text, KEY, nominator=Nominator(made))}


BOUNDED = {
    "acme_[a-z0-9]{20,40}": (b"acme_" + TAIL, (b"acme_",)),
    "acme_(live|test)_[A-Za-z0-9]{20,}": (b"acme_live_" + TAIL, (b"acme_",)),
    "(?:foo_|bar_|qux-)[a-z0-9]{20}": (b"qux-" + TAIL, (b"foo_", b"bar_", b"qux-")),
    "[a-z]{2,8}_acmekey_[0-9a-f]{8}": (b"prod_acmekey_0123abcd", (b"_acmekey_",)),
    "[Aa][Cc]me-[0-9]{9}": (b"aCme-123456789", (b"ACme-", b"Acme-", b"aCme-", b"acme-")),
    r"acme=[^;]+;id=\w+;end": (b"acme=1 2 3;id=abc;end", (b"acme=",)),
    r"\bacme_\d{8}(?!\d)": (b"acme_12345678", (b"acme_",)),
}


@pytest.mark.parametrize("pattern", BOUNDED)
def test_what_can_be_bounded_is_found_by_what_it_always_has(pattern: str) -> None:
    text, literals = BOUNDED[pattern]
    made = row(pattern)
    assert tuple(each.encode() for each in made.literals) == literals
    assert found(b"x = '" + text + b"' y", pattern) == {"acme_token"}
    assert found(b"x " + text[: len(text) // 2] + b" y", pattern) == set()


SLOW = [
    "(a+)+b_________", "(a|a)*acme_____", "(?:a|ab)*cdefghijk", "[a-z]+[a-z0-9]+xyz12345", "acme.*=.*;.*end",
    "(?:x{300}){300}", "(?:ab?)*acme_12345", "((((((a?){10}){10}){10}){10}){10}){10}acme_12345",
    "(?:acme_[a-z]+ ?)++12345678", ".{0,500}acme_[0-9]{9}", "acme(?:(?:a*)*)*________",
]  # fmt: skip


@pytest.mark.parametrize("pattern", SLOW)
def test_what_could_be_slow_is_refused(pattern: str) -> None:
    with pytest.raises(PolicyError, match="could take more than") as refused:
        policy(pattern)
    assert refused.value.key == "network.dlp.detector" and "say how often" in str(refused.value.suggestion)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("[0-9a-f]{40}", "context ="), ("abc", "shorter than 8"), ("acme_[a-z]*", "shorter than 8"),
        (r"(\w{9})\1_acme_", "refers to a group"), ("^acme_[a-z]{20}", "begins or ends"), ("acme_[a-z]{20}$", "ends"),
        ("(?i)acme_[a-z]{20}", "flags"), ("(?i:acme)_[a-z]{20}", "flags"), ("acme_[a-z{20}", "not a regular"),
        ("acme_" + "[a-z]" * 200, "longer than 512"), ("acme_\u00e4[a-z]{20}", "ASCII"), ("a{600}cme_", "512 times"),
        ("acme_(?P<credential>[a-z]{9}", "not a regular"), ("(" * 200 + ")" * 200, "shorter"),
        ("acme_[a-z]{99999999999999999999}", "not a regular"), ("", "empty"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_is_wrong(pattern: str, why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        policy(pattern)


def drawn(chance: random.Random, depth: int = 3) -> str:
    """Some expression, most of which nest and repeat."""
    pieces = []
    for _ in range(chance.randint(1, 3)):
        piece = chance.choice(["a", "b", "[ab]", "[^a]", ".", "ab"])
        if depth and chance.random() < 0.6:
            piece = f"(?:{'|'.join(drawn(chance, depth - 1) for _ in range(chance.randint(1, 2)))})"
        elif len(piece) == 2:
            piece = "(?:ab)"
        pieces.append(piece + chance.choice(["", "", "?", "*", "+", "{1,3}", "{2,}", "*?", "{0,40}"]))
    return "".join(pieces)


def test_the_bound_is_one() -> None:
    """Whatever passes is quick on what such expressions are slow on; and the same kind of expression that does not is
    not always: the control, without which this would say nothing."""
    chance, slowest, refused, control = random.Random(7), 0.0, 0, 0.0
    texts = [b"a" * WINDOW, b"ab" * (WINDOW // 2), b"a" * (WINDOW - 1) + b"c", bytes(chance.choices(b"ab", k=WINDOW))]
    for _ in range(600):
        pattern = drawn(chance) + "acme_zzzz"
        try:
            bounded(pattern)
        except CommandRefused:
            refused += 1
            continue
        compiled = re.compile(pattern.encode())
        for text in texts:
            began = time.thread_time()
            compiled.match(text)
            slowest = max(slowest, time.thread_time() - began)
    began = time.thread_time()
    re.match(rb"(?:a|a)*b", b"a" * 18)  # each letter more doubles it
    control = time.thread_time() - began
    assert 50 < refused < 550
    assert slowest < 20 * control, (slowest, control, MOST_STEPS)


def test_a_try_is_charged_what_it_may_take() -> None:
    made = row("acme_[a-z]{0,100}[a-z0-9]{0,40}key")
    assert made.price > made.lead + made.longest
    with pytest.raises(Undecodable):
        found(b"acme_" * 200_000, "acme_[a-z]{0,100}[a-z0-9]{0,40}key")


def test_a_word_nearby_makes_it_count() -> None:
    hexes = b"0123456789abcdef" * 2
    said = {"pattern": "[0-9a-f]{32}", "context": ["acme"]}
    assert found(b"acme_key: " + hexes, **said) == found(b"ACME key '" + hexes, **said) == {"acme_token"}
    assert found(b"key: " + hexes, **said) == set()
    assert found(b"acme " + b"." * 80 + hexes, **said) == set(), "too far away"
    near, far = (scan(text + hexes, KEY, nominator=Nominator(own([row(**said)]))) for text in (b"acme ", b"acme: "))
    assert [each.fingerprint for each in near] == [each.fingerprint for each in far], "of the find, not of the word"


def test_what_a_group_calls_credential_is_the_find() -> None:
    one, other = (
        scan(text + TAIL, KEY, nominator=Nominator(own([row("acme[=:]+(?P<credential>[a-z0-9]{20})")])))
        for text in (b"acme=", b"acme::")
    )
    assert one[0].fingerprint == other[0].fingerprint and one[0].fingerprint.startswith("a1b2...")


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ({"name": "github_pat"}, "every scan"), ({"name": "ssh_private_key"}, "every scan"), ({"name": "A"}, "name of"),
        ({"name": "canary_token"}, "every scan"), ({"pattern": 7}, "string"), ({"hosts": ["not a host"]}, "hosts"),
        ({"context": ["ab"]}, "3 to 32"), ({"context": ["a b c"]}, "3 to 32"), ({"regex": "x"}, "not a key"),
    ],
)  # fmt: skip
def test_a_table_is_read_in_full_or_refused(table: dict[str, Any], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        Policy(dlp_detectors=[{"name": "acme_token", "pattern": "acme_[a-z]{20}", **table}])


def test_one_name_has_one_meaning() -> None:
    """A layer cannot take another one's detector away by saying less under the same name."""
    strict, lax = policy(), policy(hosts=["a.example"])
    with pytest.raises(PolicyError, match="two detectors are called acme_token"):
        strict.merge(lax)
    assert strict.merge(policy()) == strict


def test_toml_line_and_way_back() -> None:
    text = (
        '[network]\negress = "proxy-only"\n[[network.dlp.detector]]\nname = "acme_token"\n'
        'pattern = "acme_[a-z0-9]{20}"\nhosts = ["**.acme.example"]\n'
    )
    made = Policy.parse(text)
    assert made.dlp_detectors[0].hosts == ("**.acme.example",)
    assert Policy.parse(made.to_toml()) == made == Policy.from_json(made.to_json())
    with pytest.raises(PolicyError) as refused:
        Policy.parse(text.replace("{20}", "+", 1).replace("[a-z0-9]", "(?:[a-z]+)"))
    assert refused.value.line is not None
