"""Below a pattern a name is charged once, within a minute and a life, and never has a credential in it."""

from __future__ import annotations

import random
import string

import pytest

from pysandbox.compile.plan import ScanPlan
from pysandbox.dlp import registry
from pysandbox.dlp.work import Undecodable
from pysandbox.gate.dns.asked import A_CAGE, A_MINUTE, MOST_REFUSED, MOST_SCANNED, AskedNames, NameScan

CHANCE = random.Random(3)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def words(size: int) -> str:
    return "".join(CHANCE.choices("ghijklmnop", k=size))


def rule(asked: AskedNames, name: str) -> str:
    refused = asked.take(name)
    assert refused is None or not refused.decision.allowed
    return refused.decision.rule if refused is not None else ""


def test_what_is_spelled_out_costs_nothing() -> None:
    asked = AskedNames(["a" * 60 + ".example", "**.b.example"])
    assert {rule(asked, "a" * 60 + ".example") for _ in range(1000)} == {""}
    assert rule(asked, words(60) + ".b.example") == ""


def test_a_minute_and_a_life_are_bounded_and_a_known_name_is_free() -> None:
    clock = Clock()
    asked = AskedNames(["*.a.example"], clock)
    said = 0
    for minute in range(20):
        clock.now = 61.0 * minute
        names = [words(32) + ".a.example" for _ in range(40)]
        passed = [each for each in names if rule(asked, each) == ""]
        assert all(rule(asked, each) == "" for each in passed)
        assert len(passed) * 32 <= A_MINUTE
        said += len(passed) * 32
    assert said == A_CAGE
    refused = asked.take(words(10) + ".a.example")
    assert refused is not None and refused.decision.rule == "dlp.dns-budget" and refused.shown in refused.decision.fix


def test_a_minute_is_any_sixty_seconds() -> None:
    clock = Clock()
    asked = AskedNames(["*.a.example"], clock)
    for at in range(60):
        clock.now = float(at)
        if at < A_MINUTE // 50:
            assert rule(asked, words(50) + ".a.example") == ""
    assert rule(asked, words(50) + ".a.example") == "dlp.dns-budget"
    clock.now = 60.5
    assert rule(asked, words(50) + ".a.example") == ""


def spelled(said: bytes) -> list[str]:
    """As names: in hex and as it is, in labels."""
    found = [said.hex()] + ([said.decode().lower()] if said.isalnum() else [])
    return [".".join(each[at : at + 40] for at in range(0, len(each), 40)) + ".a.example" for each in found]


@pytest.mark.parametrize("name", ["github_pat", "aws_access_key", "npm_token", "stripe_key"])
def test_no_credential_is_asked_for_or_told(name: str) -> None:
    asked = AskedNames(["**.a.example"])
    assert rule(asked, "eu-central-1.a.example") == ""  # the control
    for hit in registry.BY_NAME[name].hits:
        for each in spelled(hit):
            refused = asked.take(each)
            assert refused is not None and refused.decision.rule == f"dlp.{name}", each
            assert refused.shown == "**.a.example" and refused.decision.fix == ""


def test_names_of_every_day_are_none() -> None:
    asked = AskedNames(["**.amazonaws.com"])
    for name in ("s3.eu-central-1", "bucket-of-acme-2026.s3", "ec2.us-east-1", "123456789012.dkr.ecr.us-east-1",
                 "a1b2c3d4e5f6g7.execute-api.eu-west-1", string.ascii_lowercase):  # fmt: skip
        assert rule(asked, f"{name}.amazonaws.com") == "", name


def smuggled(labels: int, size: int = 40) -> str:
    letters = string.ascii_lowercase + "234567"
    return ".".join("".join(CHANCE.choices(letters, k=size)) for _ in range(labels))


def warned(*names: str, share: float = 0.92, patterns: tuple[str, ...] = ("**.a.example", "**.b.example")) -> list[str]:
    told: list[str] = []
    scan = ScanPlan(32, 1, (), False, 1, told_share=share)
    asked = AskedNames(patterns, scan=scan, tell=lambda pattern, name: told.append(f"{pattern} {name}"))
    assert {rule(asked, each) for each in names} <= {""}
    return told


