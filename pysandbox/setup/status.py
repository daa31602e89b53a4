"""Which policy is installed, compared with the one that this version would write. Reads; changes nothing.

The paths that a policy was made for stand in its first lines, so that a policy for another installation ("wrong path")
is told from one of another version ("OUTDATED").
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pysandbox.probe.features import Host, mac_system
from pysandbox.setup import apparmor, selinux
from pysandbox.setup.target import InstallTarget
from pysandbox.shapes import dataclass

NOT_NEEDED, NOT_INSTALLED, INSTALLED = "not needed", "not installed", "installed"
WRONG_PATH, OUTDATED = "wrong path", "OUTDATED"
ABI_DIRECTORY = "/etc/apparmor.d/abi"


@dataclass(frozen=True, slots=True)
class Status:
    """`word` is one of the five above; `path` is where the policy is or would be, "" where none is needed."""

    word: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.path})" if self.word == INSTALLED else self.word


def wanted(mac: str, target: InstallTarget, root: str = "") -> dict[str, str]:
    """The files of the policy for `mac` ("AppArmor", "SELinux" or "none"), each with its contents."""
    if mac == "AppArmor":
        return {apparmor.FILE: apparmor.policy(target, apparmor_abi(root))}
    if mac == "SELinux":
        base = f"{selinux.DIRECTORY}/{selinux.NAME}"
        return {f"{base}.te": selinux.types(target), f"{base}.fc": selinux.contexts(target)}
    return {}


def apparmor_abi(root: str = "") -> str:
    """The newest policy language of ours that the installed tools know; the newest of all where none are installed."""
    known = (abi for abi in apparmor.ABIS if os.path.exists(f"{root}{ABI_DIRECTORY}/{abi}"))
    return next(known, apparmor.NEWEST)


def present(files: Mapping[str, str], root: str = "") -> dict[str, str]:
    """The files that exist, with what is in them. What cannot be read (`/etc` of mode 0700) is as absent."""
    found = {}
    for path in files:
        try:
            with open(root + path, encoding="utf-8", errors="surrogateescape") as file:
                found[path] = file.read()
        except OSError:
            continue
    return found


def read_status(target: InstallTarget, host: Host | None = None) -> Status:
    """What `pysandbox check` says about the policy."""
    host = host or Host()
    files = wanted(mac_system(host), target, host.root)
    return compare(files, present(files, host.root))


def compare(files: Mapping[str, str], found: Mapping[str, str]) -> Status:
    """The status, from the files as they should be and as they are."""
    if not files:
        return Status(NOT_NEEDED)
    first = next(iter(files))
    if not found:
        return Status(NOT_INSTALLED, first)
    if dict(found) == dict(files):
        return Status(INSTALLED, first)
    elsewhere = first in found and made_for(found[first]) not in ((), made_for(files[first]))
    return Status(WRONG_PATH if elsewhere else OUTDATED, first)


def made_for(text: str) -> tuple[str, ...]:
    """The paths in the first lines of a policy."""
    head = (line.partition(": ") for line in text.splitlines()[:4])
    return tuple(path for name, _, path in head if name in ("# interpreter", "# cage-init"))
