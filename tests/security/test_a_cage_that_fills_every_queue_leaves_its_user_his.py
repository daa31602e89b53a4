"""Claim: one cage does not use up what the kernel counts per user: signals that wait, POSIX queues; and descriptors on
their way through sockets, however many, keep the host from no command.
"""

from __future__ import annotations

import errno
import json

import pytest

from pysandbox import PIPE, Cage

from .harness import FLIGHT, Report, first_line, host_script, policy, program, read_report, uncaged

SIGNALS = """
    import struct
    number = signal.SIGRTMIN
    signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    info = struct.pack("iiiiii", number, 0, -1, 0, os.getpid(), os.getuid()).ljust(128, bytes(1))
    def take(each):
        call("rt_sigqueueinfo", os.getpid(), number, info)
"""
QUEUES = """
    def take(each):
        name = f"psb-{os.getpid()}-{each}"
        call("mq_open", name, os.O_CREAT | os.O_RDWR, 0o600, 0)
        call("mq_unlink", name)
"""
HOLD = """
    taken = 0
    def take_all():
        global taken
        for taken in range(MOST + 1):
            take(taken)
    attempt("all", take_all)
    say("taken", taken)
    sys.stdout.flush()
    if HOLDS:
        sys.stdin.read(1)
"""
CASES = {"signals": (SIGNALS, 1024, "EAGAIN"), "queues": (QUEUES, 2, "EMFILE")}


@pytest.mark.parametrize("case", CASES)
def test_the_user_still_gets_some_while_a_cage_holds_all_it_can(case: str) -> None:
    take, most, refusal = CASES[case]
    with Cage(policy()) as cage, cage.spawn(program(take, HOLD, MOST=3000, HOLDS=1), stdin=PIPE, stdout=PIPE) as taker:
        assert taker.stdout is not None
        held = read_report(0, (taker.stdout.readline() + taker.stdout.readline()).decode(), "")
        assert (held["all"].errno, held["taken"].value) == (refusal, most)

        assert uncaged(program(take, HOLD, MOST=3, HOLDS=0))["all"].errno is None
        taker.kill()


@pytest.mark.parametrize("case", CASES)
def test_the_control_takes_more(case: str) -> None:
    take, most, _ = CASES[case]
    report: Report = uncaged(program(take, HOLD, MOST=most + 1, HOLDS=0))
    assert (report["all"].errno, report["taken"].value) == (None, most + 1)


HOST = """
    import array, json, resource, socket, sys
    from pysandbox import PIPE, Cage, Policy, Runtime
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with Cage(Policy(), runtime=Runtime(warm=0)) as cage:
        with cage.spawn(json.loads(sys.argv[1]), stdin=PIPE, stdout=PIPE) as taker:
            said = taker.stdout.readline().decode()
            pair = socket.socketpair()
            try:
                socket.send_fds(pair[0], [b"x"], [0])
                control = "sent"
            except OSError as error:
                control = error.errno
            ran = cage.run(["/bin/echo", "ran"]).stdout
            kept = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            print(json.dumps([said, control, ran, kept]), flush=True)
            taker.kill()
"""


def test_descriptors_in_flight_keep_the_host_from_no_command() -> None:
    with host_script(HOST, json.dumps(program(FLIGHT))) as host:
        said, control, ran, kept = json.loads(first_line(host))
        host.wait()
    assert "ETOOMANYREFS" in said and control == errno.ETOOMANYREFS, "the control: others are refused"
    assert (ran, kept) == ("ran\n", 1024)
