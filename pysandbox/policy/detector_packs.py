"""Packs of detectors: files of `packs/`, whose rows are [[network.dlp.detector]] blocks with vectors. Which there are,
and the digest of each, is written here: a file that was changed is not read. Nothing imports this before a policy has
one.

A row is bounded as a user's own is (`own_detector`), so nothing more has to be said of a pack where it is scanned.
"""

from __future__ import annotations

import os
import re
from functools import cache

from pysandbox.errors import PolicyError
from pysandbox.policy.own_detector import OwnDetector, ScanDetector, scan_detector
from pysandbox.policy.reading import read_regular
from pysandbox.sha256 import sha256
from pysandbox.shapes import Any

FOLDER = os.path.join(os.path.dirname(__file__), "packs")
DIGESTS = {"gitleaks": "8f22e4d692bf9e72a5f3e2e8fc29f59215b32104a93c1f3bffac4949d0904497"}

ALPHABETS = {
    "": "A1b2C3d4E5f6G7h8J9k0LmNpQrStUvWxYz", "hex": "0a1b2c3d4e5f6789", "lower": "a1b2c3d4e5f6g7h8",
    "upper": "A1B2C3D4E5F6G7H8", "digits": "1234567890", "letters": "abcdefghij",
}  # fmt: skip
_FILLING = re.compile(r"\{(\d+)(?::(\w+))?\}")


@cache
def rows(pack: str) -> tuple[dict[str, Any], ...]:
    """Each as it stands in the file. Raises PolicyError for a file that is not the one this version came with."""
    import tomllib

    path = os.path.join(FOLDER, f"{pack}.toml")
    try:
        said = read_regular(path)
    except OSError as error:
        raise _other(pack, f"{path} cannot be read: {os.strerror(error.errno or 0)}") from None
    if sha256(said).hexdigest() != DIGESTS[pack]:
        raise _other(pack, f"{path} is not the file that this version came with")
    return tuple(tomllib.loads(said.decode())["detector"])


def _other(pack: str, message: str) -> PolicyError:
    return PolicyError(f"pack {pack!r}: {message}", key="network.dlp.packs", suggestion="install pysandbox again")


@cache
def scan_detectors_of(pack: str) -> tuple[ScanDetector, ...]:
    """The rows of a pack; none of "core", which every scan has. Raises PolicyError."""
    if pack not in DIGESTS:
        return ()
    blocks = (
        OwnDetector(name=each["name"], pattern=each["pattern"], hosts=tuple(each.get("hosts", ())),
                    context=tuple(each.get("context", ())))
        for each in rows(pack)
    )  # fmt: skip
    return tuple(map(scan_detector, blocks))


def filled(vector: str) -> bytes:
    """A vector, as it is sent: the file has no letters in it that a scanner of sources would take for a credential."""
    return _FILLING.sub(lambda found: _letters(int(found[1]), ALPHABETS[found[2] or ""]), vector).encode()


def _letters(count: int, alphabet: str) -> str:
    return (alphabet * (count // len(alphabet) + 1))[:count]