def test_two_labels_that_are_as_even_as_data_are_a_warning_once_below_each_pattern() -> None:
    first, second, other = (f"{smuggled(2)}.{each}.example" for each in "aab")
    assert warned(first, second, other) == [f"**.a.example {first}", f"**.b.example {other}"]


def test_a_single_one_and_words_are_none() -> None:
    names = ["www.cdn", smuggled(1), "elastic-balancing-services.internal-developers", smuggled(4, 19),
             "customer-documentation-archive.production-environment"]  # fmt: skip
    assert warned(*(f"{each}.a.example" for each in names)) == []
    spelled_out = smuggled(2)
    assert warned(spelled_out, patterns=(spelled_out,)) == []


def test_a_policy_says_from_which_share_on() -> None:
    name = "customer-documentation-archive.production-environment.a.example"
    assert warned(name, share=0.6) == [f"**.a.example {name}"] and warned(name) == []


def test_hexadecimal_is_held_against_hexadecimal() -> None:
    name = ".".join(CHANCE.randbytes(20).hex() for _ in range(2)) + ".a.example"
    assert warned(name) == [f"**.a.example {name}"]


SECRET = "xoxb-123456789012-1234567890123-abcdefghijklmnopqrstuvwx"


def test_a_refused_name_that_comes_again_is_looked_through_once() -> None:
    names = NameScan()
    asked = AskedNames(["**.a.example"], names=names)
    assert {rule(asked, f"{SECRET}.a.example") for _ in range(2 * MOST_REFUSED)} == {"dlp.slack_token"}
    assert names.looked == 1
    assert rule(asked, words(20) + ".a.example") == ""
    assert SECRET not in str(vars(names))


def test_what_is_known_of_texts_is_bounded_and_the_last_are_kept() -> None:
    names = NameScan()
    texts = [words(20) for _ in range(2 * MOST_SCANNED)]
    assert not any(names.credential(each) for each in texts)
    assert len(names._scanned) == MOST_SCANNED
    assert not any(names.credential(each) for each in texts[-MOST_SCANNED:])
    assert names.looked == len(texts)


@pytest.mark.parametrize("said", ["", f"{SECRET}."])
def test_a_flood_of_new_names_is_not_looked_through_for_ever(said: str) -> None:
    """The last is told as its pattern, and with no fix that would name it."""
    names = NameScan()
    asked = AskedNames(["**.a.example"], names=names)
    while not said and rule(asked, words(40) + ".a.example") == "":
        pass
    before = names.looked
    refused = [asked.take(f"{said}{words(40)}.a.example") for _ in range(10 * MOST_REFUSED)]
    assert names.looked - before <= MOST_REFUSED
    assert refused[-1] is not None and refused[-1].shown == "**.a.example"
    assert refused[-1].decision.rule == "dlp.dns-budget" and refused[-1].decision.fix == ""


class CannotDecode:
    def found(self, text: bytes, key: bytes) -> None:
        raise Undecodable


def test_a_name_that_cannot_be_looked_through_is_asked_of_nobody() -> None:
    """Each time anew, and it is not among those that are known."""
    names = NameScan()
    names.__dict__["_wanted"] = CannotDecode()
    asked = AskedNames(["*.a.example"], names=names)
    for name in ("one.a.example", "one.a.example", "two.a.example"):
        refused = asked.take(name)
        assert refused is not None and refused.decision.rule == "dlp.undecodable-name"
        assert not refused.decision.allowed and refused.shown == "*.a.example"
    assert names.looked == 2


def test_what_is_over_the_budget_for_a_minute_is_asked_in_the_next_one() -> None:
    """However many were refused meanwhile."""
    clock = Clock()
    asked = AskedNames(["*.a.example"], clock)
    while rule(asked, words(32) + ".a.example") == "":
        pass
    assert {rule(asked, f"{number}-{words(28)}.a.example") for number in range(MOST_REFUSED + 1)} == {"dlp.dns-budget"}
    clock.now = 61.0
    assert rule(asked, words(32) + ".a.example") == ""
