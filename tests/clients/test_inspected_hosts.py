"""Real clients and hosts whose requests are looked at: each trusts the cage's authority by itself, and is refused what
its block does not allow."""

from __future__ import annotations

import glob
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from _support.internet import Answer, Host, Internet, places
from _support.internet.space import demand

from .table import TRIED, WAYS, Client
from .test_real_clients import PROGRAMS, built, demand_all, named

__all__ = ["built"]

NO_CA = {"HOME": "/tmp", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PYTHONUTF8": "1"}
NOT_HTTP = ("dig", "dig, TCP")
SPEAKING = [(client, way) for client, way in TRIED if client.name not in NOT_HTTP]


def ask(
    client: Client, way: str, net_host: Host, net: Internet, built: Path, more: Mapping[str, Any] | None = None,
    **rule: object,
) -> Answer:  # fmt: skip
    demand_all(client)
    script = client.script.format(at=client.allowed, programs=PROGRAMS, built=built)
    seen = [sys.prefix, sys.base_prefix, str(built), str(PROGRAMS), *glob.glob("/etc/java-*")]
    return net_host.run(
        ["sh", "-c", f"{WAYS[way]}; {script}"], env=NO_CA, allow=seen, proxy_upstream_ca=[net.ca],
        hosts=[{"domain": each, **rule} for each in places.SITES], **client.policy, **(more or {}),
    )  # fmt: skip


@pytest.mark.parametrize(("client", "way"), SPEAKING, ids=named)
def test_a_client_is_served_as_without(client: Client, way: str, net_host: Host, net: Internet, built: Path) -> None:
    answer = ask(client, way, net_host, net, built, methods=["GET", "HEAD", "POST"])

    assert (answer.exit_code, client.marker in answer.stdout) == (0, True), answer
    assert not [each for each in answer.denials if each["kind"] == "http"], answer
    assert net.requests("origin")


@pytest.mark.parametrize(("client", "way"), SPEAKING, ids=named)
def test_what_the_block_refuses_never_arrives(
    client: Client, way: str, net_host: Host, net: Internet, built: Path
) -> None:
    answer = ask(client, way, net_host, net, built, methods=["DELETE"])

    assert client.marker not in answer.stdout, answer
    assert "host.methods" in {each["rule"] for each in answer.denials}, answer
    assert all(each["target"].count("://") == 1 for each in answer.denials if each["kind"] == "http"), answer
    assert net.requests("origin") == []


@pytest.mark.parametrize(("url", "target"), [
    (f"https://origin.example:{places.HTTP2}/a", f"https://origin.example:{places.HTTP2}/a"),
    ("https://origin.example/a", "https://origin.example/a"), ("http://origin.example/a", "http://origin.example/a"),
])  # fmt: skip
def test_what_was_refused_is_named_by_its_url(url: str, target: str, net_host: Host, net: Internet) -> None:
    demand("curl")
    answer = net_host.run(["curl", "-sS", "-X", "DELETE", url], proxy_upstream_ca=[net.ca],
                          hosts=[{"domain": "origin.example", "methods": ["GET"]}])  # fmt: skip

    assert [each["target"] for each in answer.denials] == [f"DELETE {target}"], answer
