"""A server in a cage: redis, asked by redis-benchmark and by a few bytes of its protocol, through a published port."""

from __future__ import annotations

import json

from _support.internet import Internet
from _support.internet.host import host_program
from _support.internet.space import demand

PORT, INSIDE = 16379, 6379
HOST = """
import json, socket, subprocess, sys, time
from pysandbox import Cage, Policy, Runtime, DEVNULL
outside, inside = json.loads(sys.argv[1])
events = []
runtime = Runtime(warm=0, sink=lambda event: events.append(event.type))
server = ["redis-server", "--port", str(inside), "--save", "", "--appendonly", "no", "--protected-mode", "no"]

def ask(line):
    with socket.create_connection(("127.0.0.1", outside), 5) as s:
        s.sendall(line + b"\\r\\n")
        return s.recv(1000).decode()

def answers(line):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            if answer := ask(line):
                return answer
        except OSError:
            pass
        time.sleep(0.02)
    return ""

with Cage(Policy(ports=(f"{outside}:{inside}",)), runtime=runtime) as cage:
    with cage.spawn(server, cwd="/tmp", stdin=DEVNULL, stdout=DEVNULL):
        said = [answers(b"PING"), ask(b"SET word cage"), ask(b"GET word")]
        load = ["redis-benchmark", "-p", str(outside), "-t", "set,get", "-n", "2000", "-c", "50", "--csv"]
        done = subprocess.run(load, capture_output=True, text=True, timeout=60)
        said.append(done.stdout)
try:
    ask(b"PING")
    said.append("still there")
except ConnectionError:  # refused, or reset by the gatekeeper that was just closing the port
    said.append("gone")
print(json.dumps(said), flush=True)
"""


def test_redis_behind_a_published_port(net: Internet) -> None:
    demand("redis-server", "redis-benchmark")

    with host_program(net.space, HOST, json.dumps([PORT, INSIDE])) as process:
        assert process.stdout is not None
        line = process.stdout.readline()

    assert line, "the host has ended without a word"
    ping, kept, word, benchmark, afterwards = json.loads(line)
    assert (ping, kept, word) == ("+PONG\r\n", "+OK\r\n", "$4\r\ncage\r\n")
    assert [test.split(",")[0] for test in benchmark.splitlines()[1:]] == ['"SET"', '"GET"']
    assert afterwards == "gone"
