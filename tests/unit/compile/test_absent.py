"""A part that is still to come can be read, merged and shown; a cage that would need it is not made."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any, cast

import pytest

from golden.pretend import notes_of, plan_of
from pysandbox.compile.absent import DEFAULTS, IDLE, PARTS
from pysandbox.compile.canaries import AWS, OWN
from pysandbox.compile.plan import Contract, ScanPlan
from pysandbox.errors import PolicyError
from pysandbox.policy.model import Policy

HOST = [{"domain": "a.example"}]


def with_host(**columns: Any) -> dict[str, Any]:
    return {"egress": "proxy-only", "hosts": [{"domain": "a.example", **columns}]}


@pytest.mark.parametrize(
    ("said", "key", "word"),
    [
        (with_host(methods=["GET"], direct=True), "host.direct", "nothing looks"),
        (with_host(paths=["/v1/"], tls="pass"), "host.tls", "nothing would hold"),
        ({**with_host(max_request_bytes=0), "isolation": "landlock", "run_as": "self"}, "host", "full isolation"),
        ({**with_host(tls="inspect"), "network_backend": "routed"}, "network.backend", "an interface"),
        ({**with_host(), "proxy_timeout_ms": 5}, "proxy.upstream_request_timeout_ms", "hold nothing"),
        ({**with_host(), "proxy_upstream_ca": ["/ca.pem"]}, "proxy.upstream_ca", "hold nothing"),
        (with_host(allow_credentials=["github_pat"]), "host.allow_credentials", "scanned"),
        (with_host(contract_mode="relaxed", direct=True), "host.direct", "nothing looks"),
        ({**with_host(direct=True), "contract_mode": "relaxed"}, "host.direct", "nothing would be direct"),
        ({**with_host(), "contract_mode": "relaxed", "strict": True}, "network.contract_mode", "nobody named"),
        ({"contract_mode": "relaxed", "isolation": "landlock", "run_as": "self"}, "network.contract_mode", "isolation"),
        ({"contract_mode": "relaxed", "network_backend": "routed"}, "network.backend", "an interface"),
        ({**with_host(), "contract_mode": "relaxed", "proxy_parent": "http://p.example:1"}, "network.contract_mode",
         "a parent proxy"),
        ({**with_host(private_addresses=["10.1.0.0/16"]), "proxy_parent": "http://p.example:1"},
         "host.private_addresses", "no_parent"),
        ({**with_host(tls="pass"), "dlp_enabled": True}, "host.tls", "not scanned"),
        ({**with_host(direct=True), "dlp_enabled": True}, "host.direct", "nothing scans"),
        ({**with_host(), "network_backend": "routed", "dlp_enabled": True}, "network.dlp.enabled", "an interface"),
        ({**with_host(), "ports": ["8080"], "dlp_enabled": True}, "network.dlp.enabled", "published port"),
        ({**with_host(), "allow_ips": ["192.0.2.7"], "dlp_enabled": True}, "network.dlp.enabled", "listed address"),
        ({**with_host(), "host_loopback_ports": [1], "dlp_enabled": True}, "network.dlp.enabled", "own services"),
        ({**with_host(), "dlp_enabled": True, "isolation": "landlock", "run_as": "self"},
         "network.dlp.enabled", "full isolation"),
        ({**with_host(), "dlp_canary_tokens": True}, "network.dlp.canary_tokens", "hold nothing"),
        ({**with_host(), "dlp_detectors": [{"name": "acme_token", "pattern": "acme_[a-z]{9}"}]},
         "network.dlp.detector", "hold nothing"),
        ({**with_host(), "dlp_packs": ["gitleaks"]}, "network.dlp.packs", "hold nothing"),
        ({**with_host(), "dlp_decompress": False}, "network.dlp.decompress", "hold nothing"),
        ({**with_host(), "allow_ips": ["192.0.2.7"], "strict": True}, "strict", "listed address"),
        ({**with_host(), "dlp_enabled": True, "strict": True, "dlp_session_entropy_budget": 9},
         "network.dlp.session_entropy_budget", "hold nothing"),
        ({**with_host(tls="pass"), "strict": True}, "host.tls", "leave tls out, or leave strict out"),
        ({**with_host(), "proxy_streamed_bytes": 5}, "proxy.max_streamed_body_bytes", "hold nothing"),
        ({**with_host(), "proxy_no_parent": ["a.example"]}, "proxy.no_parent", "hold nothing"),
        ({**with_host(), "proxy_parent_credentials": "env:LOGIN"}, "proxy.parent_credentials", "hold nothing"),
        ({**with_host(), "proxy_parent": "http://p.example:1", "strict": True}, "proxy.parent", "no address"),
        ({"egress": "direct", "unsafe_direct": True, "proxy_parent": "http://p.example:1"}, "proxy.parent", "own"),
        ({**with_host(), "proxy_scheme": "h2c"}, "proxy.upstream_scheme", "hold nothing"),
        ({**with_host(methods=["GET"]), "proxy_scheme": "h2c", "strict": True}, "proxy.upstream_scheme", "TLS"),
        ({"egress": "direct", "unsafe_direct": True, "hosts": HOST}, "host", "--egress none"),
        ({"egress": "direct", "unsafe_direct": True, "dlp_enabled": True}, "network.dlp.enabled", "scanned"),
        ({"egress": "direct", "unsafe_direct": True, "strict": True}, "strict", "scans"),
        ({"egress": "direct", "unsafe_direct": True, "ports": ["8080"]}, "network.ports", "the host's"),
        ({"ports": ["8080"], "isolation": "landlock", "run_as": "self"}, "network.ports", "namespace"),
        ({"egress": "proxy-only", "allow_host_loopback": True, "isolation": "landlock", "run_as": "self"},
         "network.allow_host_loopback", "allow_ips"),
        ({"egress": "proxy-only", "host_loopback_ports": [1], "isolation": "landlock", "run_as": "self"},
         "network.host_loopback_ports", "allow_ips"),
        ({"workdir": "cow", "storage": "disk", "isolation": "landlock", "run_as": "self"}, "workspace.storage",
         "laid over"),
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


def test_no_part_is_of_what_never_leaves() -> None:
    """So that none is asked where nothing leaves, whatever else a policy says."""
    said = {**DEFAULTS, **with_host(), **SCANNING, "contract_mode": "relaxed", "isolation": "landlock",
            "allow_ips": ("192.0.2.7",), "allow_host_loopback": True, "ports": (80,), "network_backend": "routed",
            "proxy_parent": "http://p.example:1", "secrets": ("a secret",)}  # fmt: skip
    assert any(part.used(cast(Policy, SimpleNamespace(**{**said, "hosts": ()}))) for part in PARTS), "the control"
    for alone in said:
        for others in (DEFAULTS, said):
            quiet = SimpleNamespace(**{**others, alone: said[alone], "egress": "none"})
            assert [part.key for part in PARTS if part.used(cast(Policy, quiet))] == []


def test_nothing_is_said_of_what_nobody_asked_for() -> None:
    assert notes_of(plan_of(Policy(egress="proxy-only", notifier=False)), IDLE) == []


SCANNING = {
    "dlp_enabled": True, "dlp_canary_tokens": True, "dlp_max_decode_depth": 3, "dlp_decompress": False,
    "dlp_dns_entropy_threshold": 0.5, "dlp_bearer": "jwt", "dlp_session_entropy_budget": 1,
    "dlp_extra_scopes": {"github_pat": ["a.example"]}, "strict": True,
    "dlp_packs": ["gitleaks"],
    "dlp_detectors": [{"name": "acme_token", "pattern": "acme_[a-z]{20}"}], "proxy_buffered_bytes": 5,
    "proxy_streamed_bytes": 5, "proxy_timeout_ms": 500, "proxy_scheme": "h2c", "proxy_upstream_ca": ["/ca.pem"],
}  # fmt: skip
OF_THE_PARENT = {"proxy_parent", "proxy_parent_credentials", "proxy_no_parent"}  # which scans nothing
WAYS = [with_host(), {"allow_ips": ["192.0.2.7"]}, {"egress": "proxy-only", "allow_host_loopback": True}]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("asked", SCANNING)
def test_scanning_that_does_not_happen_is_never_promised(asked: str, way: dict[str, Any]) -> None:
    """By whatever way something leaves: each word alone is refused, and by its own name."""
    plan_of(Policy(**way))
    if asked in ("dlp_enabled", "strict") and "hosts" in way:
        return  # the test below
    said = r"in this version|this version cannot do|would hold nothing|is not scanned"
    with pytest.raises(PolicyError, match=said):
        plan_of(Policy(**way, **{asked: SCANNING[asked]}))


def test_where_what_is_sent_is_scanned_every_host_is_looked_at() -> None:
    policy = Policy(**with_host(allow_credentials=["github_pat"]), dlp_enabled=True, dlp_max_decode_depth=40,
                    dlp_extra_scopes={"npm_token": ["b.example"]}, proxy_buffered_bytes=1 << 24)  # fmt: skip
    net = plan_of(policy).net
    assert net is not None and net.inspection is not None
    assert net.inspection.scan == ScanPlan(
        40, 1 << 24, (("npm_token", ("b.example",)),), False, 8192, canaries=(*OWN, *AWS)
    )
    assert [each.contract for each in net.hosts] == [Contract(credentials=("github_pat",))]
    assert plan_of(Policy(**with_host())).net.inspection is None  # type: ignore[union-attr]


def test_a_strict_cage_scans_and_sends_no_opaque_bytes() -> None:
    net = plan_of(Policy(**with_host(), strict=True)).net
    assert net is not None and net.inspection is not None
    assert net.inspection.scan == ScanPlan(
        32, 8 << 20, (), False, 8192, canaries=(*OWN, *AWS), blocks_opaque=True
    )  # fmt: skip
    assert plan_of(Policy(strict=True)).net is None  # the control: nothing leaves


def test_how_it_is_scanned_is_as_the_policy_says_and_strict_takes_every_bearer_token_for_one() -> None:
    words = {"dlp_bearer": "jwt", "dlp_decompress": False, "dlp_dns_entropy_threshold": 0.5}
    found = []
    for more in ({"dlp_enabled": True}, {"strict": True}):
        net = plan_of(Policy(**with_host(), **words, **more)).net  # type: ignore[arg-type]
        assert net is not None and net.inspection is not None and net.inspection.scan is not None
        scan = net.inspection.scan
        found.append((scan.any_bearer, scan.undoes_codings, scan.told_share))
    assert found == [(False, False, 0.5), (True, False, 0.5)]


def test_no_word_of_scanning_is_left_out_here() -> None:
    words = {each.name for each in fields(Policy) if each.name.startswith(("dlp_", "proxy_"))}
    assert words - OF_THE_PARENT == set(SCANNING) - {"strict"}


def test_where_only_addresses_are_reached_what_is_said_of_hosts_is_idle() -> None:
    (note,) = notes_of(plan_of(Policy(allow_ips=["192.0.2.7"], dns_ipv6="nxdomain")), IDLE)
    assert "dns.ipv6" in note and "allow_ips" not in note


def test_none_is_none_whatever_is_listed() -> None:
    plan = plan_of(Policy(egress="none", hosts=HOST, allow_ips=["192.0.2.7"], ports=["8080"]))
    assert plan.net is not None and plan.net.published  # a port leads in, and nothing out (NET-05)
    assert (plan.net.doors, plan.net.hosts, plan.net.endpoints, plan.notify) == ((), (), (), None)
    (note,) = notes_of(plan, IDLE)
    assert "allow_ips" in note and "host" in note
