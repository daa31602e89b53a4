"""The three standard descriptors as we found them. Cheap to import."""

from __future__ import annotations

import os

from pysandbox.launch.stdio import DEVNULL


def fill_standard_descriptors() -> None:
    """Started with one of 0, 1, 2 closed, something of ours would be opened there, and handed to the command."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one


def at_a_terminal() -> bool:
    """Whether all three are the user's terminal; a redirected one must stay what it is."""
    return all(os.isatty(fd) for fd in (0, 1, 2))


def input_of_ours() -> int:
    """What a command without a terminal of its own reads: our stdin, but for the user's terminal, which no cage holds
    and which somebody else (`pysandbox run -- x | less`) reads from."""
    return DEVNULL if os.isatty(0) else 0
