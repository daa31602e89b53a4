"""Errors that say nothing of a path: the host is short of what a look takes.

What was not looked into is not empty. A cage can keep so many files open that the whole machine can open no further
one (ENFILE), and what nobody saw at that moment would be its to write.
"""

from __future__ import annotations

from errno import EMFILE, ENFILE, ENOMEM

SHORTAGES = (EMFILE, ENFILE, ENOMEM)


def tell_shortage(error: OSError, path: str) -> None:
    """Raises StartError where the host is short of something."""
    if error.errno in SHORTAGES:
        from pysandbox.errors import StartError
        from pysandbox.probe.kernel import LACKING

        raise StartError("source", error.errno, path, hint=LACKING[error.errno]) from None
