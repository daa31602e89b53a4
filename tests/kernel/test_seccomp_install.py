"""csrc/init/seccomp.c: the filter is in force for every command, early or late; a broken one lets nothing run.

What the shipped filters refuse is in test_seccomp_live.py.
"""

from __future__ import annotations

import errno

import pytest

from .inject import ALLOW_ALL, ERRNO, KILL, answering
from .plans import opened, plan

pytestmark = pytest.mark.guest

STATE = "grep -E '^Seccomp(_filters)?:' /proc/self/status"
EARLY = pytest.mark.parametrize("early", [False, True], ids=["late", "early"])


@EARLY
def test_every_command_lives_under_the_filter_once(early: bool) -> None:
    refusing = answering(ERRNO | errno.EDOM, "getpriority", {})
    with opened(plan(seccomp=refusing, filter_early=early)) as init:
        for _ in range(2):
            assert init.sh(STATE).said.split() == ["Seccomp:", "2", "Seccomp_filters:", "1"]
            assert init.attempt("os.getpriority(0, 0)") == "EDOM"


@pytest.mark.parametrize(("early", "mode"), [(False, "0"), (True, "2")], ids=["late", "early"])
def test_cage_init_lives_under_it_when_it_is_early(early: bool, mode: str) -> None:
    with opened(plan(seccomp=ALLOW_ALL, filter_early=early)) as init:
        assert init.run("/bin/true").code == 0
        assert init.status("Seccomp") == mode


def test_without_a_filter_there_is_none() -> None:
    with opened(plan()) as init:
        assert init.sh(STATE).said.split() == ["Seccomp:", "0", "Seccomp_filters:", "0"]


def test_a_broken_filter_that_should_be_early_ends_the_cage() -> None:
    with opened(plan(seccomp=b"\xff" * 8, filter_early=True)) as init:
        assert init.ended()


def test_a_command_that_the_filter_kills_before_it_runs_is_reported_as_killed() -> None:
    with opened(plan(seccomp=answering(KILL, "execve", {}))) as init:
        outcome = init.run("/bin/true")
        assert (outcome.code, outcome.said) == (-31, "")  # SIGSYS
        assert init.run("/bin/true").code == -31
