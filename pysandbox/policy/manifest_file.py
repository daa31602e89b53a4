"""Where the manifest of a project lies, and whether it may be believed at all.

It is looked for in the working directory and upwards, as git looks for .git: not past the home directory, and not into
another file system. A manifest that belongs to somebody else is refused (CVE-2022-24765 is what git learnt from): a
stranger's /tmp/pysandbox.toml must not decide what `pysandbox up` runs.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from pysandbox.errors import PolicyError
from pysandbox.policy.manifest import MANIFEST, Manifest, parse_manifest
from pysandbox.policy.reading import contents, decoded, sha256
from pysandbox.shapes import replace


def find_manifest(start: str, home: str = "") -> str | None:
    """The path of the nearest one at or above `start`."""
    for directory in _upwards(os.path.abspath(start), home):
        path = os.path.join(directory, MANIFEST)
        if os.path.lexists(path):
            return path
    return None


def _upwards(directory: str, home: str) -> Iterator[str]:
    device = os.stat(directory).st_dev
    while os.stat(directory).st_dev == device:
        yield directory
        if directory in ("/", home):
            return
        directory = os.path.dirname(directory)


def load_manifest(start: str, home: str = "") -> Manifest:
    """The manifest that holds in `start`. PolicyError where there is none, it is a stranger's, or it is wrong."""
    path = find_manifest(start, home)
    if path is None:
        raise PolicyError(
            f"no {MANIFEST} in {start!r} or above it",
            suggestion="write one, or run a command without it: pysandbox run -- COMMAND",
        )
    return read_manifest(path)


def read_manifest(path: str) -> Manifest:
    """The one in this file, if it is ours: read once, and its digest is of the bytes that were parsed. Raises
    PolicyError."""
    _check_owner(os.stat(os.path.dirname(os.path.abspath(path))), os.path.dirname(path), path)
    content = contents(path, lambda found: _check_ours(found, path))
    return replace(parse_manifest(decoded(content, path), path), digest=sha256(content))


def _check_ours(found: os.stat_result, path: str) -> None:
    _check_owner(found, path, path)
    if found.st_mode & stat.S_IWOTH:
        raise PolicyError("can be written by everybody", file=path, suggestion="chmod o-w")


def _check_owner(found: os.stat_result, each: str, path: str) -> None:
    """Checks the owner of the manifest or of its directory: either could put another file in its place."""
    if found.st_uid not in (0, os.geteuid()):
        raise PolicyError(f"{each!r} belongs to another user (uid {found.st_uid})", file=path,
                          suggestion="read it, then chown it or run a copy of your own")  # fmt: skip
