"""Real clients of HTTP/2 and gRPC against nginx and a server of gRPC, with every request looked at: they speak HTTP/2
with their server as they do without a cage, and each request is held to the contract."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.internet import Host, Internet, places
from _support.internet.space import demand
from pysandbox.dlp import registry

from .test_inspected_hosts import NO_CA

AT = f"https://origin.example:{places.HTTP2}"
CURL = "curl -sS --http2 -o /dev/null -w '%{http_version} %{http_code} %header{x-pysandbox-rule}\\n'"
ONLY = {"domain": "origin.example", "ports": [places.HTTP2, places.GRPC], "methods": ["GET", "POST"]}
SEEN = [sys.prefix, sys.base_prefix]
HTTPX = """
import asyncio, httpx, sys
async def main():
    async with httpx.AsyncClient(http2=True) as client:
        said = await asyncio.gather(*(client.get(f"{sys.argv[1]}/bulk?{each}") for each in range(40)))
        refused = await client.delete(sys.argv[1] + "/")
        print({each.http_version for each in said}, {each.status_code for each in said},
              {len(each.content) for each in said}, refused.status_code, refused.headers["x-pysandbox-error"])
asyncio.run(main())
"""
GRPC = """
import grpc, os, queue, sys
roots = open(os.environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"], "rb").read()
with grpc.secure_channel(sys.argv[1], grpc.ssl_channel_credentials(roots)) as channel:
    say = channel.unary_unary("/test.Echo/Say")
    said, call = say.with_call(b"x" * 100_000, timeout=30)
    print(len(said), dict(call.trailing_metadata())["x-said"])
    print([int(each) for each in channel.unary_stream("/test.Echo/Count")(b"5", timeout=30)])
    talk = channel.stream_stream("/test.Echo/Talk")
    print([bytes(each) for each in talk(iter([b"a", b"b"]), timeout=30)])
    says = queue.Queue()
    heard = talk(iter(says.get, None), timeout=30)
    for word in (b"ping", b"pong", b"ping again"):  # each waits for the answer to the one before
        says.put(word)
        print(next(heard))
    says.put(os.environ["KEY"].encode())
    try:
        print(next(heard))
    except grpc.RpcError as error:
        print(error.code().name)
    says.put(None)
    try:
        channel.unary_unary("/test.Other/Say")(b"x", timeout=30)
    except grpc.RpcError as error:
        print(error.code().name, error.details())
"""


@pytest.fixture
def grpc_server(net: Internet) -> Iterator[str]:
    pytest.importorskip("grpc")
    program = Path(__file__).with_name("programs") / "grpc_server.py"
    tls = net.top / "tls"
    argv = [
        sys.executable,
        str(program),
        f"{places.ORIGIN}:{places.GRPC}",
        str(tls / "origin.crt"),
        str(tls / "origin.key"),
    ]
    with net.serving(argv):
        yield f"origin.example:{places.GRPC}"


def test_curl_speaks_http2_and_is_held_request_by_request(net_host: Host, net: Internet) -> None:
    demand("curl")
    script = f"cd /tmp; {CURL} {AT}/ -o /dev/null {AT}/bulk; {CURL} -X DELETE {AT}/; {CURL} --http1.1 {AT}/"
    answer = net_host.run(["sh", "-c", script], env=NO_CA, proxy_upstream_ca=[net.ca], hosts=[ONLY])
    assert answer.stdout.splitlines() == ["2 200 ", "2 200 ", "2 415 host.methods", "1.1 200 "], answer
    assert [(each["kind"], each["rule"]) for each in answer.denials] == [("http", "host.methods")]
    assert len(net.requests("origin")) == 3

    control = net_host.run(["sh", "-c", script], env={**NO_CA, "CURL_CA_BUNDLE": net.ca}, allow=[str(net.top / "tls")],
                           hosts=[{"domain": "origin.example", "ports": [places.HTTP2]}])  # fmt: skip
    assert [line[:5] for line in control.stdout.splitlines()] == ["2 200", "2 200", "2 405", "1.1 2"], control


def test_many_requests_of_one_connection_pass_side_by_side(net_host: Host, net: Internet) -> None:
    pytest.importorskip("h2")
    answer = net_host.run([sys.executable, "-c", HTTPX, AT], env=NO_CA, proxy_upstream_ca=[net.ca], hosts=[ONLY],
                          allow=SEEN)  # fmt: skip
    assert answer.stdout.strip() == "{'HTTP/2'} {200} {1048576} 415 contract-refused", answer
    assert len(net.requests("origin")) == 40


def test_a_credential_in_a_request_of_http2_never_arrives(net_host: Host, net: Internet) -> None:
    demand("curl")
    token = registry.BY_NAME["github_pat"].hits[0].decode()
    script = f"{CURL} {AT}/; {CURL} -H 'X-Key: {token}' {AT}/; {CURL} -d 'key={token}' {AT}/; {CURL} '{AT}/?{token}'"
    answer = net_host.run(["sh", "-c", script], env=NO_CA, proxy_upstream_ca=[net.ca], dlp_enabled=True,
                          hosts=[{"domain": "origin.example", "ports": [places.HTTP2]}])  # fmt: skip
    assert answer.stdout.splitlines() == ["2 200 ", *["2 451 dlp.github_pat"] * 3], answer
    assert len(net.requests("origin")) == 1 and token not in str(net.requests("origin"))


def test_a_secret_is_put_into_its_place_of_a_stream_and_refused_in_any_other(
    net_host: Host, net: Internet, tmp_path: Path
) -> None:
    demand("curl")
    value = "npm_" + "Val5eOfAStream" * 2
    file = tmp_path / "token"
    file.write_text(value)
    for each in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        each.chmod(0o755)
    secret = {"name": "TOKEN", "from": f"file:{file}", "hosts": ["origin.example"], "in": ["query:key"]}
    elsewhere = (f'-H "X-Key: $TOKEN" {AT}/', f"{AT}/$TOKEN")
    asks = (f'"{AT}/?key=$TOKEN"', *elsewhere, f'--http1.1 "{AT}/?key=$TOKEN"')
    script = "\n".join([*(f"{CURL} {each}" for each in asks), "echo $TOKEN"])
    answer = net_host.run(["sh", "-c", script], env=NO_CA, proxy_upstream_ca=[net.ca], secrets=[secret],
                          hosts=[{"domain": "origin.example", "ports": [places.HTTP2]}])  # fmt: skip
    *lines, placeholder = answer.stdout.splitlines()
    assert lines == ["2 200 ", *["2 451 secret.in"] * 2, "1.1 200 "], answer
    assert value not in answer.stdout and placeholder.startswith("npm_")
    assert [line.count(value) for line in net.requests("origin")] == [1, 1]
    assert not any(placeholder in line for line in net.requests("origin"))


@pytest.mark.parametrize("scanned", [False, True])
def test_grpc_works_and_is_refused_in_its_own_status(
    scanned: bool, grpc_server: str, net_host: Host, net: Internet
) -> None:
    rule = {**ONLY, "paths": ["/test.Echo/"]}
    key = registry.BY_NAME["github_pat"].hits[0].decode()
    answer = net_host.run([sys.executable, "-c", GRPC, grpc_server], env={**NO_CA, "KEY": key},
                          proxy_upstream_ca=[net.ca], hosts=[rule], dlp_enabled=scanned, allow=SEEN)  # fmt: skip
    lines = answer.stdout.splitlines()
    assert lines[:3] == ["100000 100000", "[0, 1, 2, 3, 4]", "[b'A', b'B']"], answer
    assert lines[3:6] == ["b'PING'", "b'PONG'", "b'PING AGAIN'"], answer
    assert lines[6] == ("INTERNAL" if scanned else repr(key.upper().encode())), answer
    assert lines[7].startswith("PERMISSION_DENIED pysandbox: the path /test.Other/Say is not allowed"), answer
