"""`contract_mode = "relaxed"`: what it opens, and that it is told."""

from __future__ import annotations

import pytest

from golden.pretend import notes_of, plan_of
from pysandbox.compile.notes import WIDE_GRANT
from pysandbox.compile.plan import UNKNOWN, HostGrant
from pysandbox.errors import PolicyError
from pysandbox.gate.rules import GateRules
from pysandbox.policy.explain import explain
from pysandbox.policy.model import Policy
from pysandbox.policy.names import ANY_NAME, HOST_ALIAS, canonical

RELAXED = Policy(contract_mode="relaxed", hosts=[{"domain": "a.example", "ports": [443], "methods": ["GET"]}])


def rules(policy: Policy) -> GateRules:
    net = plan_of(policy).net
    assert net is not None
    return GateRules.of(net)


def test_a_host_that_nobody_named_is_reached_and_each_of_its_requests_is_looked_at() -> None:
    relaxed = rules(RELAXED)
    assert (
        relaxed.name("elsewhere.example", 443)[:2] == (True, "host") and relaxed.name("elsewhere.example", 22).inspect
    )
    assert relaxed.contract("elsewhere.example", 443) == UNKNOWN
    assert not relaxed.name("elsewhere.example", 443).direct and relaxed.direct_ports("elsewhere.example") == ()


def test_a_host_with_a_block_is_held_to_it_as_ever() -> None:
    relaxed = rules(RELAXED)
    assert relaxed.name("a.example", 80)[:2] == (False, "host.ports")
    held = relaxed.contract("a.example", 443)
    assert held is not None and held.methods == ("GET",) and not held.told


def test_it_opens_no_service_of_the_host_and_no_address() -> None:
    relaxed = rules(RELAXED)
    assert not relaxed.name(HOST_ALIAS, 80).allowed
    address = canonical("127.0.0.1")
    assert not isinstance(address, str) and not relaxed.resolved("elsewhere.example", address, 80, own=False).allowed
    public = canonical("203.0.113.7")
    assert not isinstance(public, str) and not relaxed.address(public, 443, "tcp", own=False).allowed


def test_it_is_enough_without_any_block_and_says_nothing_without_a_way_out() -> None:
    net = plan_of(Policy(contract_mode="relaxed")).net
    assert net is not None and net.hosts == (HostGrant(ANY_NAME, (), False, UNKNOWN, websocket=True),)
    assert plan_of(Policy(contract_mode="relaxed", egress="none")).net is None


def test_it_is_told_at_each_run_and_by_explain() -> None:
    (note,) = notes_of(plan_of(RELAXED), WIDE_GRANT)
    assert "every host may be reached" in note
    assert any("nobody named" in each for each in explain(RELAXED))
    assert not any("nobody named" in each for each in explain(Policy(contract_mode="relaxed", egress="none")))


def test_no_policy_can_write_the_pattern_of_every_name() -> None:
    with pytest.raises(PolicyError):
        Policy(hosts=[{"domain": ANY_NAME}])


def test_a_block_that_says_it_is_told_of_and_its_columns_hold() -> None:
    block = {"domain": "a.example", "methods": ["GET"], "contract_mode": "relaxed"}
    held = rules(Policy(hosts=[block])).contract("a.example", 443)
    assert held is not None and held.told and held.methods == ("GET",)
    assert not rules(Policy(hosts=[block])).name("b.example", 443).allowed


def test_a_block_that_is_taken_away_would_open_its_host() -> None:
    with pytest.raises(PolicyError, match="looser"):
        RELAXED.narrow(hosts=[])
    assert RELAXED.narrow(contract_mode="strict").narrow(hosts=[]).hosts == ()
    with pytest.raises(PolicyError, match="looser"):
        Policy(hosts=["a.example"]).narrow(contract_mode="relaxed")
