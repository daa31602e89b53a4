"""cage-init can do its duties under every filter, and what is left open for it is closed to every command."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from pysandbox.compile import bpf_run, seccomp
from pysandbox.compile.filters import Filters, compile_filters
from pysandbox.compile.init_calls import INIT_CALLS, INSTALLS, OPENS_INSTEAD, RET_ALLOW, RET_LOG, left_open
from pysandbox.compile.plan import NotifyPlan
from pysandbox.compile.profiles import names_of, profile
from pysandbox.compile.syscalls import MACHINES, table
from pysandbox.errors import PolicyError
from pysandbox.policy.model import Policy
from unit.compile.bpf_simulator import Machine

INIT_SOURCES = Path(__file__).parents[3] / "csrc" / "init"
BEFORE_THE_FILTER = {"close_range", "rt_sigaction", "signalfd4"}
THE_COMMAND_S = {"execve"}
LISTED = names_of(profile("baseline").allow)
SEED = names_of(profile("seed-187").allow)
NOTIFY = NotifyPlan(("execve", "open", "creat", "openat"), (("EXEC", "TELL"), ("OPEN", "ASK")), (), True, True, False,
                    False, None)  # fmt: skip


def called() -> set[str]:
    wrappers = {"sys_open": "openat", "sys_close": "close", "sys_write": "write", "sys_exit": "exit_group"}
    text = "".join(source.read_text() for source in INIT_SOURCES.glob("*.c"))
    direct = set(re.findall(r"\bSYS_([a-z][a-z0-9_]*)", text))
    return direct | {call for wrapper, call in wrappers.items() if re.search(rf"\b{wrapper}\(", text)}


def lists(without: str = "", names: tuple[str, ...] = LISTED, **more: Any) -> Policy:
    return Policy(syscall_lists={"allow": [name for name in names if name != without], "deny": []}, **more)


def test_the_list_is_what_the_sources_call() -> None:
    known = {*INIT_CALLS, OPENS_INSTEAD, INSTALLS}
    assert called() - BEFORE_THE_FILTER - THE_COMMAND_S == known


def holds(filters: Filters, machine: str) -> set[str]:
    """The calls of cage-init that the cage's filter does not simply let pass."""
    known = table(machine)
    kernel = Machine(filters.whole)

    def passes(name: str, registers: tuple[int, ...]) -> bool:
        return kernel.run(known.audit_arch, known.numbers[name], registers) in (RET_ALLOW, RET_LOG)

    lost = {name for name, ways in INIT_CALLS.items() if not all(passes(name, way) for way in ways)}
    return lost - ({"openat"} if passes(OPENS_INSTEAD, (0xFFFFFF9C,)) else set())


HARD: dict[str, Policy] = {
    **{f"lists without {call}": lists(call) for call in (*INIT_CALLS, INSTALLS)},
    **{f"deny_extra {call}": Policy(deny_syscalls=(call,)) for call in (*INIT_CALLS, INSTALLS)},
    "the seed's own list": lists(names=SEED),
    "nothing but execve": lists(names=("execve",)),
    "the seed's profile": Policy(seccomp="seed-187"),
    "all refused": Policy(seccomp="relaxed", deny_syscalls=tuple(INIT_CALLS)),
}
VARIANTS: tuple[dict[str, Any], ...] = ({}, {"strict": True}, {"monitor": True}, {"isolation": "landlock"})
EVERY = pytest.mark.parametrize(("machine", "notify"), list(itertools.product(MACHINES, (None, NOTIFY))))


@EVERY
def test_under_every_filter_cage_init_can_do_its_duties(machine: str, notify: NotifyPlan | None) -> None:
    from dataclasses import replace

    for (name, policy), variant in itertools.product(HARD.items(), VARIANTS):
        filters = compile_filters(replace(policy, **variant), machine, notify)
        assert holds(filters, machine) == set(), (name, variant)


@EVERY
def test_what_is_left_open_for_cage_init_is_closed_to_every_command(machine: str, notify: NotifyPlan | None) -> None:
    """The stricter answer of both filters is the policy's own, for every call and a few registers."""
    known = table(machine)
    registers = ((), (0, 1030), (0, 0x5412), (0x7E020000,), (1, 8), (0xFFFFFF9C, 0, 0o100, 0o4755), (1,))
    for name, policy in HARD.items():
        exact = Machine(seccomp.compile_filter(policy, machine, notify))
        both = [Machine(each) for each in compile_filters(policy, machine, notify) if each]
        for number, row in itertools.product((*known.numbers.values(), 5000, 0x40000001), registers):
            answers = [each.run(known.audit_arch, number, row) for each in both]
            assert min(answers, key=strictness) == exact.run(known.audit_arch, number, row), (name, number, row)


def strictness(word: int) -> int:
    """As a signed number, the lowest action is the strictest (seccomp_run_filters)."""
    action = word & 0xFFFF0000
    return action - (1 << 32) if action & 0x80000000 else action


def test_where_cage_init_can_live_there_is_one_filter() -> None:
    for machine, policy in itertools.product(MACHINES, (Policy(), Policy(deny_syscalls=("ptrace",)), lists())):
        assert compile_filters(policy, machine).late == b""


def test_a_profile_decides_by_what_it_lets_pass_and_not_by_its_name() -> None:
    seed = seccomp.compile_filter(Policy(seccomp="seed-187"), "x86_64")
    assert left_open(seed, "x86_64") == {"landlock_restrict_self", "seccomp"}
    roomy = Policy(seccomp="seed-187", allow_syscalls=("landlock_restrict_self",))
    assert compile_filters(roomy, "x86_64").late == b""


@pytest.mark.parametrize(
    ("policy", "key"),
    [
        (lists("execve"), "syscalls.lists"),
        (Policy(deny_syscalls=("execve",)), "syscalls.deny_extra"),
        (lists(names=("read",)), "syscalls.lists"),
    ],
)
def test_a_filter_under_which_no_command_can_start_is_refused_by_name(policy: Policy, key: str) -> None:
    with pytest.raises(PolicyError, match="'execve' is refused") as refusal:
        compile_filters(policy, "x86_64")
    assert refusal.value.key == key


@pytest.mark.parametrize("machine", MACHINES)
def test_the_program_that_asks_answers_as_the_simulated_kernel(machine: str) -> None:
    known = table(machine)
    for policy in (Policy(), Policy(strict=True), Policy(seccomp="default"), lists("ppoll")):
        for program in filter(None, compile_filters(policy, machine)):
            kernel = Machine(program)
            for number, row in itertools.product((*range(600), 0x40000001, 0xFFFFFFFF), ((), (1, 2, 3), (2, 2, 0))):
                expected = kernel.run(known.audit_arch, number, row)
                assert bpf_run.answer(program, known.audit_arch, number, row) == expected
