"""narrow: only tightens."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given, settings

from pysandbox.errors import PolicyError
from pysandbox.policy.model import Grant, Policy, options
from pysandbox.policy.narrow import TIGHTER
from pysandbox.policy.recipe import with_base
from unit.policy.strategies import POLICIES

WIDE = Policy(
    allow=["/a", "/b"], allow_write=["/w"], deny=["/d"], mask=[Grant("/m", True)], workdir="write", state="scratch",
    env={"A": "1"}, env_passthrough=["LANG"], allow_execve=["/bin/a", "/bin/b"], max_pids=9, run_as="root",
    memory_mb=64, write_mb=64, cpu_percent=50, cpu_shares=50, walltime_sec=60, address_space_gb=4, file_size_gb=0,
    limits_required=False, seccomp="default", seccomp_mode="deny-list", allow_syscalls=["ptrace"],
    deny_syscalls=["bpf"], egress="direct", unsafe_direct=True, isolation="landlock",
    syscall_lists={"allow": ["read", "write"], "deny": ["acct"]}, contract_mode="relaxed", ports=["80", "81"],
    allow_host_loopback=True, unix_sockets=["/run/a", "/run/b"], dlp_bearer="jwt", dlp_dns_entropy_threshold=0.9,
    dlp_extra_scopes={"npm_token": ["a.example", "b.example"]},
    hosts=[
        {"domain": "a.example", "methods": ["GET", "PUT"], "allow_credentials": ["npm_token"],
         "contract_mode": "relaxed"},
        {"domain": "**.b.example"}, {"domain": "c.b.example", "paths": ["/v1"], "max_request_bytes": 9},
    ],
)  # fmt: skip


def test_every_field_says_what_tighter_means():
    assert TIGHTER.keys() == {field.name for field in fields(Policy)}


def test_every_choice_has_a_place_in_its_order():
    for field, described in options():
        for name in described.choices if field.type == "str" else ():
            assert TIGHTER[field.name](name, described.choices[0], Policy()) in (True, False)


@pytest.mark.parametrize(
    "tighter",
    [
        {"allow": ["/a"]},
        {"allow": ["/a", "/w"], "allow_write": []},
        {"allow_write": []},
        {"deny": ["/d", "/e"]},
        {"mask": ["/m"]},
        {"workdir": "read"},
        {"base": False},
        {"state": "ephemeral"},
        {"env": {}},
        {"env_passthrough": []},
        {"allow_execve": ["/bin/a"]},
        {"max_pids": 1},
        {"run_as": "self"},
        {"memory_mb": 16},
        {"cpu_percent": 1},
        {"write_mb": 1},
        {"cpu_shares": 49},
        {"walltime_sec": 1},
        {"grace_sec": 0},
        {"address_space_gb": 3},
        {"file_size_gb": 100},
        {"open_files": 3},
        {"tmp_mb": 1},
        {"output_mb": 0},
        {"limits_required": True},
        {"seccomp": "seed-187"},
        {"seccomp_mode": "allow-list"},
        {"allow_syscalls": []},
        {"deny_syscalls": ["bpf", "keyctl"]},
        {"egress": "none", "unsafe_direct": False},
        {"egress": "proxy-only", "unsafe_direct": False},
        {"strict": True, "limits_required": True},
        {"syscall_lists": {"allow": ["read"], "deny": ["acct", "bpf"]}},
        {"notifier": True},
        {"contract_mode": "strict"},
        {"ports": ["80"], "allow_host_loopback": False},
        {"host_loopback_ports": [5432]},
        {"unix_sockets": ["/run/a"], "dns_ipv6": "nxdomain"},
        {"dlp_enabled": True, "dlp_canary_tokens": True, "dlp_bearer": "any", "dlp_decompress": False},
        {"dlp_max_decode_depth": 33},
        {
            "dlp_dns_entropy_threshold": 0.8,
            "dlp_session_entropy_budget": 1,
            "dlp_extra_scopes": {"npm_token": ["a.example"]},
        },
        {"proxy_buffered_bytes": 2**24, "proxy_streamed_bytes": 2**25, "proxy_timeout_ms": 1},
        {"hosts": []},
        {"hosts": [{"domain": "a.example", "methods": ["GET"], "contract_mode": "strict"}]},
        {"hosts": [{"domain": "c.b.example", "paths": ["/v1"], "max_request_bytes": 8}]},
        {},
    ],
)
def test_less_is_granted(tighter):
    narrowed = WIDE.narrow(**tighter)
    assert narrowed == Policy(**{**WIDE.explicit, **tighter})


@pytest.mark.parametrize(
    ("looser", "key"),
    [
        ({"allow": ["/a", "/c"]}, "filesystem.allow"),
        ({"allow": ["/a/below"]}, "filesystem.allow"),  # by its letters below /a, as a symlink anywhere
        ({"allow_write": ["/w", "/a"]}, "filesystem.allow_write"),
        ({"deny": []}, "filesystem.deny"),
        ({"deny": [Grant("/d", True)]}, "filesystem.deny"),
        ({"mask": []}, "filesystem.mask"),
        ({"env": {"A": "2"}}, "process.env"),
        ({"env": {"A": "1", "B": "2"}}, "process.env"),
        ({"env_passthrough": ["LANG", "HOME"]}, "process.env_passthrough"),
        ({"allow_execve": []}, "process.allow_execve"),
        ({"allow_execve": ["/bin/c"]}, "process.allow_execve"),
        ({"max_pids": 10}, "process.max_pids"),
        ({"max_pids": None}, "process.max_pids"),
        ({"memory_mb": None}, "resources.memory_mb"),
        ({"cpu_shares": None}, "resources.cpu_shares"),
        ({"walltime_sec": 61}, "resources.walltime_sec"),
        ({"address_space_gb": 0}, "resources.address_space_gb"),
        ({"address_space_gb": 5}, "resources.address_space_gb"),
        ({"open_files": 5000}, "resources.open_files"),
        ({"seccomp": "relaxed"}, "syscalls.profile"),
        ({"allow_syscalls": ["ptrace", "bpf"]}, "syscalls.allow_extra"),
        ({"deny_syscalls": []}, "syscalls.deny_extra"),
        ({"caged": False}, "caged"),
        ({"syscall_lists": ()}, "syscalls.lists"),
        ({"syscall_lists": {"allow": ["read", "bpf"], "deny": ["acct"]}}, "syscalls.lists"),
        ({"syscall_lists": {"allow": ["read"]}}, "syscalls.lists"),
        ({"notifier": False}, "syscalls.notifier"),
        ({"ports": ["80", "81", "82"]}, "network.ports"),
        ({"unix_sockets": ["/run/a", "/run/b", "/run/c"]}, "network.unix_sockets"),
        ({"dns_ipv6": "resolve"}, "network.dns.ipv6"),
        ({"dlp_canary_tokens": False}, "network.dlp.canary_tokens"),
        ({"dlp_max_decode_depth": 31}, "network.dlp.max_decode_depth"),
        ({"dlp_extra_scopes": {"github_pat": ["a.example"]}}, "network.dlp.extra_scopes"),
        ({"proxy_buffered_bytes": 1}, "proxy.max_buffered_body_bytes"),
        ({"proxy_scheme": "h2c"}, "proxy.upstream_scheme"),
        ({"hosts": [{"domain": "d.example"}]}, "host"),
        ({"hosts": [{"domain": "a.example"}]}, "host"),  # any method
        ({"hosts": [{"domain": "c.b.example", "paths": ["/v1"]}]}, "host"),  # no cap
        ({"hosts": [{"domain": "**.b.example"}]}, "host"),  # which then decides for c.b.example, with no contract
        ({"hosts": [{"domain": "**.b.example", "include_subdomains": True}]}, "host"),
    ],
)
def test_anything_looser_is_refused_by_name(looser, key):
    with pytest.raises(PolicyError, match=r"only be tightened|cannot be changed") as caught:
        WIDE.narrow(**looser)
    assert caught.value.key == key


@pytest.mark.parametrize(
    "looser",
    [
        {"workdir": "read"}, {"state": "scratch"}, {"run_as": "self"}, {"limits_required": False},
        {"seccomp_mode": "deny-list"}, {"egress": "direct", "unsafe_direct": True}, {"isolation": "landlock"},
        {"cpu_shares": 200}, {"file_size_gb": 0}, {"max_pids": 4097},
    ],
)  # fmt: skip
def test_the_defaults_are_not_loosened(looser):
    with pytest.raises(PolicyError, match=r"only be tightened|cannot be changed"):
        Policy().narrow(**looser)


def test_no_isolation_is_tighter_than_the_other():
    """In full isolation the sockets of a directory that is read may be connected to: docker's."""
    with pytest.raises(PolicyError, match="isolation: cannot be changed; 'full' allows what 'landlock' does not"):
        WIDE.narrow(isolation="full")


