"""Claim: which servers the inspector believes is the caller's word alone: a file of `upstream_ca` that a cage could
change, or could have changed, is refused when the policy is compiled, with the way out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pysandbox import Cage
from pysandbox.errors import SandboxCompileError
from pysandbox.policy.model import Policy

from .conftest import Ground
from .harness import policy, program, read_report

HOSTS = [{"domain": "origin.example", "methods": ["GET"]}]
FORGE = """
    attempt("forge", lambda: open(CA, "a").write("of an attacker"))
"""
TRUE = "a certificate\n"


@pytest.fixture
def ca(ground: Ground) -> Path:
    directory = ground.inside / "certs"
    directory.mkdir()
    file = directory / "ca.pem"
    file.write_text(TRUE)
    return file


def rules(ca: Path, **options: Any) -> Policy:
    return policy(hosts=HOSTS, proxy_upstream_ca=[str(ca)], **options)


def forges(ca: Path, rules: Policy) -> str | None:
    with Cage(rules) as cage:
        result = cage.run(program(FORGE, CA=str(ca)))
    return read_report(result.exit_code, result.stdout, result.stderr)["forge"].errno


def test_a_cage_that_may_write_it_is_not_made(ca: Path) -> None:
    with pytest.raises(SandboxCompileError, match="and so decide which servers") as caught:
        forges(ca, rules(ca, allow_write=[str(ca.parent)]))
    assert caught.value.key == "proxy.upstream_ca" and ca.read_text() == TRUE


def test_what_the_error_says_to_do_is_enough(ca: Path) -> None:
    assert forges(ca, rules(ca, allow_write=[str(ca.parent)], deny=[str(ca)])) is not None
    assert ca.read_text() == TRUE


def test_what_a_cage_has_written_is_believed_by_no_later_one(ca: Path) -> None:
    assert forges(ca, policy(allow_write=[str(ca.parent)])) is None  # CONTROL: where it decides nothing
    assert ca.read_text() == TRUE + "of an attacker"
    with pytest.raises(SandboxCompileError, match="an earlier cage of this program may have written"):
        forges(ca, rules(ca))
