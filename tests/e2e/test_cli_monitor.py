"""`pysandbox run --monitor`: a preview before, a summary after, and what would be refused is let pass."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 60  # seconds after which a test is stuck
ASK = "import os; print(os.getpriority(os.PRIO_PROCESS, 0))"
REFUSE = ["--deny-syscall", "getpriority"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pysandbox", "run", "--workdir", "none", *arguments, "--", "python3", "-c", ASK],
        capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, env=environment,
    )  # fmt: skip


def test_what_is_refused_is_told_and_let_pass(environment: dict[str, str]) -> None:
    refused = run(environment, *REFUSE)
    assert "PermissionError" in refused.stderr  # the control
    assert "MONITOR:" not in refused.stderr
    done = run(environment, *REFUSE, "--monitor")
    assert (done.returncode, done.stdout) == (0, f"{os.getpriority(os.PRIO_PROCESS, 0)}\n")  # as it was started with
    told = done.stderr.splitlines()
    assert all(line.startswith("MONITOR: ") for line in told)
    assert "gives no security" in told[0]
    assert any("Without --monitor this policy would hold" in line for line in told)
    at = told.index("MONITOR: Would have been refused:")
    line = "syscall getpriority, once (syscalls.deny_extra)"  # which wins over every grant
    assert told[at + 1] == f"MONITOR:   {line}"
    assert told[at + 2].endswith("variables are inherited that would be dropped.")
    assert all(each.startswith("MONITOR:   Not observed: ") for each in told[at + 3 :])


def test_what_no_refusal_stands_for_is_counted(environment: dict[str, str]) -> None:
    def inherited(*flags: str) -> int:
        told = run(environment | {"PSB_ONE": "1"}, "--monitor", "--max-pids", "9", *flags).stderr
        assert "MONITOR:   The limit of 9 processes is not set.\n" in told
        return int(re.findall(r"MONITOR:   ([0-9]+) variables? (?:is|are) inherited that would be dropped\.", told)[0])

    assert inherited() == inherited("--env-passthrough", "PSB_ONE") + 1


def test_nothing_to_tell_is_told(environment: dict[str, str]) -> None:
    done = run(environment, "--monitor")
    assert "MONITOR: Nothing of what is observed would have been refused." in done.stderr.splitlines()


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--no-notifier"], "calls that no cage may make"),
        (["--no-notifier"], "files: "),
        ([], "connections: "),
        (["--no-notifier"], "system calls and programs"),
    ],
)
def test_silence_about_what_nobody_saw_is_not_taken_for_consent(
    environment: dict[str, str], flags: list[str], says: str
) -> None:
    done = run(environment, "--monitor", *REFUSE, *flags)
    told = done.stderr.splitlines()
    assert any(line.startswith(f"MONITOR:   Not observed: {says}") for line in told)
    assert not any("would have been refused." in line for line in told)


def test_connections_are_observed_where_there_is_a_way_out(environment: dict[str, str]) -> None:
    done = run(environment, "--monitor", "--host", "a.example")
    assert "Not observed: connections" not in done.stderr


def test_the_document_is_alone_on_standard_output(environment: dict[str, str]) -> None:
    done = run(environment, *REFUSE, "--monitor", "--json")
    assert json.loads(done.stdout)["exit_code"] == 0
    assert all(line.startswith("MONITOR: ") for line in done.stderr.splitlines())


def test_it_never_starts_from_a_kept_plan(environment: dict[str, str]) -> None:
    for _ in range(3):
        assert run(environment, "--monitor").stderr.startswith("MONITOR: ")


def test_monitor_is_refused_beside_strict(environment: dict[str, str]) -> None:
    done = run(environment, "--monitor", "-s")
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith("pysandbox: error: monitor: ")


def test_what_no_cage_may_do_stays_refused_and_is_listed(environment: dict[str, str]) -> None:
    flags = ["--workdir", "none", "--monitor", "--", "unshare", "-U", "true"]
    command = [sys.executable, "-m", "pysandbox", "run", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, env=environment)
    assert done.returncode == 1 and "Operation not permitted" in done.stderr
    told = done.stderr.splitlines()
    at = told.index("MONITOR: Was refused, with --monitor as well:")
    assert told[at + 1] == "MONITOR:   syscall unshare, once (never allowed in a cage)"
    assert not any("would have been refused" in line for line in told)
