"""A part that is still to come can be read, merged and shown; a cage that would need it is not made."""

from __future__ import annotations

from typing import Any

import pytest

from golden.pretend import notes_of, plan_of
from pysandbox.compile.absent import IDLE
from pysandbox.errors import PolicyError
from pysandbox.policy.model import Policy

HOST = [{"domain": "a.example"}]


def with_host(**columns: Any) -> dict[str, Any]:
    return {"egress": "proxy-only", "hosts": [{"domain": "a.example", **columns}]}


@pytest.mark.parametrize(
    ("said", "key", "word"),
    [
        (with_host(methods=["GET"]), "host.methods", "looked at"),
        (with_host(content_types=["text/plain"]), "host.content_types", "looked at"),
        (with_host(paths=["/v1/"]), "host.paths", "looked at"),
        (with_host(max_request_bytes=0), "host.max_request_bytes", "looked at"),
        (with_host(allow_credentials=["github_pat"]), "host.allow_credentials", "scanned"),
        (with_host(contract_mode="relaxed"), "host.contract_mode", "refused"),
        ({**with_host(), "contract_mode": "relaxed"}, "network.contract_mode", "block"),
        ({**with_host(), "dlp_enabled": True}, "network.dlp.enabled", "looked at"),
        ({**with_host(), "dlp_canary_tokens": True}, "network.dlp.canary_tokens", "looked at"),
        ({**with_host(), "strict": True}, "strict", "scans"),
        ({**with_host(), "proxy_streamed_bytes": 5}, "proxy.max_streamed_body_bytes", "looked at"),
        ({**with_host(), "proxy_scheme": "h2c"}, "proxy.upstream_scheme", "looked at"),
        ({"egress": "direct", "unsafe_direct": True, "hosts": HOST}, "host", "--egress none"),
        ({"egress": "direct", "unsafe_direct": True, "dlp_enabled": True}, "network.dlp.enabled", "scanned"),
        ({"egress": "direct", "unsafe_direct": True, "ports": ["8080"]}, "network.ports", "the host's"),
        ({**with_host(), "isolation": "landlock", "run_as": "self"}, "network.egress", "allow_ips"),
        ({"ports": ["8080"], "isolation": "landlock", "run_as": "self"}, "network.ports", "namespace"),
        ({"egress": "proxy-only", "allow_host_loopback": True, "isolation": "landlock", "run_as": "self"},
         "network.allow_host_loopback", "allow_ips"),
        ({"egress": "proxy-only", "host_loopback_ports": [1], "isolation": "landlock", "run_as": "self"},
         "network.host_loopback_ports", "allow_ips"),
        ({"workdir": "cow"}, "filesystem.workdir", "copy-on-write"),
    ],
)  # fmt: skip
def test_what_needs_an_absent_part_is_refused_by_name(said: dict[str, Any], key: str, word: str) -> None:
    policy = Policy(**said)
    assert Policy.parse(policy.to_toml()) == policy
    with pytest.raises(PolicyError) as caught:
        plan_of(policy)
    assert caught.value.key == key
    assert word in str(caught.value)


@pytest.mark.parametrize(
    "said",
    [
        {"egress": "none", "hosts": HOST, "dlp_enabled": True, "allow_host_loopback": True},
        {**with_host(methods=["GET"]), "egress": "none", "host_loopback_ports": [5432]},
        {"egress": "proxy-only", "dlp_enabled": True},  # no host is allowed, so there is no network at all (T06)
        {"egress": "none", "proxy_timeout_ms": 5, "contract_mode": "relaxed"},
    ],
)
def test_without_a_way_out_the_same_words_are_idle_and_said_to_be(said: dict[str, Any]) -> None:
    plan = plan_of(Policy(**said))
    assert "NET" in plan.namespaces
    (note,) = notes_of(plan, IDLE)
    assert "no way out" in note


def test_nothing_is_said_of_what_nobody_asked_for() -> None:
    assert notes_of(plan_of(Policy(egress="proxy-only", notifier=False)), IDLE) == []


def test_what_only_the_inspection_of_requests_would_use_is_said_to_be_idle() -> None:
    plan = plan_of(Policy(**with_host(), proxy_timeout_ms=5, dlp_decompress=False))
    (note,) = notes_of(plan, IDLE)
    assert "proxy.upstream_request_timeout_ms" in note and "network.dlp.decompress" in note and "domain" not in note


def test_hosts_beside_addresses_alone_are_said_to_be_idle() -> None:
    policy = Policy(hosts=HOST, dns_ipv6="resolve", ports=["8080"])
    plan = plan_of(policy)
    assert plan.net is not None and plan.net.hosts == ()
    (note,) = notes_of(plan, IDLE)
    assert "host" in note
