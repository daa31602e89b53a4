"""Claim: full pipes, endless output, junk on every descriptor, closed stdio and rapid forks neither hang nor bloat
the host.
"""

from __future__ import annotations

import resource
import time
from pathlib import Path

import pytest

import pysandbox
from pysandbox import PIPE, Cage

from .conftest import Ground
from .harness import caged, host_script, in_cage, policy, program, read_report, uncaged

BOUND = 30.0

SCRIBBLE = """
    junk = os.urandom(4096)
    written = []
    for round in range(3):
        for fd in range(3, 4096):
            for action in (lambda: os.write(fd, junk), lambda: os.ftruncate(fd, 0), lambda: os.dup2(fd, 4095 - fd),
                           lambda: __import__("socket").socket(fileno=os.dup(fd)).send(junk)):
                try:
                    action()
                    written.append(fd)
                except OSError:
                    pass
    os.closerange(0, 4096)
    for _ in range(64):
        os.open("/dev/null", os.O_RDWR)
    for fd in range(64):
        os.write(fd, junk)
    os._exit(9)
"""

CLOSED_STDIO = """
    import os, sys
    from pysandbox import Cage, Policy, testing
    answer = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600)
    answer = os.dup2(answer, 100)
    for fd in map(int, sys.argv[3].split(",")):
        os.close(fd)
    with Cage(Policy(isolation=sys.argv[2], run_as="self")) as cage:
        result = cage.run(["/bin/sh", "-c", "echo out; echo err >&2; cat; exit 3"], input="in\\n", timeout=20)
    os.write(answer, repr((result.exit_code, result.stdout, result.stderr)).encode())
    testing.drain()
    os._exit(0)  # not through the interpreter's own flush of what was closed
"""


def test_a_full_pipe_that_nobody_reads_does_not_hold_the_host(isolation: str) -> None:
    with Cage(policy(isolation)) as cage:
        flood = ["/bin/sh", "-c", "head -c 10000000 /dev/zero; head -c 10000000 /dev/zero >&2"]
        with cage.spawn(flood, stdout=PIPE, stderr=PIPE) as stuck:
            start = time.monotonic()

            assert cage.run(["/bin/echo", "free"], timeout=BOUND).stdout == "free\n"
            stuck.kill()

            assert stuck.wait(timeout=BOUND) == -9
            assert time.monotonic() - start < BOUND


def test_input_that_the_command_never_reads_does_not_hold_the_host(isolation: str) -> None:
    result = pysandbox.run(["/bin/true"], policy=policy(isolation), input="x" * 10_000_000, timeout=BOUND)

    assert result.ok


def test_output_beyond_the_cap_is_dropped_and_said_so(isolation: str) -> None:
    flood = ["/bin/sh", "-c", "head -c 300000000 /dev/zero; head -c 300000000 /dev/zero >&2; exit 7"]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    result = pysandbox.run(flood, policy=policy(isolation, output_mb=1), text=False, timeout=2 * BOUND)

    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert (len(result.stdout), len(result.stderr), result.truncated) == (1 << 20, 1 << 20, True)
    assert result.exit_code == 7, "the command is read to its end, not blocked or killed"
    assert grown_mb < 64, "the flood was 572 MiB"


def test_output_below_the_cap_is_whole(isolation: str) -> None:
    result = pysandbox.run(
        ["/bin/sh", "-c", "head -c 1000000 /dev/zero"], policy=policy(isolation, output_mb=1), text=False
    )

    assert (len(result.stdout), result.truncated) == (1_000_000, False)


def test_junk_on_every_descriptor_reaches_nothing_of_the_supervisor(isolation: str) -> None:
    with Cage(policy(isolation)) as cage:
        for _ in range(3):
            report = in_cage(cage, program(SCRIBBLE))
            assert report.result is not None and report.result.reason == "exited"
            assert report.exit_code == 9, report.stderr

        assert cage.run(["/bin/echo", "still here"], timeout=BOUND).stdout == "still here\n"


@pytest.mark.parametrize("closed", ["0", "1", "2", "0,1,2"])
def test_a_host_with_closed_stdio_gets_the_right_streams(ground: Ground, isolation: str, closed: str) -> None:
    answer = ground.inside / "answer"

    with host_script(CLOSED_STDIO, str(answer), isolation, closed) as host:
        assert host.wait(timeout=BOUND) == 0

    assert answer.read_text() == repr((3, "out\nin\n", "err\n"))


@pytest.mark.parametrize(("kind", "count"), [("churn", 3000), ("litter", 1000)])
def test_rapid_forks_are_reaped(attack_bin: Path, isolation: str, kind: str, count: int) -> None:
    flood = [str(attack_bin / "many"), kind, str(count)]
    with Cage(policy(isolation, allow=[str(attack_bin)])) as cage:
        report = in_cage(cage, flood)

        assert (report[kind].errno, report[kind].value) == (None, count)
        zombies = "cat /proc/[0-9]*/stat 2> /dev/null | grep -c ') Z '"
        if isolation == "full":
            assert str(cage.run(["/bin/sh", "-c", zombies], timeout=BOUND).stdout).strip() in ("0", "1")
    assert uncaged(flood)[kind].value == count


@pytest.mark.slow
def test_forty_thousand_forks_end(attack_bin: Path) -> None:
    result = pysandbox.run(
        [str(attack_bin / "many"), "churn", "40000"], policy=policy(allow=[str(attack_bin)]), timeout=300
    )

    assert read_report(result.exit_code, str(result.stdout), str(result.stderr))["churn"].value == 40_000


def test_a_command_that_closes_its_stdio_is_still_waited_for(isolation: str) -> None:
    report = caged(program("os.closerange(0, 10)\nimport time\ntime.sleep(0.2)\nos._exit(4)"), policy(isolation))

    assert report.exit_code == 4
    assert report.result is not None and report.result.duration >= 0.2