def test_an_egress_that_addresses_hold_is_not_left_for_hosts_and_the_loopback():
    """Beside "direct" they are idle, the host's loopback among them."""
    held = Policy(egress="direct", allow_ips=["203.0.113.7"], allow_host_loopback=True, hosts=["a.example"],
                  unsafe_direct=True)  # fmt: skip
    with pytest.raises(PolicyError, match="looser"):
        held.narrow(egress="proxy-only", unsafe_direct=False)
    assert held.narrow(egress="none", unsafe_direct=False).egress == "none"


def test_what_is_denied_in_the_base_is_denied_without_it():
    for policy in (Policy(allow=["/etc"]), Policy(allow=["/etc"]).narrow(base=False)):
        assert "/etc/shadow" in [grant.path for grant in with_base(policy).deny]


def test_strict_and_base_are_not_switched_back():
    with pytest.raises(PolicyError, match="only be tightened"):
        Policy(strict=True).narrow(strict=False)
    with pytest.raises(PolicyError, match="only be tightened"):
        Policy(base=False).narrow(base=True)


def test_the_first_limit_on_executables_and_on_numbers_is_a_tightening():
    narrowed = Policy().narrow(allow_execve=["/bin/sh"], memory_mb=64, cpu_shares=100, walltime_sec=5)
    assert narrowed.memory_mb == 64


