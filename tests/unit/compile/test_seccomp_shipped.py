"""The filters that travel with the package: the ones the compiler makes, for every policy without extras."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pysandbox.compile import seccomp
from pysandbox.compile.bpf import CallAction
from pysandbox.compile.filters import compile_filters
from pysandbox.compile.init_calls import left_open
from pysandbox.compile.notify import CATEGORIES
from pysandbox.compile.profiles import SHIPPED
from pysandbox.compile.syscalls import MACHINES
from pysandbox.policy.model import Policy
from pysandbox.probe import prebuilt

try:
    import pyseccomp  # here: it starts a process to find libseccomp, which a unit test may not
except (ImportError, RuntimeError):
    pyseccomp = None

TOOL = Path(__file__).parents[3] / "tools" / "compile_profiles.py"
PLAIN = [
    Policy(seccomp=name, seccomp_mode=mode, strict=strict, isolation=isolation, deny_syscalls=closed)
    for name, mode, strict, isolation, closed in product(
        SHIPPED,
        ("allow-list", "deny-list"),
        (False, True),
        ("full", "landlock"),
        ((), tuple(sorted(seccomp.SYSV_MEMORY))),
    )
]


def reach() -> list[seccomp.Choice]:
    """What a policy with addresses that may be reached, and no other extras, asks for."""
    plain = [seccomp.choose(policy) for policy in PLAIN if policy.isolation == "full"]
    return [each._replace(notify=seccomp.OF_ADDRESSES, leads_out=True) for each in plain]


def test_a_list_of_addresses_asks_for_the_calls_of_a_shipped_filter() -> None:
    """A call more in the list, or one less, and the filter is compiled instead: none that is shipped forgets it."""
    choice = reach()[0]
    asked: list[str] = []
    for odd in ({"accept"}, {"connect"}):
        assert seccomp.shipped(choice._replace(notify=choice.notify ^ odd), "x86_64", asked.append) is None
    for other in ({"leads_out": False}, {"unix": True}, {"unsupported": frozenset({"fallocate"})}):
        assert seccomp.shipped(choice._replace(**other), "x86_64", asked.append) is None
    assert asked == []
    network = {call for calls in CATEGORIES["network"].values() for call in calls}
    assert {*network, "listen"} == seccomp.OF_ADDRESSES


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    return runpy.run_path(str(TOOL))


@pytest.fixture
def shipped(tool: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    main: Callable[[list[str]], int] = tool["main"]
    assert main([str(tmp_path)]) == 0
    monkeypatch.setattr(prebuilt, "DIRECTORY", f"{tmp_path}/seccomp/")
    prebuilt.prebuilt_filter.cache_clear()
    return tmp_path / "seccomp"


def test_every_policy_without_extras_finds_its_filter_and_needs_no_compiler(
    shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh = {pair: seccomp.build(seccomp.choose(pair[0]), pair[1]) for pair in product(PLAIN, MACHINES)}
    fresh = {pair: program for pair, program in fresh.items() if not left_open(program, pair[1])}
    assert {policy.seccomp for policy, _ in fresh} >= {"baseline", "default", "relaxed"}
    reaching = {(choice, machine): seccomp.build(choice, machine) for choice, machine in product(reach(), MACHINES)}
    monkeypatch.setattr(seccomp, "build", None)
    for (policy, machine), program in fresh.items():
        assert compile_filters(policy, machine, prebuilt=prebuilt.prebuilt_filter) == (program, b"", b"")
    for (choice, machine), program in reaching.items():
        held = None if left_open(program, machine) else program
        assert seccomp.shipped(choice, machine, prebuilt.prebuilt_filter) == held
    assert {path.read_bytes() for path in shipped.iterdir()} == {
        *fresh.values(), *(each for (_, machine), each in reaching.items() if not left_open(each, machine))
    }  # fmt: skip
    prebuilt.prebuilt_filter.cache_clear()


def test_a_policy_with_extras_is_compiled_and_never_looked_up(shipped: Path) -> None:
    for path in shipped.iterdir():
        path.write_bytes(b"")
    for extras in (("ptrace",), (*seccomp.SYSV_MEMORY, "ptrace"), ("shmget",)):
        assert seccomp.compile_filter(Policy(deny_syscalls=extras), "x86_64", prebuilt=prebuilt.prebuilt_filter)
    prebuilt.prebuilt_filter.cache_clear()


def test_an_installed_package_carries_what_this_tree_compiles() -> None:
    """Filters left over from an older build would be used in place of the profiles beside them."""
    directory = Path(prebuilt.DIRECTORY)
    for policy, machine in product(PLAIN, MACHINES):
        choice = seccomp.choose(policy)
        carried = directory / choice.file(machine)
        assert not carried.exists() or carried.read_bytes() == seccomp.build(choice, machine)


def test_a_build_needs_no_libseccomp_and_a_check_without_it_fails(
    tool: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyseccomp", None)
    assert tool["main"]([str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
    assert tool["main"]([str(tmp_path), "--check-numbers"]) == 1
    assert "cannot be checked" in capsys.readouterr().err


@pytest.mark.skipif(pyseccomp is None, reason="libseccomp is not installed")
def test_a_number_libseccomp_disputes_stops_the_build(
    tool: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(seccomp_numbers(), "read", 1000)
    assert tool["main"]([str(tmp_path), "--check-numbers"]) == 1
    assert "x86_64 read 0 (here 1000)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def seccomp_numbers() -> dict[str, int]:
    from pysandbox.compile.syscalls import x86_64

    return x86_64.NUMBERS


def test_whether_memory_files_can_be_made_is_known_without_the_profiles(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = {
        (policy, machine): seccomp.decide(seccomp.choose(policy), machine)["memfd_create"] is CallAction.ALLOW
        for policy, machine in product(PLAIN, MACHINES)
    }
    assert {*opened.values()} == {True, False}
    for (policy, machine), expected in opened.items():
        assert seccomp.makes_memory_files(seccomp.choose(policy), machine) is expected
    assert seccomp.makes_memory_files(
        seccomp.choose(Policy(seccomp="baseline", allow_syscalls=("memfd_create",))), "x86_64"
    )
    assert not seccomp.makes_memory_files(
        seccomp.choose(Policy(seccomp="default", deny_syscalls=("memfd_create",))), "x86_64"
    )
    monkeypatch.setattr(seccomp, "decide", None)
    for policy in (each for each in PLAIN if not each.deny_syscalls):
        seccomp.makes_memory_files(seccomp.choose(policy), "x86_64")
