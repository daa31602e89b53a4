"""The kernels of the matrix: Debian's cloud kernels, unpacked from their packages and never installed.

To add one: a row here, and a column in docs/kernels.md, which tests/guest holds against the running kernel.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

PACKAGES = {
    "6.1": r"linux-image-6\.1\.[0-9]+-[0-9]+-cloud-amd64",
    "6.12": r"linux-image-6\.12\.[0-9]+\+deb[0-9]+-cloud-amd64",
}
DOWNLOAD = 300.0  # seconds


class MatrixError(Exception):
    """Something the matrix needs is missing; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Kernel:
    name: str
    release: str  # as uname -r says
    image: Path
    modules: Path  # .../lib/modules/RELEASE

    @property
    def root(self) -> Path:
        """Where the package is unpacked: what `modprobe -d` takes."""
        return self.modules.parents[2]


def fetch(name: str, cache: Path) -> Kernel:
    """The newest such kernel that apt knows, from `cache` when it is there."""
    package = _newest(name)
    home = cache / package
    if not home.exists():
        _unpack(package, home)
    release = package.removeprefix("linux-image-")
    return Kernel(name, release, home / f"boot/vmlinuz-{release}", home / "lib/modules" / release)


def _newest(name: str) -> str:
    said = _run("apt-cache", "search", "--names-only", f"^{PACKAGES[name]}$")
    found = [line.partition(" ")[0] for line in said.splitlines()]
    if not found:
        raise MatrixError(f"apt knows no package {PACKAGES[name]}: run apt-get update; the matrix needs Debian 12")
    return max(found, key=lambda package: [int(number) for number in re.findall(r"[0-9]+", package)])


def _unpack(package: str, home: Path) -> None:
    """Into a directory beside it first: what has the name is whole."""
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home.parent) as name:
        work, tree = Path(name), Path(name, "tree")
        _run("apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package, cwd=work)
        _run("dpkg-deb", "-x", str(next(work.glob("*.deb"))), str(tree))
        _run("depmod", "-b", str(tree), package.removeprefix("linux-image-"))
        os.rename(tree, home)


def _run(*command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=DOWNLOAD, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError:
        raise MatrixError(
            f"{command[0]} is missing: the matrix needs a Debian machine with apt, dpkg and kmod"
        ) from None
    except subprocess.TimeoutExpired:
        raise MatrixError(f"{' '.join(command)} took more than {DOWNLOAD:g} s: is there a network?") from None
    if done.returncode != 0:
        raise MatrixError(f"{' '.join(command)} failed ({done.returncode}): {done.stderr.strip()}")
    return done.stdout
