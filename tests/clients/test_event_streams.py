"""Real clients of a stream of events, with every request looked at: each event is there when it was said, although its
answer goes on. A proxy that waited for more of it, or for its end, would have neither."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.internet import Host, Internet, places
from _support.internet.space import demand

from .table import WAYS

PROGRAMS = Path(__file__).with_name("programs")
AT = "https://origin.example:8443"
CURL = f"""curl -sSfN {AT}/events | while read -r word number; do
    [ -z "$word" ] || echo "$number"
    case $number in [0-9]) curl -sSf {AT}/seen/$number </dev/null ;; esac
done"""
HTTPX = f"""
import httpx
with httpx.Client() as client, client.stream("GET", "{AT}/events", timeout=60) as answer:
    for line in answer.iter_lines():
        word, _, number = line.partition(" ")
        if word:
            print(number, flush=True)
        if number.isdigit():
            client.get(f"{AT}/seen/{{number}}").raise_for_status()
"""
NODE = f"""(async () => {{
    const answer = await fetch("{AT}/events");
    for await (const part of answer.body)
        for (const [, number] of new TextDecoder().decode(part).matchAll(/data: (\\w+)/g)) {{
            console.log(number);
            if (number !== "over") await fetch("{AT}/seen/" + number);
        }}
}})()"""
CLIENTS = {
    "curl": ("curl", ["sh", "-c", CURL], {}),
    "httpx": ("", [sys.executable, "-c", HTTPX], {}),
    "node": ("node", ["node", "-e", NODE], {"address_space_gb": 0}),  # its parser is WebAssembly
}


@pytest.fixture
def events(net: Internet) -> Iterator[None]:
    keys = net.top / "tls"
    server = [sys.executable, str(PROGRAMS / "events_server.py"), places.ORIGIN, str(keys / "origin.crt"),
              str(keys / "origin.key")]  # fmt: skip
    with net.serving(server):
        yield


@pytest.mark.usefixtures("events")
@pytest.mark.parametrize("scanned", [False, True])
@pytest.mark.parametrize("client", CLIENTS)
def test_each_event_is_there_when_it_was_said(client: str, scanned: bool, net_host: Host, net: Internet) -> None:
    needs, command, more = CLIENTS[client]
    demand(*([needs] if needs else ()))
    answer = net_host.run(
        ["sh", "-c", f'{WAYS["none"]}; exec "$@"', "sh", *command], allow=[sys.prefix, sys.base_prefix],
        env={"HOME": "/tmp"}, proxy_upstream_ca=[net.ca], dlp_enabled=scanned, **more,
        hosts=[{"domain": "origin.example", "ports": [8443], "methods": ["GET"]}],
    )  # fmt: skip

    assert answer.stdout.split() == ["0", "1", "2", "over"], answer
    assert not answer.denials, answer
