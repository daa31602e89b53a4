"""csrc/setup/caps.c: nothing in a cage holds a capability or can get one; an uncaged run keeps what it has."""

from __future__ import annotations

import os

import pytest

from pysandbox.compile.plan import Plan

from .plans import flat, opened, plan

pytestmark = pytest.mark.guest

SETS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
WANTED = "|".join((*SETS, "NoNewPrivs"))


def own(name: str) -> str:
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(line.split()[1] for line in file if line.startswith(f"{name}:"))


def sets(said: str) -> dict[str, int]:
    return {line.split(":")[0]: int(line.split()[1], 16) for line in said.splitlines()}


NOTHING = {**dict.fromkeys(SETS, 0), "NoNewPrivs": 1}


@pytest.mark.parametrize("wanted", [plan(inside_uid=0), plan()], ids=["uid 0 inside", "another uid inside"])
def test_all_five_sets_are_empty_in_cage_init_and_in_commands(wanted: Plan) -> None:
    with opened(wanted) as init:
        assert {name: int(init.status(name), 16) for name in NOTHING} == NOTHING
        assert sets(init.sh(f"grep -E '^({WANTED})' /proc/self/status").said) == NOTHING


def test_without_namespaces_the_usable_sets_are_empty_and_stay_so() -> None:
    with opened(flat()) as init:
        found = sets(init.sh(f"grep -E '^({WANTED})' /proc/self/status").said)
        assert {**found, "CapBnd": 0} == NOTHING


@pytest.mark.root
def test_root_s_cage_without_namespaces_has_nothing_either() -> None:
    with opened(flat(), uid=0, gid=0) as init:
        assert sets(init.sh(f"grep -E '^({WANTED})' /proc/self/status").said) == NOTHING
        assert init.attempt("os.chroot('/')") == "EPERM"


def test_an_uncaged_run_keeps_what_the_host_has() -> None:
    with opened(flat(isolation="none", landlock=None)) as init:
        found = init.sh(f"grep -E '^({WANTED})' /proc/self/status").said.split()
        assert found == [word for name in (*SETS[:5], "NoNewPrivs") for word in (f"{name}:", own(name))]
        assert os.getppid() > 0
