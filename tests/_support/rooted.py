"""A host that is root in a network of its own, with an internet behind it: what tests of the routed back end run in.

`on_a_host(source)` runs Python below `unshare -Urn`: any user is root there, over that network alone. The script has
`internet`, a second namespace behind a pair of interfaces, where UDP and TCP to an address of PLACES and a port of
PORTS are echoed. A packet socket there is the witness: `internet.seen()` is every IPv4 packet that
arrived since it was last asked, as (protocol, source, destination, port).
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

from _support.cage import reported

HOST, GATEWAY = "203.0.113.1", "203.0.113.254"
LISTED, OTHER, METADATA, PRIVATE = "203.0.113.10", "203.0.113.20", "169.254.169.254", "10.9.9.9"
PLACES = (GATEWAY, LISTED, OTHER, METADATA, PRIVATE)
PORTS = (7, 9, 53)
PRELUDE = """
import contextlib, json, os, sys
from _support.rooted import *
from _support.cage import cage_python, uncaged_python
from pysandbox import Cage, Policy
from pysandbox.gate.routed import Attachment
from pysandbox.runtime.runtime import Runtime

def report(value):
    print("\\n" + json.dumps(value), flush=True)

def routed(*allow_ips, **more):
    return Policy(egress="proxy-only", network_backend="routed", allow_ips=allow_ips, **more)

stack = contextlib.ExitStack()
internet = stack.enter_context(Internet())
"""
# For scripts that run in a cage: each gives what came back, or the errno, or "silence".
SENDERS = """
import socket, struct, select
from concurrent.futures import ThreadPoolExecutor
def together(*calls):
    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(lambda call: call[0](*call[1:]), calls))
def answer(s):
    ready, _, _ = select.select([s], [], [], 2)
    if not ready:
        return "silence"
    got, whom = s.recvfrom(65536)
    return len(got)
def tried(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
def udp(to, port, size=4, source=None):
    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            if source:
                s.bind((source, 0))
            s.sendto(b"x" * size, (to, port))
            return answer(s)
    return tried(send)
def tcp(to, port):
    def send():
        with socket.socket() as s:
            s.settimeout(2)
            try:
                s.connect((to, port))
                s.sendall(b"ping")
                return len(s.recv(64))
            except TimeoutError:
                return "silence"
    return tried(send)
def ping(to):
    def send():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as s:
            s.connect((to, 0))
            s.send(struct.pack("!BBHHH", 8, 0, 0, 0, 1) + b"ping")
            return answer(s)
    return tried(send)
"""
EVERY_WAY = f"""{SENDERS}
place = sys.argv[1]
answers = together((udp, place, 7), (udp, place, 7, 5000), (tcp, place, 7), (ping, place))
report(answers)
"""


def on_a_host(source: str, *, timeout: float = 60) -> Any:
    """What the script reported."""
    done = _run(f"{PRELUDE}{source}\nstack.close()\n", timeout)
    return reported(done.stdout, f"exit code {done.returncode}, stderr:\n{done.stderr}")


def _run(source: str, timeout: float) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["unshare", "--user", "--map-root-user", "--net", sys.executable, "-c", source]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, cwd="/")


class Internet:
    """To be entered by root of a network namespace that nobody else uses."""

    def __enter__(self) -> Internet:
        from pyroute2 import IPRoute

        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        self._process = subprocess.Popen(
            ["unshare", "--net", sys.executable, "-m", "_support.rooted"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._ask() == "here"
        with IPRoute() as network:
            _raise(network, "lo")
            namespace = {"ifname": "eth0", "net_ns_pid": self._process.pid}
            network.link("add", ifname="uplink", kind="veth", peer=namespace)
            uplink = _raise(network, "uplink")
            network.addr("add", index=uplink, address=HOST, prefixlen=24)
            assert self._ask("go") == "ready"
            network.route("add", dst="default", gateway=GATEWAY)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def seen(self) -> list[list[Any]]:
        found: list[list[Any]] = self._ask("seen")
        return found

    def _ask(self, word: str = "") -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        if word:
            print(word, file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


def _raise(network: Any, name: str) -> int:
    index = int(network.link_lookup(ifname=name)[0])
    network.link("set", index=index, state="up")
    return index


def left_over() -> dict[str, Any]:
    """What of the back end is in this network: interfaces of cages, addresses and routes of theirs, tables."""
    from pyroute2 import IPRoute
    from pyroute2.nftables.main import NFTables

    with IPRoute() as network:
        names = [link.get_attr("IFLA_IFNAME") for link in network.get_links()]
        addresses = [each.get_attr("IFA_ADDRESS") for each in network.get_addr(family=socket.AF_INET)]
        routes = [each.get_attr("RTA_DST") or "" for each in network.get_routes(family=socket.AF_INET)]
    with NFTables(nfgen_family=5) as tables:
        walls = [table.get_attr("NFTA_TABLE_NAME") for table in tables.get_tables()]
    return {
        "interfaces": [name for name in names if name.startswith("kaged-v")],
        "addresses": [address for address in addresses if address.startswith("10.143.")],
        "routes": [route for route in routes if route.startswith("10.143.")],
        "tables": walls,
    }


# ---- the other namespace ------------------------------------------------------------------------------------------


def _serve() -> None:
    from pyroute2 import IPRoute

    print(json.dumps("here"), flush=True)
    sys.stdin.readline()
    with IPRoute() as network:
        _raise(network, "lo")
        eth0 = _raise(network, "eth0")
        network.addr("add", index=eth0, address=GATEWAY, prefixlen=24)
        for place in PLACES[1:]:
            network.addr("add", index=eth0, address=place, prefixlen=32)
    ready = selectors.DefaultSelector()
    for port in PORTS:
        streams = socket.create_server(("", port))
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # The answer to a datagram must come from the address that it was sent to.
        for place in PLACES:
            bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            bound.bind((place, port))
            ready.register(bound, selectors.EVENT_READ, _echo_datagram)
        datagrams.close()
        ready.register(streams, selectors.EVENT_READ, _accept)
    witness = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
    ready.register(sys.stdin, selectors.EVENT_READ, None)
    print(json.dumps("ready"), flush=True)
    while True:
        for key, _ in ready.select():
            if key.data is not None:
                key.data(ready, key.fileobj)
            elif not sys.stdin.readline():
                return
            else:
                print(json.dumps(list(_witnessed(witness))), flush=True)


def _echo_datagram(ready: selectors.BaseSelector, bound: socket.socket) -> None:
    data, peer = bound.recvfrom(65536)
    bound.sendto(data, peer)


def _accept(ready: selectors.BaseSelector, listener: socket.socket) -> None:
    ready.register(listener.accept()[0], selectors.EVENT_READ, _echo_stream)


def _echo_stream(ready: selectors.BaseSelector, stream: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):
        if data := stream.recv(65536):
            stream.sendall(data)
            return
    ready.unregister(stream)
    stream.close()


def _witnessed(witness: socket.socket) -> Any:
    """A packet for every one that was received, in order; what was sent from here is left out."""
    while True:
        try:
            packet, whence = witness.recvfrom(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        if whence[2] == socket.PACKET_OUTGOING or whence[0] != "eth0":
            continue
        header, number = 4 * (packet[0] & 15), packet[9]
        port = struct.unpack_from("!H", packet, header + 2)[0] if number in (6, 17) and len(packet) >= header + 4 else 0
        yield [number, socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20]), port]


if __name__ == "__main__":
    _serve()