@settings(max_examples=40, deadline=None)
@given(POLICIES, POLICIES)
def test_narrowing_both_ways_happens_only_between_equally_tight_policies(first, second):
    """The order has no loops: what may go down and up again has granted the same all along."""
    narrowed = {}
    for name, tighter in TIGHTER.items():
        old, new = getattr(first, name), getattr(second, name)
        if tighter(old, new, first) and tighter(new, old, second):
            narrowed[name] = (old, new)
    for name, (old, new) in narrowed.items():
        if isinstance(old, str | bool | int | float):
            assert old == new or (name == "cpu_shares" and {old, new} == {100, None})


@settings(max_examples=40, deadline=None)
@given(POLICIES)
def test_every_policy_narrows_to_itself(policy):
    assert policy.narrow(**policy.explicit) == policy


@pytest.mark.parametrize(
    ("alias", "before", "after", "is_tighter"),
    [
        (True, [], [1], True), (True, [1, 2], [1], True), (True, [1], [1, 2], False), (True, [1], [], False),
        (False, [1, 2], [1], True), (False, [1], [], True), (False, [1], [2], False), (False, [], [1], False),
    ],
)  # fmt: skip
def test_a_list_of_ports_holds_the_alias_to_them_or_opens_it(alias, before, after, is_tighter):
    policy = Policy(allow_host_loopback=alias, host_loopback_ports=before)
    try:
        policy.narrow(host_loopback_ports=after)
    except PolicyError:
        assert not is_tighter
    else:
        assert is_tighter


