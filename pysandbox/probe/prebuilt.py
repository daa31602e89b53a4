"""The filters that were made when the package was built (tools/compile_profiles.py), read where they are installed."""

from __future__ import annotations

from functools import cache

DIRECTORY = f"{__file__.rpartition('/probe/')[0]}/_data/seccomp/"


@cache
def prebuilt_filter(name: str) -> bytes | None:
    """None for what is not shipped, and in a source tree that was not built."""
    try:
        with open(DIRECTORY + name, "rb") as program:
            return program.read()
    except FileNotFoundError:
        return None
