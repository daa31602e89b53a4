"""A part that is still to come can be read, merged and shown; a cage that would need it is not made."""

from __future__ import annotations

from typing import Any

import pytest

from golden.pretend import notes_of, plan_of
from pysandbox.compile.absent import IDLE
from pysandbox.errors import PolicyError
from pysandbox.policy.model import Policy

HOST = [{"domain": "a.example"}]


@pytest.mark.parametrize(
    ("said", "key", "word"),
    [
        ({"egress": "proxy-only", "hosts": HOST}, "host", "--egress none"),
        ({"egress": "direct", "unsafe_direct": True, "hosts": HOST}, "host", "--egress none"),
        ({"egress": "direct", "unsafe_direct": True, "dlp_enabled": True}, "network.dlp.enabled", "scanned"),
        ({"egress": "proxy-only", "allow_host_loopback": True}, "network.allow_host_loopback", "gatekeeper"),
        ({"ports": ["8080"]}, "network.ports", "gatekeeper"),
        ({"workdir": "cow"}, "filesystem.workdir", "copy-on-write"),
    ],
)
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
