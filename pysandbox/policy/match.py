"""Whether a path lies below another, and what that means for a policy: deny wins, then mask, then write, then read.

Comparison is by component (`/usr/lib` covers `/usr/lib/python3`, never `/usr/library`) and by letters only. Paths
must be expanded (`expand.py`); where a symlink leads is for the look to say, and the mount plan to act on.
"""

from __future__ import annotations

from collections.abc import Iterable

from pysandbox.policy.below import covers
from pysandbox.policy.fields import PolicyFields
from pysandbox.policy.option import Grant
from pysandbox.policy.patterns import covers_path, literal
from pysandbox.shapes import Literal

__all__ = ["Access", "access", "covering", "covers", "may_execute"]

Access = Literal["denied", "masked", "write", "read", "unseen"]


def covering(path: str, grants: Iterable[Grant]) -> Grant | None:
    """The most specific of `grants` that covers `path`."""
    return max((each for each in grants if covers(each.path, path)), key=lambda each: len(each.path), default=None)


def hiding(path: str, grants: Iterable[Grant]) -> Grant | None:
    """The most specific of the denials or masks `grants`, which may be patterns, that covers `path`."""
    return max((each for each in grants if _hides(each.path, path)), key=lambda each: len(each.path), default=None)


def _hides(pattern: str, path: str) -> bool:
    one = literal(pattern)
    return covers_path(pattern, path) if one is None else covers(one, path)


def access(policy: PolicyFields, path: str) -> tuple[Access, Grant | None]:
    """What an expanded policy makes of `path`, and the entry that decides. The working directory is not considered.

    Deny and mask win wherever they stand; between allow and allow_write the more specific entry decides, and
    writing wins over reading for the same path.
    """
    if denial := hiding(path, policy.deny):
        return "denied", denial
    if mask := hiding(path, policy.mask):
        return "masked", mask
    write, read = covering(path, policy.allow_write), covering(path, policy.allow)
    if write and (read is None or len(write.path) >= len(read.path)):
        return "write", write
    return ("read", read) if read else ("unseen", None)


def may_execute(listed: Iterable[str], path: str) -> bool:
    """Whether a list of executables names `path`: the very path, or a `/dir/*` that it lies below."""
    return any(_executes(entry, path) for entry in listed)


def _executes(entry: str, path: str) -> bool:
    if entry.endswith("/*"):
        tree = entry.removesuffix("/*")
        return path != tree and covers(tree, path)
    return path == entry
