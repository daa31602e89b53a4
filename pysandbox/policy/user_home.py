"""The caller's home directory, by the user database: where `~` leads in a policy, whatever $HOME says."""

from __future__ import annotations

import os
from functools import cache

NOWHERE = ("", "/", "/nonexistent")  # what the database says of users that have none


def home() -> str:
    """/tmp for users that have none."""
    return _home_of(os.geteuid())


@cache  # the database costs a tenth of a millisecond, and a user's home does not move while a program runs
def _home_of(uid: int) -> str:
    import pwd

    try:
        directory = pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/tmp"
    return "/tmp" if directory in NOWHERE else directory
