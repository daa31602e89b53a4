"""The three standard descriptors as we found them. Cheap to import."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace


def can_ask() -> bool:
    """Whether somebody reads our questions and can answer them."""
    return os.isatty(0) and os.isatty(2)


def at_a_terminal() -> bool:
    """Whether all three are the user's terminal; a redirected one must stay what it is."""
    return all(os.isatty(fd) for fd in (0, 1, 2))


def wants_pty(namespace: Namespace) -> bool:
    """Whether the command gets a terminal of its own: where it was asked for, else where all three are one."""
    if namespace.pty is not None or namespace.json or getattr(namespace, "detach", False):
        return bool(namespace.pty)
    return at_a_terminal()
