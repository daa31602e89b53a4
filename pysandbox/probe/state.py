"""Where the audit trail of a user lies. Imports next to nothing: a warm start of the command asks for it."""

from __future__ import annotations

import os


def audit_directory() -> str:
    """$XDG_STATE_HOME/pysandbox/audit; a relative value is no value (XDG Base Directory Specification)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "pysandbox", "audit")
