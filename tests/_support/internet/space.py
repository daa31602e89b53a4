"""Namespaces for an internet: made by one process that waits, entered by every other.

The one that waits owns the namespaces, holds every capability in them, and ends when its stdin does. A host of
pysandbox runs one user namespace deeper, as an ordinary user who has no power over this network.
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

MADE = """
set -e
ip link set lo up
for address; do ip addr add "$address" dev lo; done
mount --bind resolv.conf /etc/resolv.conf
mount --bind hosts /etc/hosts
echo ready
read -r end
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
    """The namespaces, for as long as `holder` lives; `directory` is where those who run in them keep their files."""

    holder: subprocess.Popen[bytes]
    directory: Path

    def command(self, argv: Sequence[str], *, ordinary: bool = False) -> list[str]:
        """`argv`, to be run in there: with every capability, or as an ordinary user."""
        enter = ("nsenter", f"--target={self.holder.pid}", "--user", "--net", "--mount", "--preserve-credentials")
        return [*enter, f"--wd={self.directory}", "--", *(ORDINARY_USER if ordinary else ()), *argv]

    def start(
        self, argv: Sequence[str], *, ordinary: bool = False, env: Mapping[str, str] | None = None,
        stdin: int = subprocess.DEVNULL, stdout: int | IO[bytes] = subprocess.PIPE,
        stderr: int | IO[bytes] | None = None,
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        return subprocess.Popen(
            self.command(argv, ordinary=ordinary), env=env, stdin=stdin, stdout=stdout, stderr=stderr
        )

    def run(self, argv: Sequence[str], *, ordinary: bool = True, timeout: float = 60, **run: Any) -> Any:
        """What a program does in there without a cage: the control of every attack."""
        command = self.command(argv, ordinary=ordinary)
        return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, **run)


@contextmanager
def space(directory: Path) -> Iterator[Space]:
    """Skips the test where there are no unprivileged user namespaces, since no cage is made there either."""
    demand("unshare", "nsenter", "ip", "mount")
    (directory / "resolv.conf").write_text(f"nameserver {places.RESOLVER}\n")
    (directory / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
    addresses = [*(f"{each}/32" for each in places.ADDRESSES), f"{places.SIX}/128"]
    command = ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", MADE, "sh", *addresses]
    holder = subprocess.Popen(command, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None and holder.stdout is not None
    try:
        if holder.stdout.readline() != b"ready\n":
            pytest.skip("no namespaces for an internet of its own: unshare --user --net --mount fails here")
        yield Space(holder, directory)
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()
