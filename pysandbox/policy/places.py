"""Where the user's own recipes, and the record of what the user trusts, lie: the XDG directories of an environment.

Pure: the environment is an argument. A cage sees neither place, whatever it was granted (`compile.view`).
"""

from __future__ import annotations

from collections.abc import Mapping

OURS = "pysandbox"
NAMED = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")  # all of an environment that is asked here


def home(env: Mapping[str, str]) -> str:
    return env.get("HOME") or "/"


def config_home(env: Mapping[str, str]) -> str:
    return _absolute(env.get("XDG_CONFIG_HOME")) or f"{home(env).rstrip('/')}/.config"


def state_home(env: Mapping[str, str]) -> str:
    return _absolute(env.get("XDG_STATE_HOME")) or f"{home(env).rstrip('/')}/.local/state"


def own_places(env: Mapping[str, str]) -> tuple[str, str]:
    return f"{config_home(env)}/{OURS}", f"{state_home(env)}/{OURS}"


def _absolute(path: str | None) -> str | None:
    return path if path and path.startswith("/") else None  # the XDG specification has a relative one ignored
