"""What a failed program could not do without: told of debuggers by their name, of git by its exit code; and what is
told of a program that has not failed."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pysandbox.cli import needs, why_failed
from pysandbox.compile.notes import repository_read_only
from pysandbox.denial import Denial
from pysandbox.policy.model import Policy

LAUNCHER = Path(__file__).parents[3] / "csrc" / "launcher" / "failure.c"
TOLD = "--allow-syscall ptrace"


@pytest.mark.parametrize("name", ["strace", "/usr/bin/gdb"])
def test_a_debugger_is_told_what_lets_it_trace(name: str) -> None:
    assert needs.tracing([name, "true"], Policy()).endswith(TOLD)


@pytest.mark.parametrize(
    "policy", [Policy(allow_syscalls=["ptrace"]), Policy(deny_syscalls=["ptrace"]), Policy(seccomp="relaxed")]
)
def test_nothing_is_told_of_a_debugger_where_that_would_not_help(policy: Policy) -> None:
    assert needs.tracing(["strace", "true"], policy) == needs.tracing(["straced"], Policy()) == ""


def test_the_launcher_knows_the_same_debuggers() -> None:
    table = re.search(r"NAMES\[\] = \{(.*?)\}", LAUNCHER.read_text(), re.DOTALL)
    assert table is not None
    assert set(re.findall(r'"([^"]+)"', table[1])) == needs.TRACERS


def test_git_s_failure_leads_to_its_directory_where_that_is_read_only() -> None:
    shown: Any = SimpleNamespace(notes=(repository_read_only("filesystem.workdir", "/r/.git"),))
    none: Any = SimpleNamespace(notes=())
    assert needs.repository(needs.GIT_FAILED, shown).endswith("--allow-write /r/.git")
    assert needs.repository(1, shown) == needs.repository(needs.GIT_FAILED, none) == ""


def test_a_success_tells_what_was_refused_and_can_be_allowed() -> None:
    host = Denial("dns", "a.example", "host", "x", flag="--host a.example")
    file = Denial("file", "/secret", "filesystem.allow", "x", flag="--allow /secret")
    never = Denial("syscall", "ptrace", "syscalls.deny_extra", "")
    told = why_failed.all_the_same([host, file, never], recorded=False)
    assert told == "ended with exit code 0, and was refused: dns a.example; to allow it: --host a.example"
    assert "--allow /secret" in why_failed.all_the_same([file, never], recorded=False)
    assert why_failed.all_the_same([never], recorded=False) == why_failed.all_the_same([], recorded=True) == ""
