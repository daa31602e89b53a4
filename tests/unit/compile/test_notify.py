"""compile/notify.py: in the network of the host a list of addresses is all that is reached, whatever else is asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from golden.pretend import MODERN, look, plan_of
from pysandbox import Policy
from pysandbox.compile.notify import CALLS, guarded, notify_plan
from pysandbox.compile.plan import LandlockPlan, LandlockRule, NotifyPlan
from pysandbox.errors import PolicyError, SandboxCompileError, UnsupportedError
from pysandbox.policy.endpoint import ANYWHERE, parse_endpoint, parse_list

LISTED = "203.0.113.7"
DOORS = 111  # the prefix of the addresses that doors have (198.18.0.0/15, IPv4-mapped)
OTHERS = {
    "alone": {},
    "hosts": {"hosts": ["pypi.org"]},
    "watched files": {"why": True},
    "sockets": {"unix_sockets": ["/run/granted"]},
    "monitor": {"monitor": True},
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("isolation, egress", [
    ("full", {"egress": "direct", "unsafe_direct": True}),
    ("landlock", {"egress": "direct", "unsafe_direct": True}),
    ("landlock", {}),
])  # fmt: skip
def test_a_list_is_all_that_is_reached_in_the_network_of_the_host(
    isolation: str, egress: dict[str, object], other: str
) -> None:
    policy = Policy(isolation=isolation, allow_ips=[LISTED], **egress, **OTHERS[other])  # type: ignore[arg-type]
    try:
        notify = plan_of(policy, tree="/mnt/\n/usr/\n/home/ann/project/\n/run/granted=").notify
    except (PolicyError, UnsupportedError):
        assert other != "alone"
        return  # refused by name: nothing is reached
    assert notify is not None
    listed = set(parse_list([LISTED]))
    assert listed <= set(notify.endpoints)
    assert all(each in listed or each.prefix > DOORS for each in notify.endpoints), notify.endpoints


# ---- which calls are decided, and what becomes of them -----------------------------------------------------------

DIRECT: dict[str, Any] = {"egress": "direct", "unsafe_direct": True}
LANDLOCK: dict[str, Any] = {"isolation": "landlock"}
DIRECT_HOST = {"domain": "a.example", "direct": True}
LISTS: dict[str, Any] = {"allow_ips": [LISTED]}
SENT = ("CONNECT", "SENDTO", "SENDMSG")
ALL_OF_THE_NETWORK = ("CONNECT", "BIND", "LISTEN", "SENDTO", "SENDMSG")


def actions(policy: dict[str, Any], watch: str = "", **host: Any) -> NotifyPlan | None:
    made = Policy(**policy)
    return notify_plan(made, replace(MODERN, **host), look(made), frozenset(watch.split()))


@pytest.mark.parametrize(
    ("policy", "watch", "asked"),
    [
        ({}, "", {}),
        ({"allow_execve": ["/usr/bin/env"]}, "", {"EXEC": "TELL"}),
        ({"notifier": True}, "", {"EXEC": "TELL"}),
        ({"scm_rights": "deny"}, "", {"SENDMSG": "LIST"}),
        ({"strict": True}, "", {"SENDMSG": "LIST"}),
        (LISTS, "", dict.fromkeys(ALL_OF_THE_NETWORK, "LIST")),
        (LISTS | DIRECT, "", dict.fromkeys(SENT, "LIST")),
        (LISTS | LANDLOCK, "", dict.fromkeys(SENT, "LIST")),
        (LISTS | {"egress": "none"}, "", {}),
        (LISTS | {"network_backend": "routed"}, "", {}),  # the kernel routes them
        ({"hosts": ["b.example"]}, "", {}),
        ({"hosts": [DIRECT_HOST, "b.example"]}, "", dict.fromkeys(ALL_OF_THE_NETWORK, "LIST")),
        ({"hosts": ["b.example"], **LANDLOCK}, "", {"CONNECT": "LIST"}),
        ({"unix_sockets": ["/run/a"]}, "", {}),
        ({"unix_sockets": ["/run/a"], **LANDLOCK}, "", dict.fromkeys(("CONNECT", "BIND", "LISTEN"), "LIST")),
        ({"workdir": "cow"}, "", {"RENAME": "TELL"}),
        ({"why": True}, "", {"EXEC": "TELL", "OPEN": "TELL", "PATH": "TELL"}),
        ({"monitor": True}, "", {"EXEC": "TELL", "OPEN": "TELL", "PATH": "TELL", "OTHER": "TELL"}),
        ({}, "exec", {"EXEC": "ASK"}),
        ({}, "file", {"OPEN": "ASK"}),
        ({}, "network", dict.fromkeys(("CONNECT", "BIND", "SENDTO", "SENDMSG"), "ASK")),
        (LISTS, "network", dict.fromkeys(("CONNECT", "BIND", "SENDTO", "SENDMSG"), "ASK") | {"LISTEN": "LIST"}),
        ({"why": True}, "exec file", {"EXEC": "ASK", "OPEN": "ASK", "PATH": "TELL"}),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_decided_and_nothing_else(
    policy: dict[str, Any], watch: str, asked: dict[str, str]
) -> None:
    notify = actions(policy, watch)
    assert (dict(notify.actions) if notify is not None else {}) == asked
    if notify is not None:
        assert set(notify.calls) == {call for name in asked for call in CALLS.get(name, ())}
        assert notify.refuse_control is ("strict" in policy or "scm_rights" in policy)
        assert notify.lenient is ("monitor" in policy)


def test_every_spelling_of_a_call_is_decided() -> None:
    """A second call that does the same would go past the first."""
    assert CALLS["EXEC"] == ("execve", "execveat") and CALLS["SENDMSG"] == ("sendmsg", "sendmmsg")
    assert set(CALLS["OPEN"]) == {"open", "creat", "openat"}
    assert [CALLS[each] for each in ("CONNECT", "BIND", "LISTEN", "SENDTO")] == [
        ("connect",), ("bind",), ("listen",), ("sendto",)
    ]  # fmt: skip
    assert set(CALLS["RENAME"]) == {"rename", "renameat", "renameat2"}


@pytest.mark.parametrize(
    ("policy", "reach", "endpoints", "grants", "named"),
    [
        (LISTS, False, (ANYWHERE,), (parse_endpoint(LISTED),), ()),
        (LISTS | DIRECT, False, (parse_endpoint(LISTED),), (), ()),
        (LISTS | LANDLOCK, True, (parse_endpoint(LISTED),), (), ()),
        ({"hosts": [DIRECT_HOST]}, False, (ANYWHERE,), (), (ANYWHERE,)),
        ({"unix_sockets": ["/run/a"], **LANDLOCK}, False, (), (), ()),
        ({"notifier": True}, True, (ANYWHERE,), (), ()),
        ({"notifier": True, **DIRECT}, False, (ANYWHERE,), (), ()),
        ({"notifier": True, **LANDLOCK}, True, (), (), ()),
    ],
)
def test_what_each_list_leads_to(policy: dict[str, Any], reach: bool, endpoints: Any, grants: Any, named: Any) -> None:
    notify = actions(policy)
    assert notify is not None
    assert (notify.no_external_reach, notify.endpoints, notify.grants, notify.named) == (
        reach,
        endpoints,
        grants,
        named,
    )
    assert notify.on_host is notify.keeps_ports is ("isolation" in policy)
    assert notify.abstract is not ("isolation" in policy or "egress" in policy)
    assert notify.landlock_denies_bind is bool(grants or named)


@pytest.mark.parametrize(
    ("policy", "refused"),
    [
        ({"allow_ips": ["127.0.0.1"]}, "a loopback of its own"), ({"allow_ips": ["127.0.0.0/8"]}, "a loopback"),
        ({"allow_ips": ["127.1.0.0/16:80/tcp"]}, "a loopback"), ({"allow_ips": ["[::1]"]}, "a loopback"),
        ({"allow_ips": ["0.0.0.0"]}, "a loopback"), ({"allow_ips": ["[::]"]}, "a loopback"),
        ({"allow_ips": ["198.18.0.0/15"]}, "stand for names"), ({"allow_ips": ["198.19.1.2"]}, "stand for names"),
        ({"allow_ips": ["198.18.0.1"], "hosts": ["a.example"], **LANDLOCK}, "stand for names"),
        ({"allow_ips": ["198.18.0.0/15"], "hosts": ["a.example"], **LANDLOCK}, "stand for names"),
        ({"allow_ips": [f"{LISTED}:53/udp"], **LANDLOCK}, "only TCP"),
        ({"allow_ips": [LISTED], "allow_syscalls": ["io_uring_enter"]}, "a ring would connect"),
    ],
)  # fmt: skip
def test_what_no_list_can_lead_to_is_refused_by_name(policy: dict[str, Any], refused: str) -> None:
    with pytest.raises(SandboxCompileError, match=refused):
        actions(policy)


@pytest.mark.parametrize("policy", [
    {"allow_ips": ["126.0.0.0/7"]}, {"allow_ips": ["198.0.0.0/8"]}, {"allow_ips": ["0.0.0.0/0"]},
    {"allow_ips": ["127.0.0.1"], **DIRECT}, {"allow_ips": ["127.0.0.1"], **LANDLOCK},
    {"allow_ips": ["198.18.0.1"], **LANDLOCK}, {"allow_ips": [f"{LISTED}:53/udp"]},
])  # fmt: skip
def test_what_is_wider_or_in_the_host_s_network_is_not(policy: dict[str, Any]) -> None:
    assert actions(policy) is not None


# ---- the walls behind the supervisor -----------------------------------------------------------------------------


@pytest.mark.parametrize("host", [{"user_notif": False}, {"wait_killable": False}])
@pytest.mark.parametrize(
    ("policy", "watch", "is_lost"),
    [
        (LISTS, "", True), ({"scm_rights": "deny"}, "", True), ({"notifier": True}, "", True), ({}, "exec", True),
        ({"workdir": "cow"}, "", False), ({"why": True}, "", False), ({"allow_execve": ["/usr/bin/env"]}, "", False),
    ],
)  # fmt: skip
def test_what_only_tells_may_be_lost_and_what_decides_may_not(
    policy: dict[str, Any], watch: str, is_lost: bool, host: dict[str, bool]
) -> None:
    if is_lost:
        with pytest.raises(UnsupportedError):
            actions(policy, watch, **host)
        if "notifier" not in policy:
            with pytest.raises(SandboxCompileError, match="switched off"):
                actions({**policy, "notifier": False}, watch)
    else:
        assert actions(policy, watch, **host) is None and actions({**policy, "notifier": False}, watch) is None


def test_a_watch_that_nothing_would_hold_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="Landlock"):
        actions({}, "exec", landlock_abi=0)
    with pytest.raises(SandboxCompileError, match="cannot let a callback decide on files"):
        actions(LANDLOCK, "file")
    assert actions({}, "file", landlock_abi=0) and actions(LANDLOCK, "exec")


@pytest.mark.parametrize(
    ("policy", "watch", "handled", "proc_is_open"),
    [
        ({"notifier": True}, "", (), True), (LISTS | DIRECT, "", ("CONNECT_TCP",), True),
        (LISTS, "", ("BIND_TCP", "CONNECT_TCP"), True), ({}, "exec", (), False), ({}, "file", (), True),
    ],
)  # fmt: skip
def test_landlock_refuses_what_is_not_done_on_behalf(
    policy: dict[str, Any], watch: str, handled: tuple[str, ...], proc_is_open: bool
) -> None:
    own, root = LandlockRule("/proc", ("WRITE_FILE", "TRUNCATE")), LandlockRule("/", ("READ_FILE",))
    tree = LandlockRule("/proc", ("READ_FILE", "WRITE_FILE"))  # a tree of the host's that was granted
    plan = LandlockPlan(handled_fs=("READ_FILE",), handled_net=(), scoped=(), rules=(root, own, tree))
    notify = actions(policy, watch)
    walled = guarded(plan, notify, 7)
    assert walled is not None and set(walled.handled_net) == set(handled)
    assert walled.rules == ((root, own, tree) if proc_is_open else (root, tree))
    kept = guarded(replace(plan, handled_net=("BIND_TCP",)), notify, 7)
    assert kept is not None and "BIND_TCP" in kept.handled_net
    assert guarded(None, notify, 7) is None and guarded(plan, None, 7) == plan
    old = guarded(plan, notify, 3)  # before there were rules on ports
    assert old is not None and old.handled_net == ()
