"""Where the audit trail, the installed apps, the workspaces and the layers of a user lie."""

from __future__ import annotations

import os

from pysandbox.policy.places import OURS, state_home
from pysandbox.probe.paths import home


def audit_directory() -> str:
    """$XDG_STATE_HOME/pysandbox/audit."""
    return os.path.join(_state(), "audit")


def apps_directory() -> str:
    """$XDG_STATE_HOME/pysandbox/apps."""
    return os.path.join(_state(), "apps")


def own_directory(name: str) -> str:
    """$XDG_STATE_HOME/pysandbox/NAME. It is asked at every start: no copy of the whole environment is made for it."""
    named = {key: value for key in ("HOME", "XDG_STATE_HOME") if (value := os.environ.get(key)) is not None}
    return os.path.join(state_home({"HOME": home(), **named}), OURS, name)


def _state() -> str:
    """A relative value is no value (XDG Base Directory Specification)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "pysandbox")
