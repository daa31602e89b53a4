"""Clients with TLS of servers that have none: `upstream_scheme` says what they are spoken to in, nobody else does."""

from __future__ import annotations

from typing import Any

import pytest

from _support.internet import Host, Internet, places
from pysandbox import Cage, Policy

ONLY = {"domain": "origin.example", "ports": [places.CLEAR, places.H2C], "methods": ["GET"]}
CURL = "curl -sS -o /dev/null -w '%{http_version} %{http_code} %header{x-pysandbox-error}' "


def asked(host: Host, line: str, **options: Any) -> str:
    answer = host.run(["sh", "-c", CURL + line], hosts=[ONLY], **options)
    assert answer.exit_code == 0, answer
    return str(answer.stdout)


@pytest.mark.parametrize(
    ("scheme", "line", "said"),
    [
        ("http", f"https://origin.example:{places.CLEAR}/", "1.1 200 "),
        ("http", f"http://origin.example:{places.CLEAR}/", "1.1 200 "),
        ("h2c", f"https://origin.example:{places.H2C}/", "2 200 "),
        ("h2c", f"-X DELETE https://origin.example:{places.H2C}/", "2 415 contract-refused"),
        ("h2c", f"--http1.1 https://origin.example:{places.H2C}/", "1.1 502 upstream-unreachable"),
        ("h2c", f"http://origin.example:{places.H2C}/", "1.1 502 upstream-unreachable"),
        ("http", f"--http2 https://origin.example:{places.CLEAR}/", "1.1 200 "),
        (None, f"https://origin.example:{places.CLEAR}/", "1.1 502 upstream-tls"),
        (None, f"-H 'x-upstream-scheme: http' https://origin.example:{places.CLEAR}/", "1.1 502 upstream-tls"),
    ],
)
def test_a_server_is_spoken_to_as_the_policy_says(
    net_host: Host, net: Internet, scheme: str | None, line: str, said: str
) -> None:
    options = {"proxy_scheme": scheme} if scheme else {}
    assert asked(net_host, line, **options) == said


def test_it_is_told_as_weaker() -> None:
    told = Cage(Policy(hosts=[{**ONLY}], proxy_scheme="h2c")).run(["true"]).notes
    assert [each.key for each in told if each.event == "sandbox.wide_grant"] == ["proxy.upstream_scheme"]
