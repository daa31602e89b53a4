"""Claim: --monitor lets no call pass that is refused in every cage: not by its number, not by its arguments, under no
profile, list or isolation. Each is refused with the errno that it has without monitor, and is in the denials, apart
from what monitor has let pass."""

from __future__ import annotations

from typing import Any

import pytest

import pysandbox
from pysandbox import Event, Policy
from pysandbox.runtime.runtime import Runtime

from .harness import OWN_PROC, in_cage, policy, program

# name: (the call, its arguments); of the tier NEVER, then by their arguments alone.
NEVER = {
    "mount": ("mount", (0, 0, 0, 0, 0)),
    "setns": ("setns", (0, 0)),
    "chroot": ("chroot", ("/",)),
    "pivot_root": ("pivot_root", ("/", "/")),
    "sethostname": ("sethostname", ("x", 1)),
    "reboot": ("reboot", (0, 0, 0, 0)),
    "keyctl": ("keyctl", (0, 0, 0, 0, 0)),
    "open_by_handle_at": ("open_by_handle_at", (0, 0, 0)),
    "unshare": ("unshare", (0x10000000,)),
    "packet": ("socket", (17, 3, 0)),
    "TIOCSTI": ("ioctl", (0, 0x5412, 0)),
    "set-uid": ("fchmod", (0, 0o4755)),
    "listener": ("seccomp", (1, 0x8, 0)),
}
# Refused by the profile, and so let pass and told.
OFF = {"getpriority": ("getpriority", (0, 0)), "kcmp": ("kcmp", (0, 0, 0, 0, 0))}
ATTACK = """
    for name, (number, arguments) in CALLS.items():
        attempt(name, call, number, *(each.encode() if isinstance(each, str) else each for each in arguments))
"""
RULES: dict[str, dict[str, Any]] = {
    "baseline": {},
    "default": {"seccomp": "default"},
    "relaxed": {"seccomp": "relaxed"},
    "seed-187": {"seccomp": "seed-187"},
    "deny-list": {"seccomp_mode": "deny-list"},
    "what is refused whole": {"deny_syscalls": ["getpriority", "socket", "ioctl", "fchmod", "seccomp"]},
    "lists": {"syscall_lists": {"allow": ["execve", "read", "write"], "deny": ["mount"]}},
    "with ways out": {"allow_ips": ["203.0.113.7:443"]},
}

# cage-init needs them, and the filter that closes them to commands has nobody to tell; a note says so.
UNHEARD = {key: {"seccomp", "ioctl"} for key in ("seed-187", "lists", "what is refused whole")}


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("isolation", ["full", "landlock"])
def test_it_stays_refused_and_is_recorded(isolation: str, rules: str) -> None:
    events: list[Event] = []
    chosen = {"deny_syscalls": ["getpriority"], "allow": OWN_PROC[isolation], **RULES[rules]}
    attack = program(ATTACK, CALLS=NEVER | OFF)
    runtime = Runtime(sink=events.append, warm=0)
    with pysandbox.Cage(policy(isolation, monitor=True, **chosen), runtime=runtime) as cage:
        report = in_cage(cage, attack)
    assert report.result is not None, report.stderr
    passed = {name for name in NEVER if report[name].errno != "EPERM"}
    assert passed == set()
    denials = {each.target: each for each in report.result.denials}
    never = {number for number, _ in NEVER.values()} - UNHEARD.get(rules, set())
    assert never <= denials.keys()
    assert {name for name in never if not denials[name].rule.startswith("never allowed in a cage")} == set()
    assert all(denials[name].fix == "" for name in never)
    assert report["getpriority"].errno is None
    assert (denials["getpriority"].rule, denials["getpriority"].fix) == ("syscalls.deny_extra", "")
    assert (rules in UNHEARD) == any("cage-init itself needs" in note.message for note in report.result.notes)
    let = {str(each.data["target"]) for each in events if each.type == "cage.denied" and each.data.get("monitor")}
    assert let.isdisjoint(never) and "getpriority" in let
    runtime.drain()


def test_without_a_supervisor_it_stays_refused_as_well() -> None:
    with pysandbox.Cage(Policy(monitor=True, notifier=False)) as cage:
        report = in_cage(cage, program(ATTACK, CALLS=NEVER))
    assert {each.errno for each in report.attempts.values()} == {"EPERM"}


@pytest.mark.parametrize("name", ["mount", "packet"])
def test_a_flood_is_counted(name: str) -> None:
    attack = """
        for number in range(5000):
            try: call(*FLOOD)
            except OSError: pass
        attempt("done", lambda: None)
    """
    number, arguments = NEVER[name]
    with pysandbox.Cage(Policy(monitor=True)) as cage:
        report = in_cage(cage, program(attack, FLOOD=(number, *arguments)))
    assert report["done"].errno is None and report.result is not None
    assert [(each.target, each.count) for each in report.result.denials] == [(number, 5000)]


def test_the_control_nothing_of_this_is_in_the_way_of_a_program_that_asks_for_none_of_it() -> None:
    with pysandbox.Cage(Policy(monitor=True)) as cage:
        result = cage.run(["sh", "-c", "ls / > /tmp/x; wc -l < /tmp/x; id"])
    assert result.exit_code == 0 and result.denials == ()
