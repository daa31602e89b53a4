"""cage-init lives under the filters that are said to let it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pysandbox.compile.bpf import Verdict, When
from pysandbox.compile.init_calls import INIT_CALLS, ROOMY_PROFILES, init_can_live_under
from pysandbox.compile.seccomp import choose, decide
from pysandbox.compile.syscalls import MACHINES
from pysandbox.policy.model import Policy

INIT_SOURCES = Path(__file__).parents[3] / "csrc" / "init"
SHARED = Path(__file__).parents[3] / "csrc" / "sys.h"
BEFORE_THE_FILTER = {"close_range", "rt_sigaction", "seccomp", "signalfd4"}


def called() -> set[str]:
    wrappers = {"sys_open": "openat", "sys_close": "close", "sys_write": "write", "sys_exit": "exit_group"}
    text = "".join(source.read_text() for source in INIT_SOURCES.glob("*.c"))
    direct = set(re.findall(r"\bSYS_([a-z][a-z0-9_]*)", text))
    return direct | {call for wrapper, call in wrappers.items() if re.search(rf"\b{wrapper}\(", text)}


def test_the_list_is_what_the_sources_call() -> None:
    assert called() - BEFORE_THE_FILTER == INIT_CALLS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("profile", sorted(ROOMY_PROFILES))
@pytest.mark.parametrize("isolation", ["full", "landlock"])
def test_a_roomy_profile_allows_every_call_or_rules_only_on_its_arguments(
    machine: str, profile: str, isolation: str
) -> None:
    decisions = decide(choose(Policy(seccomp=profile, isolation=isolation, strict=True)), machine)
    for call in INIT_CALLS:
        decision = decisions[call]
        assert decision is Verdict.ALLOW or isinstance(decision, (When, tuple)), (call, decision)


def test_a_policy_that_refuses_one_of_the_calls_is_installed_late() -> None:
    assert init_can_live_under(Policy())
    assert not init_can_live_under(Policy(deny_syscalls=["recvmsg"]))
    assert not init_can_live_under(Policy(seccomp="seed-187"))
