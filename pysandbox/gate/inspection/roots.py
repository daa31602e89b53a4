"""The certificates that this host trusts, as one text: of the file, and of the directory, that OpenSSL looks at, or
that SSL_CERT_FILE and SSL_CERT_DIR name in their place."""

from __future__ import annotations

import os
import re
import ssl
from contextlib import suppress

HASHED = re.compile(r"[0-9a-f]{8}\.[0-9]+")  # as c_rehash(1) names them; no other file there is looked at
LONGEST = 1 << 24


def pem_blocks(label: str) -> re.Pattern[str]:
    """The blocks of one label in a text (RFC 7468)."""
    return re.compile(rf"-----BEGIN {label}-----[A-Za-z0-9+/=\s]+-----END {label}-----")


CERTIFICATE = pem_blocks("CERTIFICATE")


def host_roots() -> str:
    found: dict[str, None] = {}
    paths = ssl.get_default_verify_paths()
    for path in (*([paths.cafile] if paths.cafile else ()), *_hashed(paths.capath)):
        found.update(dict.fromkeys(certificates(path)))
    return "".join(f"{each}\n" for each in found)


def certificates(path: str) -> list[str]:
    """The certificates in a file; none where it cannot be read."""
    with suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        return CERTIFICATE.findall(file.read(LONGEST))
    return []


def _hashed(directory: str | None) -> list[str]:
    with suppress(OSError):
        if directory:
            return [f"{directory}/{name}" for name in sorted(os.listdir(directory)) if HASHED.fullmatch(name)]
    return []
