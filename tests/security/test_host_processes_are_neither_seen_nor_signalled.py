"""Claim: no process of the host, the supervisor included, can be seen or signalled from a cage, not even by kill(-1).

The deadly form of kill(-1) runs only after the attack has made sure that it is not in the host's PID namespace; the
sweep uses SIGURG, which does nothing to a process that did not ask for it, and the victim did.
"""

from __future__ import annotations

import os

import pytest

from pysandbox import Cage

from .harness import caged, has_own_processes, in_cage, policy, program, uncaged, victim

pytestmark = pytest.mark.guest

ONE = 'attempt("signal", os.kill, PID, signal.SIGURG)'

SWEEP = """
    everyone = int(open("/proc/sys/kernel/pid_max").read()) if os.path.exists("/proc/sys/kernel/pid_max") else 32768
    reached = []
    for pid in {*range(1, min(everyone, 32768) + 1), VICTIM, HOST} - {os.getpid(), os.getppid(), 1}:
        try:
            os.kill(pid, 0)
            reached.append(pid)
            os.kill(pid, signal.SIGURG)
        except OSError:
            pass
    say("sweep", reached)
"""

ALL_OF_THEM = """
    if os.readlink("/proc/self/ns/pid") == HOST_NAMESPACE:
        say("kill all", "not tried: this is the host's PID namespace")
    else:
        child = os.fork()
        if child == 0:
            signal.pause()
        attempt("kill all", os.kill, -1, signal.SIGKILL)
        say("own child", os.WTERMSIG(os.waitpid(child, 0)[1]))
"""

SEEN = """
    seen = []
    for each in os.listdir("/proc"):
        if each.isdigit():
            try:
                seen.append(content(f"/proc/{each}/cmdline").decode("latin-1"))
            except OSError:
                pass
    say("seen", seen)
"""


def test_a_host_process_of_the_same_user_cannot_be_signalled(isolation: str) -> None:
    with victim() as target:
        report = caged(program(ONE, PID=target.pid), policy(isolation))

        assert report["signal"].errno == {"full": "ESRCH", "landlock": "EPERM"}[isolation]
        assert target.untouched


def test_the_same_signal_arrives_uncaged() -> None:
    with victim() as target:
        report = uncaged(program(ONE, PID=target.pid))

        assert report["signal"].errno is None
        assert target.process.stdout is not None and target.process.stdout.readline() == b"signal\n"


def test_no_pid_number_reaches_the_host(isolation: str) -> None:
    with victim() as target:
        report = caged(program(SWEEP, VICTIM=target.pid, HOST=os.getpid()), policy(isolation))

        assert report["sweep"].value == []
        assert target.untouched


def test_the_sweep_finds_the_victim_uncaged() -> None:
    with victim() as target:
        report = uncaged(program(SWEEP, VICTIM=target.pid, HOST=target.pid))

        assert target.pid in report["sweep"].value


def test_kill_of_everyone_reaches_only_the_cage() -> None:
    with victim() as target, Cage(policy()) as cage:
        report = in_cage(cage, program(ALL_OF_THEM, HOST_NAMESPACE=os.readlink("/proc/self/ns/pid")))

        assert report.differs({"kill all": None, "own child": None}) == {}
        assert report["own child"].value == 9
        assert target.untouched
        assert cage.run(["/bin/true"]).ok, "the cage's init survives as well"


def test_no_host_process_is_listed() -> None:
    with victim() as target:
        control = uncaged(program(SEEN))
        report = caged(program(SEEN), policy())

        assert any(target.secret in each for each in control["seen"].value)
        assert not any(target.secret in each for each in report["seen"].value)
        assert len(report["seen"].value) <= 3, "init, this command, and at most one helper"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSTOP", "SIGHUP"])
def test_the_init_of_the_cage_does_not_heed_the_caged(name: str) -> None:
    attack = program("attempt('signal', os.kill, 1, getattr(signal, NAME))", NAME=name)
    with Cage(policy()) as cage:
        assert has_own_processes(cage)
        in_cage(cage, attack)

        assert cage.run(["/bin/true"], timeout=10).ok
