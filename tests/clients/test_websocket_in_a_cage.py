"""A WebSocket of a real client to a real server, looked at on its way: websockets on both sides, by each way out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from _support.internet import Answer, Host, Internet, places
from _support.internet.space import demand

from .table import WAYS

PROGRAMS = Path(__file__).with_name("programs")
NAME = "origin.example"
SECURE, PLAIN = f"wss://{NAME}:8443/chat", f"ws://{NAME}:8080/chat"
BY = pytest.mark.parametrize("way", ["none", "http"])
pytest.importorskip("websockets", reason="pip install '.[test]'")


@pytest.fixture
def log(net: Internet, tmp_path: Path) -> Iterator[Path]:
    """What the server was sent."""
    keys = net.top / "tls"
    file = net.top / f"websocket-{tmp_path.name}"
    server = [sys.executable, str(PROGRAMS / "websocket_server.py"), places.ORIGIN, str(keys / "origin.crt"),
              str(keys / "origin.key"), str(file)]  # fmt: skip
    with net.serving(server):
        yield file


def ask(net_host: Host, net: Internet, url: str, *messages: str, way: str = "none", **rule: object) -> Answer:
    client = [sys.executable, str(PROGRAMS / "websocket_client.py"), url, *messages]
    return net_host.run(
        ["sh", "-c", f'{WAYS[way]}; exec "$@"', "sh", *client], allow=[sys.prefix, sys.base_prefix, str(PROGRAMS)],
        proxy_upstream_ca=[net.ca], hosts=[{"domain": NAME, "tls": "inspect", **rule}],
    )  # fmt: skip


def heard(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def rules(answer: Answer) -> list[str]:
    return [each["rule"] for each in answer.denials if each["kind"] == "http"]


@BY
@pytest.mark.parametrize("url", [SECURE, PLAIN])
def test_messages_of_any_size_pass_both_ways(url: str, way: str, net_host: Host, net: Internet, log: Path) -> None:
    answer = ask(net_host, net, url, "hello", "bytes:3000000", "big 3000000", "count 300", "wait:299", way=way,
                 websocket=True)  # fmt: skip

    lines = answer.stdout.splitlines()
    assert lines == ["chat []", "hello", "3000000", "3000003", "0", "299", "1000"], answer
    assert [each["size"] for each in heard(log)[1:]] == [5, 3000000, 11, 9]
    assert "Sec-WebSocket-Extensions" not in heard(log)[0]["fields"]
    assert rules(answer) == []


def test_node_s_own_client_is_served(net_host: Host, net: Internet, log: Path) -> None:
    """undici, which asks for compression by itself."""
    demand("node")
    node = ["node", "--experimental-websocket", "-e"]
    if subprocess.run([*node, "0"], capture_output=True).returncode:
        pytest.skip("node has no WebSocket before 20.10")
    script = f"""const socket = new WebSocket("{SECURE}", "chat");
    socket.onopen = () => socket.send("hello");
    socket.onmessage = (said) => {{ console.log(said.data, "[" + socket.extensions + "]"); socket.close(1000); }};
    socket.onclose = (said) => console.log(said.code);
    socket.onerror = (said) => console.log("failed", said.message);"""
    answer = net_host.run(
        ["sh", "-c", f'{WAYS["none"]}; exec "$@"', "sh", *node, script], proxy_upstream_ca=[net.ca], address_space_gb=0,
        hosts=[{"domain": NAME, "tls": "inspect", "websocket": True}],
    )  # fmt: skip

    assert answer.stdout == "hello []\n1000\n", answer
    assert [each["size"] for each in heard(log)[1:]] == [5]


def test_a_host_whose_block_does_not_say_so_is_asked_for_none(net_host: Host, net: Internet, log: Path) -> None:
    answer = ask(net_host, net, SECURE, "hello")

    assert answer.stdout == "415 host.websocket\n", answer
    assert rules(answer) == ["host.websocket"] and heard(log) == []
    assert "websocket = true" in answer.denials[0]["fix"]


def test_a_message_past_the_block_s_size_closes_it(net_host: Host, net: Internet, log: Path) -> None:
    answer = ask(net_host, net, SECURE, "bytes:100", "bytes:101", websocket=True, max_request_bytes=100)

    lines = answer.stdout.splitlines()
    assert lines[-1].startswith("1009 pysandbox: contract-refused: a body of more than 100 bytes"), answer
    assert [each["size"] for each in heard(log)[1:]] == [100]
    assert rules(answer) == ["host.max_request_bytes"]


def test_a_path_that_the_block_does_not_name_is_refused(net_host: Host, net: Internet, log: Path) -> None:
    answer = ask(net_host, net, SECURE, "hello", websocket=True, paths=["/v1/"])

    assert answer.stdout == "415 host.paths\n", answer
    assert heard(log) == []
