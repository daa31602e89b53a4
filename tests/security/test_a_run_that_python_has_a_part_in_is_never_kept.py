"""Claim: a plan is kept for the launcher only where it knows all that was asked; a run with a secret, with requests
that are looked at, with decisions about what it wrote, or with anything else of Python's, is Python's from the start.

CONTROL   the same command with hosts and a limit of memory alone is kept, and runs without Python
ATTACK    each of these besides, by flag and by recipe, also where it would change nothing of this command; parts of a
          plan, and flags, that nobody has thought of
EVIDENCE  no entry is written, and a Python is started for the run; one that is not listed is refused by its existence
"""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from _support.kept_runs import Home
from pysandbox.cli import kept_services
from pysandbox.cli.keep import DONE, HELD, asks_only_what_is_done
from pysandbox.cli.kept_services import OF_A_HOST, OF_CALLS, OF_THE_NETWORK, OF_THE_WATCH, holds_only
from pysandbox.compile.plan import HostGrant, NetPlan, NotifyPlan, Plan, WatchPlan
from pysandbox.shapes import MISSING, dataclass, fields

SERVED = ["--memory-mb", "128", "--host", "allowed.test"]
RACY = 0.06  # seconds; a file that is newer makes that nothing is kept
BLOCK = '[[host]]\ndomain = "other.test"\n'
RECIPES = {
    "secret": f'{BLOCK}[[secret]]\nname = "TOKEN"\nfrom = "env:TOKEN"\nhosts = ["other.test"]\n'
    'in = ["header:authorization"]\n',
    "methods": f'{BLOCK}methods = ["GET"]\n',
    "columns": f'{BLOCK}paths = ["/repos/"]\ncontent_types = ["application/json"]\nmax_request_bytes = 100\n',
    "tls": f'{BLOCK}tls = "inspect"\n',
    "dlp": f"[network.dlp]\nenabled = true\n{BLOCK}",
    "websocket": f"{BLOCK}websocket = true\n",
    "proxy": f'[proxy]\nupstream_request_timeout_ms = 1000\n{BLOCK}tls = "inspect"\n',
    "on_exit": '[filesystem]\nworkdir = "cow"\n[resources]\ncow_mb = 64\n[workspace]\non_exit = "abort"\n',
}
COW = ("--workdir", "cow", "--cow-mb", "64")
FLAGS = [
    ["--why"], ["--allow-host-loopback"], ["--allow-execve", "/usr/bin/*"],
    [*COW, "--dry-run"], [*COW, "--on-exit", "commit"], [*COW, "--on-error", "keep"], ["-w", "/usr"],
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """One in which a plan with services is kept, and recipes that are old enough for it."""
    made = Home(tmp_path)
    made.env["TOKEN"] = "ghp_0123456789abcdef0123456789abcdef0123"
    for name, text in RECIPES.items():
        (made.project / f"{name}.toml").write_text(text)
    time.sleep(RACY)
    made.until_warm(*SERVED, "--", "/bin/true")
    return made


def test_nothing_of_pythons_is_kept(home: Home) -> None:
    [entry] = home.entries
    asked = [*FLAGS, *(["-r", f"./{name}.toml"] for name in RECIPES)]
    ran = {tuple(flags): home.run(*SERVED, *flags, "--", "/bin/true") for flags in asked}
    assert [(flags, each) for flags, each in ran.items() if each.warm or each.served or each.code] == []
    assert home.entries == [entry]


def test_the_control_is_kept_with_a_recipe_as_well(home: Home) -> None:
    (home.project / "plain.toml").write_text(BLOCK)
    (home.project / "private.toml").write_text(BLOCK + 'private_addresses = ["10.1.0.0/16"]\n')
    time.sleep(RACY)
    for recipe in ("plain", "private"):
        home.until_warm(*SERVED, "-r", f"./{recipe}.toml", "--", "/bin/true")


# ---- by construction -----------------------------------------------------------------------------------------

LISTS = {Plan: HELD, WatchPlan: OF_THE_WATCH, NotifyPlan: OF_CALLS, NetPlan: OF_THE_NETWORK, HostGrant: OF_A_HOST}


@dataclass(frozen=True, slots=True)
class Grown:
    """A part of a plan with fields that nobody has listed."""

    known: int
    count: int | None = None
    names: tuple[str, ...] | None = None
    flag: bool = False


@pytest.mark.parametrize("changed", [{"count": 0}, {"count": 1}, {"names": ()}, {"flag": True}])
def test_a_field_that_is_not_listed_has_its_default_or_nothing_is_kept(changed: dict[str, Any]) -> None:
    assert holds_only(Grown(7), frozenset({"known"}))
    assert not holds_only(Grown(7, **changed), frozenset({"known"}))


@pytest.mark.parametrize("part", LISTS, ids=lambda part: part.__name__)
def test_what_is_listed_is_there_and_the_rest_can_say_nothing(part: Any) -> None:
    described = {each.name: each.default for each in fields(part)}
    assert LISTS[part] <= described.keys()
    unlisted = {name: default for name, default in described.items() if name not in LISTS[part]}
    assert all(default is MISSING or default in kept_services.NOTHING for default in unlisted.values())


@pytest.mark.parametrize("value", [True, "", "x", ["x"], (), 1.0])
def test_a_flag_that_is_not_listed_is_not_given_or_nothing_is_kept(value: object) -> None:
    usual: dict[str, object] = {**dict.fromkeys(DONE), "hosts": ["a.test"], "memory_mb": 128}
    assert asks_only_what_is_done(Namespace(**usual, new=None, newer=False))
    assert not asks_only_what_is_done(Namespace(**usual, new=value))
