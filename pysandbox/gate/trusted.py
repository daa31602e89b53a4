"""What cages with contracts trust: for each plan a file of the host, with the host's roots and the certificate of the
authority that signs for that plan's hosts. It is bound into its cages; an authority that is made later is added at the
end of it, so that a cage that runs has it too."""

from __future__ import annotations

import json
import os
import re
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from pysandbox.compile.plan import ANY_MESSAGE, ANY_REQUEST, Contract, NetPlan, ScanPlan
from pysandbox.launch.owner import this_process
from pysandbox.launch.removal import remove_tree
from pysandbox.launch.scratch import PREFIX, scratch_parent
from pysandbox.shapes import Any, dataclass

ONE_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]{1,65536}-----END CERTIFICATE-----\n")


@dataclass(slots=True)
class KnownPlan:
    """`path` is "" while its authority is not known, `file` until it was for the first time; `taught`: which inspector
    was told of it, counted from 1; `cages`: how many there are that were given the file."""

    number: int
    contracts: tuple[Contract, ...]
    said: bytes
    path: str = ""
    file: str = ""
    taught: int = 0
    cages: int = 0

    @contextmanager
    def described(self) -> Iterator[Any]:
        with tempfile.TemporaryFile() as file:
            file.write(self.said)
            file.flush()
            file.seek(0)
            yield file


def plan_of(net: NetPlan, number: int) -> KnownPlan:
    """Raises OSError where a file of certificates cannot be read."""
    assert net.inspection is not None
    grants = [each for each in net.hosts if each.contract is not None]
    held = (each.contract for each in grants if each.contract is not None)
    listed = tuple(dict.fromkeys((ANY_REQUEST, ANY_MESSAGE, *held)))
    patterns = (*(each.pattern for each in grants), *(host for each in net.inspection.secrets for host in each.hosts))
    said = {
        "contracts": [
            {
                "methods": each.methods, "paths": each.paths, "content_types": each.content_types,
                "max_request_bytes": each.max_request_bytes, "ports": each.ports, "websocket": each.websocket,
                "credentials": each.credentials, "told": each.told, "private": each.private,
            }
            for each in listed
        ],
        "patterns": list(dict.fromkeys(patterns)),
        "timeout_ms": net.inspection.timeout_ms,
        "most_bytes": net.inspection.most_bytes,
        "upstream_scheme": net.inspection.upstream_scheme,
        "scan": _scan_of(net.inspection.scan),
        "upstream_ca": "".join(_read(path) for path in net.inspection.upstream_ca),
    }  # fmt: skip
    return KnownPlan(number, listed, json.dumps(said).encode())


def _scan_of(scan: ScanPlan | None) -> dict[str, object] | None:
    if scan is None:
        return None
    return {
        "depth": scan.depth, "whole": scan.whole, "scopes": scan.scopes, "warns": scan.warns, "budget": scan.budget,
        "detectors": scan.detectors, "blocks_opaque": scan.blocks_opaque, "any_bearer": scan.any_bearer,
        "undoes_codings": scan.undoes_codings,
    }  # fmt: skip


def _read(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read() + "\n"


class TrustFiles:
    """The directory that holds them, of mode 0700; made at the first file."""

    def __init__(self) -> None:
        self.roots = b""
        self._directory = ""
        self._removal: weakref.finalize[..., TrustFiles] | None = None  # also at the end of the program

    def learn(self, number: int, certificate: bytes, plans: Iterable[KnownPlan], taught: int) -> None:
        """An authority is asked for once: no more is ever added to what cages trust. Raises OSError, ValueError."""
        for known in plans:
            if known.number == number and known.taught == taught and not known.path:
                known.path = known.file = self.add(number, certificate)
                return
        raise ValueError("an authority that nobody asked for")

    def add(self, number: int, certificate: bytes) -> str:
        """Adds a certificate to the file of a plan; returns its path. Raises OSError, and ValueError for anything but
        one certificate."""
        if ONE_CERTIFICATE.fullmatch(certificate) is None:
            raise ValueError("an authority that is no certificate")
        if not self._directory:
            made = tempfile.mkdtemp(prefix=f"{PREFIX}{this_process()}-", dir=scratch_parent())
            self._directory = os.path.realpath(made)
            self._removal = weakref.finalize(self, _remove, self._directory)
        path = f"{self._directory}/{number}.pem"
        is_new = not os.path.exists(path)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with open(fd, "ab") as file:
            file.write((self.roots if is_new else b"") + certificate)
            os.fchmod(fd, 0o644)
        return path

    def drop(self, path: str) -> None:
        """Removes the file of a plan; of "" there is none."""
        if path:
            with suppress(OSError):
                os.unlink(path)

    def remove(self) -> None:
        self._directory = ""
        if self._removal is not None:
            self._removal()

    def abandon(self) -> None:
        """In a forked copy of the host."""
        self._directory = ""
        if self._removal is not None:
            self._removal.detach()


def _remove(directory: str) -> None:
    with suppress(OSError):
        remove_tree(directory)
