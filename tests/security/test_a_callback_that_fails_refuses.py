"""Claim: a callback that raises, answers nonsense, sleeps or spins refuses the call with an event, and holds up nobody
else: not the wall time, not close(), not another cage.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

import pysandbox
from pysandbox import Cage, Event
from pysandbox.launch.runtime import Runtime
from pysandbox.supervise import wire

from .harness import alive_with, first_line, host_script, in_cage, policy, program, token, wait_until

BIND = """
    import socket
    def bind():
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
    attempt("bind", bind)
"""
PATIENT = 30.0


def asked(answer: Any, deadline: float = PATIENT) -> tuple[str | None, list[str]]:
    """What a bind got, and the reasons of the failures that were told."""
    events: list[Event] = []
    runtime = Runtime(sink=events.append, warm=0)
    cage = Cage(policy(), runtime=runtime, policy_fn=answer, watch=["network"], deadline=deadline)

    report = in_cage(cage, program(BIND))
    runtime.drain()
    failures = [str(event.data["reason"]) for event in events if event.type == "cage.callback_failed"]
    return report["bind"].errno, failures


def raising(event: object, context: object) -> None:
    raise LookupError("no such rule")


async def never(event: object, context: object) -> None:
    import asyncio

    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    ("answer", "number"),
    [(None, None), (False, None), (0, None), ("audit", None), (True, "EPERM"), (-1, "EPERM"), (98, "EADDRINUSE")],
)
def test_each_verdict_is_what_it_says(answer: object, number: str | None) -> None:
    assert asked(lambda event, context: answer) == (number, [])


@pytest.mark.parametrize("answer", [2**40, -2, "allow", 1.0, object])
def test_nonsense_is_refused(answer: object) -> None:
    number, (reason,) = asked(lambda event, context: answer)
    assert number == "EPERM" and "answered" in reason


def test_an_exception_is_refused() -> None:
    assert asked(raising) == ("EPERM", ["LookupError: no such rule"])


def test_what_comes_too_late_is_refused() -> None:
    woken = threading.Event()

    def late(event: object, context: object) -> None:
        woken.wait(PATIENT)

    try:
        events: list[Event] = []
        runtime = Runtime(sink=events.append, warm=0)
        with Cage(policy(), runtime=runtime, policy_fn=late, watch=["network"], deadline=0.2) as cage:
            assert in_cage(cage, program(BIND))["bind"].errno == "EPERM"
            assert wait_until(lambda: any(each.type == "cage.callback_failed" for each in events), 10)
    finally:
        woken.set()
    runtime.drain()


def test_an_async_callback_that_never_answers_is_refused_and_cancelled() -> None:
    number, reasons = asked(never, deadline=0.2)
    assert number == "EPERM" and reasons


@pytest.mark.parametrize("busy", ["sleeping", "spinning"])
def test_nobody_else_waits_for_a_callback(busy: str) -> None:
    """One cage's callback never comes back; another's is asked and answers, and the first one's close() returns."""
    over, asked_first = threading.Event(), threading.Event()

    def stuck(event: object, context: object) -> None:
        asked_first.set()
        while not over.is_set():
            if busy == "sleeping":
                over.wait(PATIENT)

    runtime = Runtime(warm=0)
    try:
        with Cage(policy(grace_sec=0.1), runtime=runtime, policy_fn=stuck, watch=["network"], deadline=600) as first:
            waiting = first.spawn(program(BIND), stdout=pysandbox.DEVNULL)
            assert asked_first.wait(PATIENT)
            allowing = Cage(policy(), runtime=runtime, policy_fn=lambda event, context: None, watch=["network"])

            assert in_cage(allowing, program(BIND))["bind"].errno is None
            assert waiting.pid is not None
            began = time.monotonic()
        assert time.monotonic() - began < PATIENT / 3
    finally:
        over.set()
    runtime.drain()


def test_the_wall_time_does_not_wait_for_a_callback() -> None:
    over = threading.Event()
    runtime = Runtime(warm=0)
    cage = Cage(policy(walltime_sec=1, grace_sec=0.1), runtime=runtime, watch=["network"], deadline=600,
                policy_fn=lambda event, context: over.wait(PATIENT) and None)  # fmt: skip
    try:
        assert cage.run(program(BIND)).reason == "timeout"
    finally:
        over.set()
    runtime.drain()


def test_a_sink_that_raises_costs_no_other_call() -> None:
    complaints: list[object] = []

    def sink(event: Event) -> None:
        if event.type == "cage.supervisor_failed":
            complaints.append(event.data["reason"])
        if event.type == "cage.denied":
            raise OSError("the disk is full")

    runtime = Runtime(sink=sink, warm=0)
    broken = Cage(policy(), runtime=runtime, policy_fn=raising, watch=["network"], deadline=0.3)

    for _ in range(6):
        assert in_cage(broken, program(BIND))["bind"].errno == "EPERM"
    sound = Cage(policy(), runtime=runtime, policy_fn=lambda event, context: None, watch=["network"])
    assert in_cage(sound, program(BIND))["bind"].errno is None
    assert len(complaints) == 6
    runtime.drain()


def test_the_end_of_the_loop_ends_its_cages() -> None:
    events: list[Event] = []
    runtime = Runtime(sink=events.append, warm=0)
    with Cage(policy(), runtime=runtime, watch=["network"]) as cage:
        sleeper = cage.spawn(["sleep", "1000"])
        wire.stop(runtime.supervisor.notifier)
        runtime.supervisor._leader.join(PATIENT)
        cage._live.end()  # type: ignore[union-attr]  # what a loop that fails does for each of its cages
        assert sleeper.wait(PATIENT) != 0
    runtime.drain()


HOST = """
    import sys, threading
    from pysandbox import Cage, Policy
    def never(event, context):
        print("asked", flush=True)
        threading.Event().wait()
    Cage(Policy(), policy_fn=never, watch=["network"], deadline=600).run(
        ["python3", "-c", "import socket, sys; socket.socket().bind(('127.0.0.1', 0))", sys.argv[1]])
"""


def test_a_killed_host_with_a_call_pending_leaves_nothing_running() -> None:

    mark = token()
    with host_script(HOST, mark) as host:
        assert first_line(host) == b"asked\n"
        assert len(alive_with(mark)) >= 2
        host.kill()
        host.wait()
        assert wait_until(lambda: not alive_with(mark), PATIENT)


def test_a_host_that_was_stopped_goes_on_deciding() -> None:

    body = """
        from pysandbox import Cage, Policy
        with Cage(Policy(), policy_fn=lambda event, context: None, watch=["network"], deadline=600) as cage:
            print("open", flush=True)
            command = "import socket\\nfor _ in range(2000): socket.socket().bind(('127.0.0.1', 0))"
            print(cage.run(["python3", "-c", command]).exit_code, flush=True)
    """
    with host_script(body) as host:
        assert first_line(host) == b"open\n"
        for _ in range(3):
            os.kill(host.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, host.pid, os.WSTOPPED)
            os.kill(host.pid, signal.SIGCONT)
        assert first_line(host) == b"0\n"
