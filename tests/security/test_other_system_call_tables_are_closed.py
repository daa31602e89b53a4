"""Claim: the i386 and x32 tables of an x86_64 kernel, which number the calls differently, kill at the first use."""

from __future__ import annotations

import platform
import signal
from pathlib import Path

import pytest

from .harness import caged, policy, uncaged

pytestmark = [
    pytest.mark.guest,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="these tables exist on x86_64 only"),
]


@pytest.mark.parametrize("table", ["i386", "x32"])
@pytest.mark.parametrize("mode", ["allow-list", "deny-list"])
def test_a_foreign_call_kills(attack_bin: Path, isolation: str, table: str, mode: str) -> None:
    rules = policy(isolation, allow=[str(attack_bin)], seccomp_mode=mode)

    report = caged([str(attack_bin / "gates"), table], rules)

    assert report.result is not None
    assert (report.result.signal, report.result.reason, report.exit_code) == (
        signal.SIGSYS,
        "seccomp",
        128 + signal.SIGSYS,
    )
    assert report.attempts == {}


@pytest.mark.parametrize("profile", ["seed-187", "default", "relaxed"])
def test_no_profile_opens_them(attack_bin: Path, profile: str) -> None:
    for table in ("i386", "x32"):
        report = caged([str(attack_bin / "gates"), table], policy(allow=[str(attack_bin)], seccomp=profile))
        assert report.exit_code == 128 + signal.SIGSYS, table


@pytest.mark.parametrize("table", ["i386", "x32"])
def test_uncaged_the_kernel_answers(attack_bin: Path, table: str) -> None:
    """With a number or, built without that table, with SIGSEGV (i386) or ENOSYS (x32): never with SIGSYS."""
    assert uncaged([str(attack_bin / "gates"), table]).exit_code in (0, -signal.SIGSEGV)
