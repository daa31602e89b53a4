"""Whether a path lies below another, by its letters alone. Imports nothing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def covers(parent: str, path: str) -> bool:
    """True when `path` is `parent` or lies below it. By component: /usr/lib covers /usr/lib/python3, never
    /usr/library."""
    return path == parent or path.startswith(parent.rstrip("/") + "/")


def from_root(path: str) -> Iterator[str]:
    """Every path that covers this absolute one: itself and the directories above it, the root last."""
    while path.rstrip("/"):
        yield path
        path = path.rpartition("/")[0]
    yield "/"
