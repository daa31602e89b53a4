"""What an error of a start advises: the cause on this host where it is one of the host's, else what the step says."""

from __future__ import annotations

import errno

import pytest

from pysandbox.launch import native
from pysandbox.probe import restriction

CAUSE = "x = 1; as root: pysandbox setup"


@pytest.fixture
def restricted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restriction, "find_restriction", lambda: CAUSE)


@pytest.mark.usefixtures("restricted")
@pytest.mark.parametrize(
    ("step", "number"),
    [("clone", errno.EPERM), ("setgroups", errno.EACCES), ("uid_map", errno.EPERM), ("propagation", errno.EACCES)],
)
def test_a_step_that_the_host_refuses_names_what_refuses_it(step: str, number: int) -> None:
    assert native._hint(step, number) == CAUSE


@pytest.mark.usefixtures("restricted")
@pytest.mark.parametrize(("step", "number"), [("exec", errno.EACCES), ("clone", errno.ENOMEM), ("chdir", errno.ENOENT)])
def test_a_failure_of_another_kind_is_not_blamed_on_the_host(step: str, number: int) -> None:
    assert native._hint(step, number) == native.HINTS.get((step, number))


def test_without_a_known_restriction_the_step_s_own_advice_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restriction, "find_restriction", lambda: None)
    assert "pysandbox check" in str(native._hint("setgroups", errno.EACCES))
