"""`[proxy] parent` as it is written, and what a Plan says of it."""

from __future__ import annotations

from typing import Any

import pytest

from golden.pretend import notes_of, plan_of
from pysandbox import Policy
from pysandbox.compile.absent import IDLE
from pysandbox.compile.notes import WIDE_GRANT
from pysandbox.errors import PolicyError
from pysandbox.policy.parent import ParentProxy

OUT: dict[str, Any] = {"egress": "proxy-only", "hosts": [{"domain": "a.example"}]}
PARENT = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (PARENT, PARENT), ("HTTP://Proxy.Example.:3128/", PARENT), ("http://10.1.2.3:8080", "http://10.1.2.3:8080"),
        ("http://[::1]:80", "http://[::1]:80"),
    ],
)  # fmt: skip
def test_a_parent_has_one_spelling(said: str, kept: str) -> None:
    assert Policy(**OUT, proxy_parent=said).proxy_parent == kept


@pytest.mark.parametrize(
    "said",
    ["proxy.example:3128", "https://proxy.example:3128", "socks5://proxy.example:1080", "http://proxy.example", "",
     "http://:3128", "http://proxy.example:0", "http://proxy.example:65536", "http://proxy.example:3128/x",
     "http://pro xy:1", "http://a.example:1?x", "http://*.example:3128"],
)  # fmt: skip
def test_what_is_no_proxy_is_refused(said: str) -> None:
    with pytest.raises(PolicyError) as caught:
        Policy(**OUT, proxy_parent=said)
    assert caught.value.key == "proxy.parent"


def test_a_password_is_refused_and_not_repeated() -> None:
    for words in (
        {"proxy_parent": "http://me:hunter2@proxy.example:3128"},
        {"proxy_parent": PARENT, "proxy_parent_credentials": "me:hunter2"},
        {"proxy_parent": PARENT, "proxy_parent_credentials": "file:/hunter2"},
    ):
        with pytest.raises(PolicyError, match="a policy holds no password") as caught:
            Policy(**OUT, **words)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ({"proxy_parent_credentials": "env:LOGIN"}, "proxy.parent_credentials"),
        ({"proxy_no_parent": ["b.example"]}, "proxy.no_parent"),
        ({"proxy_parent": PARENT, "strict": True}, "proxy.parent"),
        ({"proxy_parent": "http://a.example:3128"}, "proxy.parent"),
        ({"proxy_parent": PARENT, "network_backend": "routed"}, "proxy.parent"),
    ],
)
def test_what_holds_nothing_or_too_little_is_refused(words: dict[str, Any], key: str) -> None:
    with pytest.raises(PolicyError) as caught:
        plan_of(Policy(**{**OUT, **words}))
    assert caught.value.key == key


def test_a_plan_says_what_is_asked_of_whom_and_what_that_takes_away() -> None:
    policy = Policy(
        **OUT, proxy_parent=PARENT, proxy_parent_credentials="env:LOGIN", proxy_no_parent=["*.in.example"],
        env_passthrough=["LOGIN", "HOME"],
    )  # fmt: skip
    plan = plan_of(policy)
    assert plan.net is not None
    assert plan.net.parent == ParentProxy("proxy.example", 3128, "LOGIN", ("*.in.example",))
    (note,) = notes_of(plan, WIDE_GRANT)
    assert "proxy.example:3128" in note and "checked" in note


def test_without_a_parent_nothing_is_told_of_one() -> None:
    plan = plan_of(Policy(**OUT))
    assert plan.net is not None and plan.net.parent is None and notes_of(plan, WIDE_GRANT) == []


def test_where_no_name_is_reached_a_parent_says_nothing() -> None:
    plan = plan_of(Policy(egress="proxy-only", allow_ips=["192.0.2.7"], proxy_parent=PARENT))
    (note,) = notes_of(plan, IDLE)
    assert "proxy.parent" in note and plan.net is not None and plan.net.parent is None
