"""csrc/init/seccomp.c: the filter is in force for every command, the cage's and its own; a broken one lets nothing run.

What the shipped filters refuse is in test_seccomp_live.py.
"""

from __future__ import annotations

import errno

import pytest

from .inject import ALLOW_ALL, ERRNO, KILL, answering
from .plans import opened, plan

pytestmark = pytest.mark.guest

STATE = "grep -E '^Seccomp(_filters)?:' /proc/self/status"
FIELDS = pytest.mark.parametrize("field", ["seccomp_late", "seccomp"])


@FIELDS
def test_every_command_lives_under_the_filter_once(field: str) -> None:
    refusing = answering(ERRNO | errno.EDOM, "getpriority", {})
    with opened(plan(**{field: refusing})) as init:
        for _ in range(2):
            assert init.sh(STATE).said.split() == ["Seccomp:", "2", "Seccomp_filters:", "1"]
            assert init.attempt("os.getpriority(0, 0)") == "EDOM"


@pytest.mark.parametrize(("field", "mode"), [("seccomp_late", "0"), ("seccomp", "2")])
def test_cage_init_lives_under_the_one_of_the_whole_cage_alone(field: str, mode: str) -> None:
    with opened(plan(**{field: ALLOW_ALL})) as init:
        assert init.run("/bin/true").code == 0
        assert init.status("Seccomp") == mode


def test_the_stricter_of_both_filters_counts_for_a_command() -> None:
    first, second = (answering(ERRNO | errno.EDOM, call, {}) for call in ("getpriority", "getppid"))
    with opened(plan(seccomp=first, seccomp_late=second)) as init:
        assert init.sh(STATE).said.split()[-1] == "2"
        assert init.attempt("os.getpriority(0, 0)") == "EDOM"


def test_without_a_filter_there_is_none() -> None:
    with opened(plan()) as init:
        assert init.sh(STATE).said.split() == ["Seccomp:", "0", "Seccomp_filters:", "0"]


def test_a_broken_filter_of_the_whole_cage_ends_it() -> None:
    with opened(plan(seccomp=b"\xff" * 8)) as init:
        assert init.ended()


def test_a_command_that_the_filter_kills_before_it_runs_is_reported_as_killed() -> None:
    with opened(plan(seccomp_late=answering(KILL, "execve", {}))) as init:
        outcome = init.run("/bin/true")
        assert (outcome.code, outcome.said) == (-31, "")  # SIGSYS
        assert init.run("/bin/true").code == -31
