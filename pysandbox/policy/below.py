"""Whether a path lies below another, by its letters alone. Imports nothing."""

from __future__ import annotations


def covers(parent: str, path: str) -> bool:
    """True when `path` is `parent` or lies below it. By component: /usr/lib covers /usr/lib/python3, never
    /usr/library."""
    return path == parent or path.startswith(parent.rstrip("/") + "/")
