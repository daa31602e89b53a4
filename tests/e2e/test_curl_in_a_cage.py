"""A real client in a real cage, by each way out that there is: an HTTP proxy, SOCKS5, and none at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from _support.doors import server
from _support.sockets import everything
from e2e.test_streams import Origin
from pysandbox import Cage, Event, Policy
from pysandbox.policy.names import HOST_ALIAS
from pysandbox.runtime.runtime import Runtime

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="curl is missing: apt-get install curl")

POLICY = Policy(egress="proxy-only", allow_host_loopback=True)
WAYS = {
    "http": ["--proxy", "http://198.18.0.1:3128"],
    "connect": ["--proxytunnel", "--proxy", "http://198.18.0.1:3128"],
    "socks5h": ["--proxy", "socks5h://198.18.0.1:1080"],
    "no proxy": ["--noproxy", "*"],
    "the environment": [],
}


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def runtime(told: list[Event]) -> Iterator[Runtime]:
    made = Runtime(sink=told.append)
    yield made
    made.drain()


def curl(cage: Cage, *words: str) -> tuple[int, str]:
    result = cage.run(["/usr/bin/curl", "-sS", "--fail", "-m", "20", *words], timeout=30)
    return result.exit_code or 0, result.stdout


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_it_reaches_what_is_allowed_and_nothing_else(runtime: Runtime, told: list[Event], way: list[str]) -> None:
    origin = Origin()
    with server(origin) as port, Cage(POLICY, runtime=runtime) as cage:
        assert curl(cage, *way, f"http://{HOST_ALIAS}:{port}/") == (0, "hi")
        assert curl(cage, *way, f"http://evil.example:{port}/")[0] != 0
        assert curl(cage, *way, f"http://127.0.0.2:{port}/")[0] != 0
    assert len(origin.heads) == 1
    assert any("evil.example" in str(each.data) for each in told if each.type.endswith("denied"))


def test_another_host_in_the_request_is_refused(runtime: Runtime) -> None:
    origin = Origin()
    with server(origin) as port, Cage(POLICY, runtime=runtime) as cage:
        url = f"http://{HOST_ALIAS}:{port}/"
        assert curl(cage, "--noproxy", "*", url)[0] == 0, "control"
        assert curl(cage, "--noproxy", "*", "-H", "Host: evil.example", url)[0] != 0
        assert curl(cage, "--proxytunnel", "--proxy", "http://198.18.0.1:3128", "-H", "Host: evil.example", url)[0] != 0
    assert len(origin.heads) == 1


def test_a_large_download_arrives_whole(runtime: Runtime) -> None:
    size = 20_000_000

    def large(client: object) -> None:
        import socket

        assert isinstance(client, socket.socket)
        client.recv(65536)
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
        everything(client)

    with server(large) as port, Cage(POLICY, runtime=runtime) as cage:
        for way in WAYS.values():
            code, counted = curl(
                cage, *way, "-o", "/dev/null", "-w", "%{size_download}", f"http://{HOST_ALIAS}:{port}/"
            )
            assert (code, counted) == (0, str(size))
