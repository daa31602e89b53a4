"""compile/doors.py: what a policy lets out of a cage or into it, and what its files and variables say of that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from golden.pretend import MODERN, SYSTEM, plan_of
from pysandbox.compile.doors import PROXIES, PROXY_VARIABLES, TRANSPARENT
from pysandbox.compile.plan import HostGrant, NetPlan, Published
from pysandbox.errors import PolicyError
from pysandbox.netfilter import netlink
from pysandbox.policy.model import Policy

HOST = [{"domain": "a.example"}]
OUT: dict[str, Any] = {"egress": "proxy-only", "hosts": HOST}


def net_of(**said: Any) -> NetPlan:
    net = plan_of(Policy(**said)).net
    assert net is not None
    return net


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"egress": "proxy-only"},
        {"egress": "none", "hosts": HOST},
        {"egress": "none", "allow_host_loopback": True, "host_loopback_ports": [80]},
        {"egress": "proxy-only", "hosts": [], "allow_ips": [], "ports": []},
        {"egress": "direct", "unsafe_direct": True},
        {"isolation": "landlock", "run_as": "self", "allow_ips": ["192.0.2.1/tcp"]},
        {"caged": False, **OUT},
    ],
)
def test_an_empty_list_never_means_that_everything_is_allowed(said: dict[str, Any]) -> None:
    plan = plan_of(Policy(**said))
    assert plan.net is None
    assert not PROXY_VARIABLES.keys() & dict(plan.env)


def test_a_way_out_has_every_door() -> None:
    net = net_of(**OUT)
    assert [(door.kind, door.protocol, door.port) for door in net.doors] == [
        ("dns", "udp", 53), ("dns", "tcp", 53), ("socks", "tcp", 1080), ("http", "tcp", 3128), ("tcp", "tcp", 3129),
        ("refused", "syn", 0), ("lost", "raw", 0),
    ]  # fmt: skip
    assert {door.address for door in net.doors if door.kind != "refused"} == {"198.18.0.1"}
    assert (net.routes, net.redirect) == (netlink.ROUTES, netlink.REDIRECT)


@pytest.mark.parametrize("known", [False, None])
def test_without_nf_tables_nothing_is_redirected_and_nothing_waits_for_it(known: bool | None) -> None:
    net = plan_of(Policy(**OUT), replace(MODERN, nf_tables=known)).net
    assert net is not None and net.redirect == b"" and net.routes == netlink.ROUTES
    assert TRANSPARENT not in net.doors and set(PROXIES) <= set(net.doors)


def test_a_published_port_alone_opens_no_door() -> None:
    net = net_of(ports=["8080", "0.0.0.0:53:5353/udp", "[::1]:1:2"])
    assert (net.doors, net.routes, net.redirect, net.hosts, net.loopback_ports) == ((), b"", b"", (), None)
    assert net.published == (
        Published("127.0.0.1", 8080, 8080, "tcp"), Published("0.0.0.0", 53, 5353, "udp"), Published("::1", 1, 2, "tcp"),
    )  # fmt: skip


def test_subdomains_become_a_pattern_of_their_own() -> None:
    hosts = [
        {"domain": "a.example", "include_subdomains": True, "ports": [443, 80], "direct": True},
        {"domain": "*.b.example", "include_subdomains": True},
        {"domain": "**.c.example", "include_subdomains": True},
        {"domain": "d.example"},
    ]
    assert net_of(egress="proxy-only", hosts=hosts).hosts == (
        HostGrant("a.example", (443, 80), True),
        HostGrant("**.a.example", (443, 80), True),
        HostGrant("*.b.example", (), False),
        HostGrant("**.b.example", (), False),
        HostGrant("**.c.example", (), False),
        HostGrant("d.example", (), False),
    )


@pytest.mark.parametrize(
    ("said", "ports"),
    [
        ({"allow_host_loopback": True}, ()),
        ({"host_loopback_ports": [5432]}, (5432,)),
        ({"allow_host_loopback": True, "host_loopback_ports": [5432]}, (5432,)),
    ],
)
def test_the_host_s_loopback_is_a_way_out_of_its_own(said: dict[str, Any], ports: tuple[int, ...]) -> None:
    net = net_of(egress="proxy-only", **said)
    assert (net.loopback_ports, net.hosts) == (ports, ())
    assert net.doors


def test_what_is_asked_of_ipv6_is_handed_on() -> None:
    assert net_of(**OUT).ipv6 == "nodata"
    assert net_of(**OUT, dns_ipv6="resolve").ipv6 == "resolve"


# ---- files and variables --------------------------------------------------------------------------------------


def made(policy: Policy) -> dict[str, str]:
    return {step.target: step.data for step in plan_of(policy).mounts if step.kind.value == "FILE"}


def test_names_come_from_the_door_alone() -> None:
    files = made(Policy(allow=SYSTEM, **OUT))
    assert files["/etc/resolv.conf"] == "nameserver 198.18.0.1\n"
    assert "\nhosts: files dns\n" in files["/etc/nsswitch.conf"]
    assert "localhost" in files["/etc/hosts"]


def test_in_a_cage_without_a_way_out_no_name_is_there() -> None:
    """A resolver that cannot be reached would say "try again", and programs do."""
    files = made(Policy(allow=SYSTEM, ports=["8080"]))
    assert files.keys() == {"/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf"}
    assert "nameserver 192.0.2.1\n" in files["/etc/resolv.conf"], "to which no route leads"
    assert "hosts: files dns files\n" in files["/etc/nsswitch.conf"], "the answer is that there is no such name"


def test_without_base_they_are_made_all_the_same() -> None:
    assert "/etc/resolv.conf" in made(Policy(base=False, **OUT))


def test_the_proxy_variables_name_the_doors_in_both_spellings() -> None:
    env = dict(plan_of(Policy(**OUT)).env)
    for name in ("HTTP_PROXY", "https_proxy"):
        assert env[name] == "http://198.18.0.1:3128"
    assert env["ALL_PROXY"] == env["all_proxy"] == "http://198.18.0.1:3128"
    assert "127.0.0.1" in env["NO_PROXY"].split(",") and "localhost" in env["no_proxy"].split(",")


def test_a_proxy_that_is_passed_through_or_set_does_not_show() -> None:
    host = replace(MODERN, env={"HTTP_PROXY": "http://proxy.host:1"})
    passed = Policy(env_passthrough=["HTTP_PROXY"], **OUT)
    assert dict(plan_of(passed, host).env)["HTTP_PROXY"] == "http://198.18.0.1:3128"
    own = Policy(env={"HTTP_PROXY": "", "ALL_PROXY": "x"}, **OUT)
    assert {dict(plan_of(own).env)[name] for name in ("HTTP_PROXY", "ALL_PROXY")} == {"http://198.18.0.1:3128"}


@pytest.mark.parametrize(
    "ports",
    [
        ["8080:80", "8080:81"],
        ["0.0.0.0:8080:80", "8080:81"],
        ["[::]:8080:80", "[::1]:8080:81"],
        ["8080:80/udp", "8080/udp"],
    ],
)
def test_a_port_that_is_published_twice_is_refused_by_name(ports: list[str]) -> None:
    with pytest.raises(PolicyError, match=r"network.ports.*publishes this port of the host twice"):
        plan_of(Policy(ports=ports))


@pytest.mark.parametrize("ports", [["8080", "8080/udp"], ["8080", "[::1]:8080:80"], ["127.0.0.2:8080:80", "8080:80"]])
def test_ports_that_do_not_meet_are_published_side_by_side(ports: list[str]) -> None:
    assert len(net_of(ports=ports).published) == 2
