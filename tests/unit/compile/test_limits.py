"""RLIM-01..04: the default limits, and what overrides them."""

from __future__ import annotations

from pysandbox.compile.limits import limits
from pysandbox.policy.model import Policy


def by_name(policy: Policy) -> dict[str, int | None]:
    return {each.resource: each.value for each in limits(policy)}


def test_the_defaults_are_those_of_the_requirements() -> None:
    assert by_name(Policy()) == {"NPROC": 4096, "AS": 8 << 30, "NOFILE": 4096, "FSIZE": 4 << 30, "CORE": 0}


def test_the_policy_overrides_each() -> None:
    policy = Policy(max_pids=10, address_space_gb=1, open_files=20, file_size_gb=2)
    assert by_name(policy) == {"NPROC": 11, "AS": 1 << 30, "NOFILE": 20, "FSIZE": 2 << 30, "CORE": 0}


def test_zero_lifts_address_space_and_file_size() -> None:
    lifted = by_name(Policy(address_space_gb=0, file_size_gb=0))
    assert lifted["AS"] is None and lifted["FSIZE"] is None
