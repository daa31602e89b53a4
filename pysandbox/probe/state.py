"""Where the audit trail and the installed apps of a user lie."""

from __future__ import annotations

import os


def audit_directory() -> str:
    """$XDG_STATE_HOME/pysandbox/audit."""
    return os.path.join(_state(), "audit")


def apps_directory() -> str:
    """$XDG_STATE_HOME/pysandbox/apps."""
    return os.path.join(_state(), "apps")


def _state() -> str:
    """A relative value is no value (XDG Base Directory Specification)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "pysandbox")
