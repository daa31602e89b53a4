"""Where the audit trail, the installed apps, the workspaces and the layers of a user lie."""

from __future__ import annotations

import functools
import os

from pysandbox.policy.places import OURS, state_home
from pysandbox.policy.user_home import home


def own_home() -> str:
    """$HOME; of root, that of the user database where $HOME is another user's: `sudo -E` keeps it, and what root makes
    there its owner can neither write nor remove."""
    named = os.environ.get("HOME")
    if not named or is_foreign(named):
        return home()
    return named


def is_foreign(directory: str) -> bool:
    if os.geteuid() != 0:
        return False  # whoever else may write there was let
    try:
        return os.stat(directory).st_uid != 0
    except OSError:
        return False


def audit_directory() -> str:
    """$XDG_STATE_HOME/pysandbox/audit."""
    return os.path.join(_state(), "audit")


def apps_directory() -> str:
    """$XDG_STATE_HOME/pysandbox/apps."""
    return os.path.join(_state(), "apps")


def own_directory(name: str) -> str:
    """$XDG_STATE_HOME/pysandbox/NAME. It is asked at every start: no copy of the whole environment is made for it."""
    return own_directories(name)[0]


def own_directories(*names: str) -> list[str]:
    """Several, for one look at the environment."""
    own, state = own_home(), os.environ.get("XDG_STATE_HOME", "")
    return [_directory_of(name, own, state) for name in names]


@functools.lru_cache(maxsize=16)
def _directory_of(name: str, own: str, state: str) -> str:
    return os.path.join(state_home({"HOME": own, "XDG_STATE_HOME": state}), OURS, name)


def _state() -> str:
    """A relative value is no value (XDG Base Directory Specification)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(own_home(), ".local", "state")
    return os.path.join(state, "pysandbox")