@pytest.mark.parametrize(
    ("before", "after", "is_tighter"),
    [
        ({}, {"ports": [443]}, True), ({"ports": [443, 80]}, {"ports": [80]}, True), ({"ports": [443]}, {}, False),
        ({"direct": True}, {}, True), ({}, {"direct": True}, False),
    ],
)  # fmt: skip
def test_fewer_ports_and_a_look_at_what_is_sent_are_tighter(before, after, is_tighter):
    policy = Policy(hosts=[{"domain": "a.example", **before}])
    try:
        policy.narrow(hosts=[{"domain": "a.example", **after}])
    except PolicyError:
        assert not is_tighter
    else:
        assert is_tighter


@pytest.mark.parametrize(
    ("before", "after", "is_tighter"),
    [
        ({}, {"contract_mode": "strict", "methods": ["GET"]}, True),
        ({}, {"contract_mode": "strict", "tls": "inspect"}, True),
        ({}, {"contract_mode": "strict"}, False),
        ({"methods": ["GET"]}, {"methods": ["GET"], "contract_mode": "strict"}, True),
    ],
)
def test_requests_that_were_looked_at_still_are(before, after, is_tighter):
    """A relaxed block looks at each and tells it; a strict one that says nothing of requests lets them pass unread."""
    policy = Policy(hosts=[{"domain": "a.example", "contract_mode": "relaxed", **before}])
    wanted = [{"domain": "a.example", **after}]
    if is_tighter:
        assert policy.narrow(hosts=wanted).hosts[0].is_inspected
        return
    with pytest.raises(PolicyError, match="looser"):
        policy.narrow(hosts=wanted)


@pytest.mark.parametrize(
    ("domain", "beside", "policy", "is_tighter"),
    [
        ("a.example", "b.example", {}, True),
        ("*.a.example", "b.example", {}, True),
        ("**.a.example", "**.example", {}, True),  # as wide as before
        ("a.example", "**.example", {}, False),
        ("*.a.example", "**.example", {}, False),
        ("a.example", "**.a.example", {}, False),
        ("a.example", "b.example", {"contract_mode": "relaxed"}, False),
        ("**.a.example", "b.example", {"contract_mode": "relaxed"}, True),
    ],
)
def test_names_below_a_domain_are_not_left_to_whatever_is_wider(domain, beside, policy, is_tighter):
    """Without include_subdomains a block says nothing of them; what is wider and holds them to less decides then."""
    held, other = {"domain": domain, "methods": ["GET"]}, {"domain": beside, "include_subdomains": beside[0] == "*"}
    wide = Policy(hosts=[{**held, "include_subdomains": True}, other], **policy)
    if is_tighter:
        assert not wide.narrow(hosts=[held, other]).hosts[0].include_subdomains
        return
    with pytest.raises(PolicyError, match="looser"):
        wide.narrow(hosts=[held, other])


def test_a_block_that_is_taken_away_takes_what_it_said_of_the_names_below_it():
    held = {"domain": "a.example", "methods": ["GET"], "include_subdomains": True}
    with pytest.raises(PolicyError, match="looser"):
        Policy(hosts=[held, "**.a.example"]).narrow(hosts=["**.a.example"])
    assert Policy(hosts=[held, "*.a.example"]).narrow(hosts=["*.a.example"])  # it has decided for these before


def test_of_a_long_list_what_differs_is_named():
    before = Policy(allow=[f"/a{number}" for number in range(50)])
    with pytest.raises(PolicyError, match=r"with \(Grant\(path='/new'.* without .*'/a0'.* it is looser than before"):
        before.narrow(allow=[*before.allow[1:], Grant("/new")])
