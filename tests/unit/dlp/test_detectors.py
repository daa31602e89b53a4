"""Every row of the registry: its vectors, and that no text makes its expression slow."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pysandbox.dlp import registry
from pysandbox.dlp.detector import Detector, compiled
from pysandbox.dlp.engine import scan
from pysandbox.dlp.nominate import Nominator
from pysandbox.dlp.scope import may_go
from pysandbox.dlp.work import Undecodable, Work
from pysandbox.policy.detector_names import LISTABLE, NOWHERE
from pysandbox.policy.names import canonical

KEY = b"k" * 16
PARSER: Any = importlib.import_module("re._parser")  # of Python's own expressions
FOUNDING = {
    "github_pat": rb"gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}",
    "npm_token": rb"npm_[A-Za-z0-9]{36}",
    "aws_access_key": rb"AKIA[A-Z0-9]{16}",
    "slack_token": rb"xox[baprs]-[0-9]{10,13}-[0-9]{10,13}-[A-Za-z0-9]{24}",
    "ssh_private_key": rb"-----BEGIN (?:(?:RSA|EC|OPENSSH|DSA|ENCRYPTED) )?PRIVATE KEY-----",
    "bearer_token": rb"Bearer\s+[A-Za-z0-9\-._~+/]{20,}=*",
}


def named(detector: Detector) -> str:
    return detector.name


def found(text: bytes) -> set[str]:
    return {each.detector for each in scan(text, KEY)}


@pytest.mark.parametrize("detector", registry.ALL, ids=named)
def test_each_finds_its_hits_and_not_its_near_misses(detector: Detector) -> None:
    assert len(detector.hits) >= 2 and len(detector.misses) >= 2
    for hit in detector.hits:
        assert detector.name in found(b"x " + hit + b" y"), hit
    for miss in detector.misses:
        assert detector.name not in found(miss), miss


@pytest.mark.parametrize("detector", registry.ALL, ids=named)
def test_each_is_nominated_by_a_literal_of_its_expression_and_fits_its_window(detector: Detector) -> None:
    for hit in detector.hits:
        match = re.search(detector.expression, hit)
        assert match is not None
        places = [at for each, at in Nominator((detector,)).places(hit)]
        assert any(match.start() <= at and at - match.start() <= detector.lead for at in places)


@pytest.mark.parametrize("detector", registry.ALL, ids=named)
def test_homes_are_canonical_names(detector: Detector) -> None:
    for home in detector.homes:
        name = home.removeprefix("**.")
        assert canonical(name) == name
    assert not (detector.never and detector.homes)


def test_names_are_given_once() -> None:
    assert len(registry.BY_NAME) == len(registry.ALL) > 50


def test_the_founding_expressions_are_as_promised() -> None:
    assert {name: registry.BY_NAME[name].expression for name in FOUNDING} == FOUNDING


def hostile(detector: Detector) -> list[bytes]:
    """What a backtracking expression hates: its beginnings, over and over, and hits without their end."""
    size = 40_000
    texts = [(literal * size)[:size] for literal in detector.literals]
    texts += [(hit[:-1] * size)[:size] for hit in detector.hits]
    texts += [hit[: len(hit) // 2] + (hit[len(hit) // 2 : -1] or b"x") * 2000 + b"!" for hit in detector.hits]
    texts += [literal + b" " * size for literal in detector.literals]
    return texts


def repeats(pattern: Any, inside: bool = False) -> Iterator[bool]:
    """Each repeat of an expression: whether it stands inside another one."""
    for operation, argument in pattern:
        if operation in (PARSER.MAX_REPEAT, PARSER.MIN_REPEAT):
            yield inside
            yield from repeats(argument[2], inside or argument[1] > 1)
        elif operation is PARSER.SUBPATTERN:
            yield from repeats(argument[3], inside)
        elif operation is PARSER.BRANCH:
            for each in argument[1]:
                yield from repeats(each, inside)


@pytest.mark.parametrize("detector", registry.ALL, ids=named)
def test_no_expression_repeats_a_repeat(detector: Detector) -> None:
    """So a try costs a power of its window, and never two to the power of it."""
    assert not any(repeats(PARSER.parse(detector.expression)))


@pytest.mark.parametrize("detector", registry.ALL, ids=named)
def test_no_text_makes_a_try_slow(detector: Detector) -> None:
    """Processor time, the best of several, against a bar that is some five hundred times what is needed."""
    window = detector.lead + detector.longest
    for text in hostile(detector):
        expression, best = compiled(detector.expression), 9.0
        for _ in range(3):
            began = time.thread_time()
            expression.match(text[:window])
            best = min(best, time.thread_time() - began)
        assert best < 0.01, text[:40]


@pytest.mark.parametrize("detector", registry.ALL, ids=named)
def test_tries_are_charged_to_the_budget(detector: Detector) -> None:
    """A text that nominates at every turn is refused, or looked at within so many tries."""
    text = detector.literals[0] * (Work(0).left // 2 // len(detector.literals[0]))
    tries = (Work(len(text)).left // (detector.lead + detector.longest)) + 1
    if text.count(detector.literals[0]) > tries:
        with pytest.raises(Undecodable):
            scan(text, KEY)


@pytest.mark.parametrize(
    ("name", "host", "allowed"),
    [
        ("github_pat", "github.com", True), ("github_pat", "api.github.com", True),
        ("github_pat", "github.com.evil.example", False), ("github_pat", "evilgithub.com", False),
        ("npm_token", "registry.npmjs.org", True), ("npm_token", "npmjs.org", False),
        ("aws_access_key", "s3.eu-west-1.amazonaws.com", True), ("ssh_private_key", "github.com", False),
        ("bearer_token", "api.example.com", False),
    ],
)  # fmt: skip
def test_a_credential_goes_home_and_nowhere_else(name: str, host: str, allowed: bool) -> None:
    assert may_go(registry.BY_NAME[name], host) is allowed


def test_a_policy_may_name_each() -> None:
    assert set(LISTABLE) == {each.name for each in registry.ALL if not each.never} | {"generic_high_entropy"}
    assert set(NOWHERE) == {each.name for each in registry.ALL if each.never}


def test_a_host_that_lists_it_is_one_more_home_but_for_keys() -> None:
    assert may_go(registry.BY_NAME["bearer_token"], "api.example.com", listed=["bearer_token"])
    assert may_go(registry.BY_NAME["github_pat"], "ghe.acme.example", extra=["ghe.acme.example"])
    assert may_go(registry.BY_NAME["jwt"], "a.example", listed=["bearer_token"])
    assert not may_go(registry.BY_NAME["github_pat"], "a.example", listed=["bearer_token"])
    assert not may_go(registry.BY_NAME["ssh_private_key"], "a.example", ["a.example"], ["ssh_private_key"])
