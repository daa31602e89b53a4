"""Where pysandbox keeps what outlives a run, named once: for those who write there and those who keep cages out."""

from __future__ import annotations

import os


def audit_directory() -> str:
    """$XDG_STATE_HOME/pysandbox/audit; a relative value is no value (XDG Base Directory Specification)."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "pysandbox", "audit")
