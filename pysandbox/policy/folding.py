"""Names that a file system may take for one: it folds case (ext4 and f2fs by directory, NTFS, FAT), drops letters that
nobody sees (HFS+), or has a second, short name for a long one (FAT, NTFS). Pure.

What is compared is folded further than any of them does it: who asks wants to know what a name could become.
"""

from __future__ import annotations

import re

# Unicode's Default_Ignorable_Code_Point, which a directory of ext4 or f2fs that folds names drops.
IGNORED = re.compile("[\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
                     "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
                     "\U000e0000-\U000e0fff]")  # fmt: skip
_SHORT = re.compile(r"([^./~]{1,6})~[0-9]+(?:\.([^./]{0,3}))?")


def caseless(path: str) -> str:
    """A name or a path for a comparison with any other: two that differ in case, in how a letter is composed, or in
    letters that nobody sees alone become one. No letter that is seen is dropped: `проект.git` is not `.git`."""
    if path.isascii():
        return path.lower()
    from unicodedata import normalize

    return normalize("NFD", IGNORED.sub("", normalize("NFD", path).casefold()))


def short_name(name: str) -> tuple[str, str]:
    """How the short name of a caseless long one begins, and how it ends: ("git", "") of .git, which is GIT~1."""
    stem, _, end = name.lstrip(".").rpartition(".")
    return (stem or end).replace(".", "")[:6], end[:3] if stem else ""


def as_short_name(name: str) -> tuple[str, str] | None:
    """What `short_name` says of the long name, of a caseless name that may be its short one; None where it is none."""
    found = _SHORT.fullmatch(name)
    return (found[1], found[2] or "") if found else None
