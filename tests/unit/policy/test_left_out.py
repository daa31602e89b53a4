"""Every shipped recipe can be carried out, alone and beside each other one, and none opens more than it says."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from pysandbox.compile.absent import left_out_notes, refuse_absent
from pysandbox.errors import PolicyError
from pysandbox.policy.compose import resolve
from pysandbox.policy.host import HostRule
from pysandbox.policy.left_out import CONTRACT, SCANNING, has_contract
from pysandbox.policy.merge import blocks
from pysandbox.policy.model import Policy
from pysandbox.policy.recipe import SHIPPED
from pysandbox.policy.sources import shipped

SAYS = {name: shipped(name).policy(Policy) for name in SHIPPED}
UNHELD = sorted(name for name, policy in SAYS.items() if any(map(has_contract, policy.hosts)))
ELSEWHERE: list[dict[str, Any]] = [
    {"isolation": "landlock"}, {"network_backend": "routed"}, {"egress": "direct", "unsafe_direct": True},
]  # fmt: skip


BESIDE: dict[str, dict[str, Any]] = {
    "network.allow_ips": {"allow_ips": ["192.0.2.7"]},
    "network.allow_host_loopback": {"allow_host_loopback": True},
    "network.host_loopback_ports": {"host_loopback_ports": [8080]},
    "network.ports": {"ports": ["8080"]},
    "host": {"hosts": ["*.a.example"]},
}  # fmt: skip
UNSCANNED_HOSTS: list[dict[str, Any]] = [
    {"include_subdomains": True}, {"direct": True}, {"tls": "pass"},
]  # fmt: skip


def wants_a_scan(name: str) -> bool:
    return SAYS[name].dlp_enabled or any(rule.allow_credentials for rule in SAYS[name].hosts)


def kept(names: tuple[str, ...], *, requests: bool = True) -> tuple[HostRule, ...]:
    """The blocks of recipes that are held to the letter. Without a look at requests there is no scan."""
    wants = any(map(wants_a_scan, names))
    scanned = wants and requests and all(SAYS[name].egress != "none" for name in names[-1:])
    if not scanned and any(SAYS[name].dlp_enabled for name in names):
        return ()
    both = blocks([each for name in names for each in SAYS[name].hosts
                   if (scanned or not each.allow_credentials) and not (scanned and "*" in each.domain)])  # fmt: skip
    return tuple(each for each in both if requests or not has_contract(each))


def told(policy: Policy) -> list[str]:
    return [note.message for note in left_out_notes(policy)]


@pytest.mark.parametrize("name", SHIPPED)
def test_each_alone_is_carried_out_and_scanned_where_it_says_what_may_be_sent(name: str) -> None:
    policy = Policy.load(name)
    refuse_absent(policy)
    assert set(policy.hosts) == set(kept((name,)))
    assert policy.dlp_enabled == (wants_a_scan(name) and policy.egress != "none")
    assert [each for each in policy.left_out if each != SCANNING] == [
        each.domain for each in SAYS[name].hosts if "*" in each.domain
    ]


@pytest.mark.parametrize("elsewhere", ELSEWHERE, ids=str)
@pytest.mark.parametrize("name", ["service:pypi", "tool:cargo", "service:github", "python-pip", "claude-code"])
def test_where_no_request_is_looked_at_a_host_is_open_as_a_whole_or_not_at_all(
    name: str, elsewhere: dict[str, Any]
) -> None:
    policy = resolve([name], extra=elsewhere).policy
    assert set(policy.hosts) == set(kept((name,), requests=False)) and not policy.dlp_enabled
    if name != "python-pip":
        refuse_absent(policy)
        assert set(policy.left_out) - {SCANNING} == {each.domain for each in SAYS[name].hosts}
        if "egress" not in elsewhere:
            assert any("left out" in each for each in told(policy))


def test_each_beside_each_other_opens_no_more_than_both_say() -> None:
    loaded = {pair: resolve(pair).policy for pair in combinations(SHIPPED, 2)}
    assert len(loaded) > 700
    for pair, policy in loaded.items():
        assert set(policy.hosts) <= set(kept(pair)), pair
        assert policy.dlp_enabled or not any(rule.allow_credentials for rule in policy.hosts), pair
        assert policy.dlp_enabled or not (policy.hosts and any(SAYS[name].dlp_enabled for name in pair)), pair
        refuse_absent(policy)


@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("name", ["claude-code", "tool:git", "service:aws"])
def test_beside_what_cannot_be_scanned_it_is_left_out_and_the_word_is_named(name: str, beside: str) -> None:
    policy = resolve([name], extra=BESIDE[beside]).policy
    assert not policy.dlp_enabled and [each for each in policy.left_out if each != SCANNING] == [
        each.domain for each in SAYS[name].hosts
    ]
    refuse_absent(policy)
    assert any(f"not held beside {beside}: " in each and "opens the whole host" in each for each in told(policy))
    with pytest.raises(PolicyError):  # what a user wants scanned himself is refused by name
        said = {"hosts": [{"domain": "a.example", "direct": True}], **BESIDE["network.ports"]}
        refuse_absent(resolve([name], extra={**said, "dlp_enabled": True}).policy)


@pytest.mark.parametrize("column", UNSCANNED_HOSTS, ids=str)
def test_no_host_that_cannot_be_scanned_stands_beside_a_scan(column: dict[str, Any]) -> None:
    rule = {"domain": "a.example", **column}
    policy = resolve(["codex"], extra={"hosts": [rule]}).policy
    assert not policy.dlp_enabled and [each.domain for each in policy.hosts] == ["a.example"]
    refuse_absent(policy)
    scanned = resolve(["codex"], extra={"hosts": [rule], "dlp_enabled": True}).policy
    if column == {"include_subdomains": True}:  # the user's own word for names that he did not spell out
        refuse_absent(scanned)
        return
    with pytest.raises(PolicyError):
        refuse_absent(scanned)


def test_what_its_user_names_is_scanned_beside_it() -> None:
    policy = resolve(["claude-code"], extra={"hosts": ["a.example"]}).policy
    refuse_absent(policy)
    assert policy.dlp_enabled and policy.hosts[-1] == HostRule(domain="a.example") and told(policy) == []


@pytest.mark.parametrize("name", ["service:aws", "tool:aws"])
def test_a_pattern_is_named_and_opened_name_by_name(name: str) -> None:
    (said,) = told(resolve([name]).policy)
    assert "below a pattern" in said and "**.amazonaws.com" in said and "--host NAME opens one name of it" in said
    policy = resolve([name], extra={"hosts": ["s3.eu-central-1.amazonaws.com"]}).policy
    refuse_absent(policy)
    assert policy.dlp_enabled and policy.hosts[-1].domain == "s3.eu-central-1.amazonaws.com"


@pytest.mark.parametrize("name", UNHELD)
def test_it_is_whole_where_it_is_shown(name: str) -> None:
    """What the recipe says stays what it says, for the day on which it can be held."""
    assert SAYS[name].left_out == ()
    assert any(map(has_contract, SAYS[name].hosts))


def test_a_way_out_beside_a_wanted_scan_is_told_however_it_was_opened() -> None:
    for extra in ({"hosts": ["*.a.example"]}, {"allow_ips": ["192.0.2.7"]}, {"allow_host_loopback": True}):
        policy = resolve(["mcp-server"], extra={"egress": "proxy-only", **extra}).policy
        assert any("scanned" in note for note in told(policy)), extra
    assert told(resolve(["mcp-server"]).policy) == []


def test_no_shipped_recipe_opens_another_way_out_than_hosts() -> None:
    for name, policy in SAYS.items():
        assert policy.egress != "direct" and not policy.allow_ips, name
        assert not policy.allow_host_loopback and not policy.host_loopback_ports, name


def test_what_a_user_writes_is_refused_by_name_and_never_left_out() -> None:
    said = {"allow_credentials": ["github_pat"]}
    policy = resolve(["service:pypi"], extra={"hosts": [{"domain": "a.example", **said}]}).policy
    with pytest.raises(PolicyError, match="nothing that is sent is scanned"):
        refuse_absent(policy)


def test_what_a_user_scans_is_not_said_to_be_left_out() -> None:
    scanned = resolve(
        ["mcp-server"], extra={"hosts": ["a.example"], "egress": "proxy-only", "dlp_enabled": True}
    ).policy
    refuse_absent(scanned)
    assert not [each for each in told(scanned) if "scanned" in each]


def test_every_column_that_is_refused_by_name_is_a_contract() -> None:
    assert "allow_credentials" in CONTRACT
    with pytest.raises(PolicyError) as caught:
        refuse_absent(Policy(hosts=[{"domain": "a.example", "allow_credentials": ["github_pat"]}]))
    assert caught.value.key == "host.allow_credentials"
