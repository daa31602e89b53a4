"""From the last report of a command to its reason, its return code and its exit code: the whole table."""

from __future__ import annotations

import signal
from dataclasses import dataclass

import pytest

from pysandbox.compile import notes
from pysandbox.denial import Denial
from pysandbox.exit_codes import shell_code
from pysandbox.result import Reason, Result, Usage, reason_of, returncode_of, usage_of


@dataclass
class Report:
    """As cage-init would send it; `status` is a wait status."""

    status: int = 0
    timed_out: bool = False
    user_time: float = 1.0
    system_time: float = 2.0
    max_rss_kb: int = 3


def exited(code: int) -> Report:
    return Report(code << 8)


KILLED, TERMINATED, FILTERED = Report(signal.SIGKILL), Report(signal.SIGTERM), Report(signal.SIGSYS)
OUT_OF_TIME = Report(signal.SIGKILL, timed_out=True)

CASES: list[tuple[Report | None, Reason | None, Reason | None, Reason, int, int]] = [
    # report, why we killed it, why it was asked to end -> reason, return code, exit code
    (exited(0), None, None, "exited", 0, 0),
    (exited(7), None, None, "exited", 7, 7),
    (TERMINATED, None, None, "signaled", -15, 143),
    (FILTERED, None, None, "seccomp", -31, 159),
    (KILLED, "oom", None, "oom", -9, 137),
    (KILLED, "cancelled", None, "cancelled", -9, 137),
    (KILLED, "timeout", None, "timeout", -9, 124),
    (OUT_OF_TIME, None, None, "timeout", -9, 124),
    (OUT_OF_TIME, "cancelled", None, "timeout", -9, 124),  # the wall time came first
    (TERMINATED, None, "cancelled", "cancelled", -15, 143),
    (exited(3), None, "cancelled", "exited", 3, 3),  # it was asked to end, and ended in its own way
    (exited(3), None, "timeout", "timeout", 3, 124),  # its time was up, whatever it answers
    (TERMINATED, "oom", "timeout", "oom", -15, 143),
    (None, None, None, "cancelled", -9, 137),  # cage-init was killed, and everything with it
    (None, "oom", None, "oom", -9, 137),
]


@pytest.mark.parametrize(("report", "cause", "blamed", "reason", "returncode", "exit_code"), CASES)
def test_an_end_and_what_is_said_of_it(
    report: Report | None, cause: Reason | None, blamed: Reason | None, reason: Reason, returncode: int, exit_code: int
) -> None:
    assert reason_of(report, cause, blamed) == reason
    assert returncode_of(report) == returncode
    assert Result(("x",), returncode, reason).exit_code == exit_code


def test_the_usage_is_that_of_the_report_and_none_without_one() -> None:
    assert usage_of(exited(0)) == Usage(1.0, 2.0, 3)
    assert usage_of(None) == Usage()


@pytest.mark.parametrize(("returncode", "out_of_time", "code"), [(0, False, 0), (255, False, 255), (-9, False, 137),
                                                                 (0, True, 124), (-9, True, 124)])  # fmt: skip
def test_a_shell_sees(returncode: int, out_of_time: bool, code: int) -> None:
    assert shell_code(returncode, out_of_time=out_of_time) == code


def test_a_result_is_short_to_look_at_and_says_to_a_person_what_came_of_it() -> None:
    denial = Denial("network", "evil.example:443", "host", 'hosts = ["evil.example"]', count=3)
    long = Result(("sh", "-c", "x" * 500), 1, "exited", "y" * 100_000, "bad\n", denials=(denial,), notes=())

    assert repr(Result(("echo", "hi"), 0, "exited", "hi\n", "")) == (
        "Result(['echo', 'hi'], exit_code=0, stdout='hi\\n', stderr='', duration=0.000)"
    )
    assert len(repr(long)) < 400 and "denials=<1>" in repr(long) and "(100000 in all)" in repr(long)
    assert len(str(long)) < 5000
    assert str(long).splitlines()[-1] == (
        'refused: network evil.example:443 (host, 3 times); to allow it: hosts = ["evil.example"]'
    )
    assert str(Result(("true",), -15, "signaled", b"\xff", None)).splitlines() == [
        "'true' was ended by signal 15 after 0.00 s", "stdout:", "\N{REPLACEMENT CHARACTER}"
    ]  # fmt: skip


@pytest.mark.parametrize("reason", ("exited", "signaled", "timeout", "oom", "seccomp", "cancelled"))
def test_every_end_has_words(reason: Reason) -> None:
    assert f"exit code {Result(('true',), 1, reason).exit_code}" in str(Result(("true",), 1, reason)) or (
        reason == "signaled"
    )


def test_a_result_can_be_a_member_of_a_set() -> None:
    one, other = (Result(("true",), 0, "exited", "a", network=counts) for counts in ({}, {"x": 1}))
    assert len({one, other, one}) == 2


def test_only_what_is_weaker_is_said_of_a_result() -> None:
    absent = notes.guards_absent("filesystem.workdir", "/project", ".git")
    weaker = notes.Note(notes.DEGRADED, "isolation", "no Landlock on this host")
    assert "note" not in f"{Result(('true',), 0, 'exited', notes=(absent,))!s}"
    told = Result(("true",), 0, "exited", notes=(absent, weaker))
    assert str(told).splitlines()[1:] == ["note: isolation: no Landlock on this host"] and "notes=<1>" in repr(told)
