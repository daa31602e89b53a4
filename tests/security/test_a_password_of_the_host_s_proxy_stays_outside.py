"""Claim: a cage with doors has the proxy variables that name them, and never the caller's, which may hold a password:
also where they are passed through by name, and where the run is a kept one.

CONTROL   another variable that is passed through is the caller's, in the first run and in later ones
ATTACK    each proxy variable of the host's holds a password and is passed through; the command line is run by Python,
          then kept, then started without Python
EVIDENCE  the command prints its environment: no variable holds the password, and those of the proxy name the door
"""

from __future__ import annotations

from pathlib import Path

import pytest

from _support.kept_runs import Home
from pysandbox.compile.doors import PROXY_VARIABLES
from pysandbox.compile.environ import OWN

PASSWORD = "a-password-of-the-host"
PRINT = ["--allow-ip", "203.0.113.7:443", "--", "/usr/bin/env"]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.env |= dict.fromkeys(PROXY_VARIABLES, f"http://user:{PASSWORD}@127.0.0.1:9")
    return made


def passing(*names: str) -> list[str]:
    return [flag for name in names for flag in ("--env-passthrough", name)]


def variables(told: bytes) -> dict[str, str]:
    return dict(line.split("=", 1) for line in told.decode().splitlines())


def test_no_run_passes_the_proxy_of_the_host_on(home: Home) -> None:
    flags = [*passing(*PROXY_VARIABLES, "PSB_WORD"), *PRINT]
    runs = [home.run_by_python(*flags), home.run(*flags), home.until_warm(*flags)]
    for each in runs:
        seen = variables(each.stdout)
        assert each.code == 0 and seen["PSB_WORD"] == "before"
        assert PASSWORD not in each.stdout.decode()
        assert {name: seen[name] for name in PROXY_VARIABLES} == PROXY_VARIABLES


@pytest.mark.parametrize("name", sorted(OWN))
def test_what_a_cage_has_of_its_own_is_passed_on_by_python_alone(home: Home, name: str) -> None:
    flags = [*passing(name), *PRINT]
    given = home.env.pop(name) if name in ("PATH", "HOME") else home.env.pop(name, "the caller's")
    home.env |= {name: given}
    assert variables(home.run(*flags).stdout)[name] == given
    assert home.entries == []
