"""Claim: all five capability sets are empty, no_new_privs and the filter are on, and neither a setuid program nor
a request
changes any of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .harness import OWN_PROC, caged, policy, program, uncaged

pytestmark = pytest.mark.guest

STATUS = """
    wanted = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Uid")
    lines = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
    say("status", {name: lines[name].split() for name in wanted})
"""

RAISE = """
    attempt("ambient", call, "prctl", 47, 2, 21, 0, 0)
    attempt("no_new_privs off", call, "prctl", 38, 0, 0, 0, 0)
    attempt("setuid", call, "setuid", OTHER)
    attempt("setresgid", call, "setresgid", OTHER, OTHER, OTHER)
    attempt("setgroups", call, "setgroups", 1, (ctypes.c_uint * 1)(OTHER))
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(1 << 21, 1 << 21, 0, 0, 0, 0)
    attempt("capset", call, "capset", header, sets)
    attempt("bounding", lambda: [cap for cap in range(41) if libc.prctl(23, cap, 0, 0, 0) == 1])
"""
OTHER = 12  # an id that is neither the caller's nor mapped into any cage

NONE = "0" * 16
# Only a user namespace lets an ordinary user empty the bounding set; without one no_new_privs stands in its place.
SETS = {
    "full": ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
    "landlock": ("CapInh", "CapPrm", "CapEff", "CapAmb"),
}
SETUID_PROGRAMS = [each for each in ("/usr/bin/su", "/usr/bin/newgrp", "/usr/bin/mount", "/usr/bin/ping")
                   if os.path.exists(each)]  # fmt: skip
IDENTITIES = [
    ("full", "nobody"),
    ("full", "self"),
    ("full", "root"),
    pytest.param("landlock", "self", marks=pytest.mark.landlock(6)),
]


@pytest.mark.parametrize(("isolation", "run_as"), IDENTITIES)
def test_every_set_is_empty_whoever_we_seem_to_be(isolation: str, run_as: str) -> None:
    values = caged(program(STATUS), policy(isolation, run_as=run_as, allow=OWN_PROC[isolation]))["status"].value

    assert {name: values[name] for name in SETS[isolation]} == {name: [NONE] for name in SETS[isolation]}
    assert (values["NoNewPrivs"], values["Seccomp"]) == (["1"], ["2"])
    assert values["Uid"] == [{"nobody": "65534", "self": str(os.getuid()), "root": "0"}[run_as]] * 4


@pytest.mark.parametrize(("isolation", "run_as"), IDENTITIES)
def test_nothing_asked_for_is_given(isolation: str, run_as: str) -> None:
    report = caged(program(RAISE, OTHER=OTHER), policy(isolation, run_as=run_as))

    unknown_id = {"full": "EINVAL", "landlock": "EPERM"}[
        isolation
    ]  # the id has no meaning in the cage's user namespace
    refused = {
        "ambient": "EPERM",
        "no_new_privs off": "EINVAL",  # it can only be set
        "setuid": unknown_id,
        "setresgid": unknown_id,
        "setgroups": "EPERM",
        "capset": "EPERM",
        "bounding": None,
    }
    assert report.differs(refused) == {}
    assert isolation == "landlock" or report["bounding"].value == []


@pytest.mark.parametrize("setuid_program", SETUID_PROGRAMS)
def test_a_setuid_program_gains_nothing(setuid_program: str, attack_bin: Path, isolation: str) -> None:
    preload = {"LD_PRELOAD": str(attack_bin / "libstatus.so")}
    control = uncaged([setuid_program], env=preload)
    grants = [str(attack_bin), *OWN_PROC[isolation]]

    report = caged([setuid_program], policy(isolation, allow=grants), env=preload)

    held = control.attempts["setuid exec"].value["CapEff"] if control.attempts else "the loader saw a privileged exec"
    assert held != NONE, "the control: without a cage this program runs with privileges"
    value = report["setuid exec"].value
    assert os.path.realpath(value["program"]) == os.path.realpath(setuid_program)
    assert {name: value[name] for name in SETS[isolation]} == dict.fromkeys(SETS[isolation], NONE)
    assert (value["secure"], value["NoNewPrivs"]) == ("0", "1")


def test_the_tests_above_had_a_program_to_try() -> None:
    setuid = [each for each in SETUID_PROGRAMS if os.stat(each).st_mode & 0o4000]

    assert setuid, "no setuid program on this host: install one (su belongs to util-linux)"
