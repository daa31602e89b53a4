"""Namespaces for an internet: two networks, the servers' and the hosts', with a wire between them.

Each is made by one process that waits, and that every other enters; it holds every capability there, and ends when its
stdin does. A host of pysandbox runs one user namespace deeper, as an ordinary user who has no power over its network.
The servers are not on the host itself, since an address of the host's own is as far from a cage as its loopback.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from _support.internet import places

HOSTS = """
set -e
mount --bind resolv.conf /etc/resolv.conf
mount --bind hosts /etc/hosts
ip link set lo up
echo ready
read -r end
"""
SERVERS = """
ip link set lo up
echo ready
read -r end
"""
# Run with $1 the pid of the servers' network: the wire, and every address at the end where it is.
WIRED = f"""
set -e
ip link add {places.WIRE} type veth peer name {places.WIRE} netns "$1"
ip addr add {places.HOST}/30 dev {places.WIRE}
ip addr add {places.HOST_PRIVATE}/32 dev lo
ip link set {places.WIRE} up
ip addr add {places.HOST_SIX}/126 dev {places.WIRE} nodad
"""
ANSWERED = f"""
set -e
ip addr add {places.GATEWAY}/30 dev {places.WIRE}
ip link set {places.WIRE} up
ip addr add {places.GATEWAY_SIX}/126 dev {places.WIRE} nodad
for address; do ip addr add "$address" dev lo; done
"""
ROUTED = f"""
set -e
ip route add default via {places.GATEWAY}
ip route add default via {places.GATEWAY_SIX}
"""
ORDINARY_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000", "--")
SOME_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def demand(*programs: str) -> None:
    """Skips the test where one of these is not installed."""
    for each in programs:
        if found(each) is None:
            pytest.skip(f"{each} is missing")


def found(program: str) -> str | None:
    return shutil.which(program, path=SOME_PATH)


@dataclass(frozen=True)
class Space:
    """The namespaces, while their holders live; `directory` is where those who run in them keep their files."""

    hosts: subprocess.Popen[bytes]
    servers: subprocess.Popen[bytes]
    directory: Path

    def command(self, argv: Sequence[str], *, ordinary: bool = False, serving: bool = False) -> list[str]:
        """`argv`, to be run where the hosts or the servers are: with every capability, or as an ordinary user."""
        there = self.servers if serving else self.hosts
        enter = ("nsenter", f"--target={there.pid}", "--user", "--net", "--mount", "--preserve-credentials")
        return [*enter, f"--wd={self.directory}", "--", *(ORDINARY_USER if ordinary else ()), *argv]

    def start(
        self, argv: Sequence[str], *, ordinary: bool = False, serving: bool = False,
        env: Mapping[str, str] | None = None, stdin: int = subprocess.DEVNULL,
        stdout: int | IO[bytes] = subprocess.PIPE, stderr: int | IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        return subprocess.Popen(
            self.command(argv, ordinary=ordinary, serving=serving),
            env=env,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )

    def run(
        self, argv: Sequence[str], *, ordinary: bool = True, serving: bool = False, timeout: float = 60, **run: Any
    ) -> Any:
        """What a program does in there without a cage: the control of every attack."""
        command = self.command(argv, ordinary=ordinary, serving=serving)
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, **run)


@contextmanager
def space(directory: Path) -> Iterator[Space]:
    """Skips the test where there are no unprivileged user namespaces, since no cage is made there either."""
    demand("unshare", "nsenter", "ip", "mount")
    (directory / "resolv.conf").write_text(f"nameserver {places.RESOLVER}\n")
    (directory / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    addresses = [*(f"{each}/32" for each in places.ADDRESSES), f"{places.SIX}/128"]
    first = ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", HOSTS]
    with _holder(first, directory) as hosts:
        enter = ["nsenter", f"--target={hosts.pid}", "--user", "--mount", "--preserve-credentials", f"--wd={directory}"]
        with _holder([*enter, "unshare", "--net", "sh", "-c", SERVERS], directory) as servers:
            whole = Space(hosts, servers, directory)
            for serving, script, arguments in ((False, WIRED, [str(servers.pid)]), (True, ANSWERED, addresses),
                                               (False, ROUTED, [])):  # fmt: skip
                done = whole.run(["sh", "-c", script, "sh", *arguments], ordinary=False, serving=serving)
                assert done.returncode == 0, done.stderr
            yield whole


@contextmanager
def _holder(command: Sequence[str], directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    holder = subprocess.Popen(command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None and holder.stdout is not None
    try:
        if holder.stdout.readline() != b"ready\n":
            pytest.skip("no namespaces for an internet of its own: unshare --user --net --mount fails here")
        yield holder
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()
