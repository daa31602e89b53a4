"""No shipped recipe stands in the way of a command by itself; a host beside it is open, or it is said why it is not."""

from __future__ import annotations

import pytest

from pysandbox import Cage
from pysandbox.policy.compose import resolve
from pysandbox.policy.recipe import SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_command_runs_under_it(name: str) -> None:
    assert Cage(resolve([name]).policy).run(["/bin/true"]).check().denials == ()


@pytest.mark.root
@pytest.mark.parametrize("name", SHIPPED)
def test_a_command_of_root_runs_under_it(name: str) -> None:
    assert Cage(resolve([name]).policy).run(["/bin/true"]).check().denials == ()


@pytest.mark.parametrize("name", SHIPPED)
def test_a_host_beside_it_is_open_or_it_is_said_why_not(name: str) -> None:
    policy = resolve([name], extra={"hosts": ["a.invalid"]}).policy
    result = Cage(policy).run(["getent", "hosts", "a.invalid"])
    opened = policy.egress == "proxy-only"
    assert "a.invalid" not in {denial.target for denial in result.denials}
    assert opened or any("no way out" in note.message and "host" in note.message for note in result.notes)
