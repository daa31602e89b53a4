"""Claim: a callback that raises, answers nonsense, sleeps or spins refuses the call with an event, and holds up nobody
else: not the wall time, not close(), not another cage.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import pysandbox
from pysandbox import Cage, Event
from pysandbox.errors import StartError
from pysandbox.runtime.runtime import Runtime
from pysandbox.supervise import wire
from pysandbox.supervise.supervisor import Supervisor

from .harness import SLOWNESS, alive_with, first_line, host_script, in_cage, policy, program, token, wait_until

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


class Ends(BaseException):
    """What no `except Exception` catches."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise Ends

    __repr__ = __str__


class Hostile:
    """An answer that fails whatever is asked of it."""

    def _fail(self, *arguments: object) -> object:
        raise Ends

    __bool__ = __repr__ = __str__ = __hash__ = __index__ = __int__ = _fail  # type: ignore[assignment]
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = _fail  # type: ignore[assignment]
    __class__ = property(_fail)  # type: ignore[assignment]


class Lying(int):
    """Says of itself that it is nothing."""

    def _lie(self, *arguments: object) -> bool:
        return True

    __eq__ = __le__ = __ge__ = __lt__ = __gt__ = _lie  # type: ignore[assignment]
    __hash__ = int.__hash__

    def __bool__(self) -> bool:
        return False


def raises(what: BaseException) -> Any:
    def callback(event: object, context: object) -> None:
        raise what

    return callback


def raises_later(what: BaseException) -> Any:
    async def callback(event: object, context: object) -> None:
        raise what

    return callback


def takes_one(event: object) -> None:
    """A callback is called with two."""


def deletes(event: object, context: Any) -> None:
    del context._live
    context.restrict_network([])


def stops_its_loop(event: object, context: object) -> Any:
    async def callback() -> None:
        import asyncio

        asyncio.get_running_loop().stop()
        await asyncio.sleep(PATIENT)

    return callback()


ENDS: dict[str, Any] = {
    "SystemExit": raises(SystemExit(0)), "KeyboardInterrupt": raises(KeyboardInterrupt()), "its own": raises(Ends()),
    "GeneratorExit": raises(GeneratorExit()), "StopIteration": raises(StopIteration()),
    "CancelledError": raises(asyncio.CancelledError()), "no words": raises(Unspeakable()),
    "MemoryError": raises(MemoryError()), "RecursionError": raises(RecursionError()), "wrong signature": takes_one,
    "async SystemExit": raises_later(SystemExit(1)), "async KeyboardInterrupt": raises_later(KeyboardInterrupt()),
    "async CancelledError": raises_later(asyncio.CancelledError()), "async its own": raises_later(Ends()),
    "async GeneratorExit": raises_later(GeneratorExit()), "async StopIteration": raises_later(StopIteration()),
    "hostile answer": lambda event, context: Hostile(), "lying answer": lambda event, context: Lying(1 << 20),
    "a type": lambda event, context: Hostile, "deletes its context": deletes,
}  # fmt: skip
ROUNDS = 20  # more than a cage has turns


@pytest.mark.parametrize("name", ENDS)
def test_whatever_it_raises_refuses_at_once_and_costs_nobody_a_turn(name: str) -> None:
    events: list[Event] = []
    runtime = Runtime(sink=events.append, warm=0)
    failing = True

    def policy_fn(event: object, context: object) -> object:
        return ENDS[name](event, context) if failing else None

    began = time.monotonic()
    binds = """
        import socket
        for number in range(ROUNDS):
            def bind():
                with socket.socket() as s: s.bind(("127.0.0.1", 0))
            attempt(number, bind)
    """
    function = takes_one if name == "wrong signature" else policy_fn
    with Cage(policy(), runtime=runtime, policy_fn=function, watch=["network"], deadline=600) as cage:  # type: ignore[arg-type]
        report = in_cage(cage, program(binds, ROUNDS=ROUNDS))
        failing = False
        if name not in ("wrong signature", "deletes its context"):
            assert in_cage(cage, program(BIND))["bind"].errno is None
    assert {each.errno for each in report.attempts.values()} == {"EPERM"}
    assert time.monotonic() - began < PATIENT * SLOWNESS
    failures = [event for event in events if event.type == "cage.callback_failed"]
    assert len(failures) == ROUNDS
    assert all(isinstance(each.data["reason"], str) for each in failures)
    assert not [event for event in events if event.type == "cage.supervisor_failed"]
    assert report.result is not None and sum(each.count for each in report.result.denials) == ROUNDS
    runtime.drain()


def test_a_callback_that_stops_its_loop_is_refused_and_the_next_one_asked() -> None:
    answers = [stops_its_loop, raises_later(ValueError("second"))]

    def policy_fn(event: object, context: object) -> object:
        return answers.pop(0)(event, context)

    with Cage(policy(), policy_fn=policy_fn, watch=["network"], deadline=2 * SLOWNESS) as cage:
        for _ in range(2):
            assert in_cage(cage, program(BIND))["bind"].errno == "EPERM"
    assert not answers


@pytest.mark.parametrize(
    ("callback", "says"),
    [(lambda event, context: True, "policy_fn refused it"), (lambda event, context: 13, "policy_fn refused it"),
     (takes_one, "policy_fn failed, which refuses: TypeError"), (raises(SystemExit(3)), "SystemExit: 3")],
)  # fmt: skip
def test_the_error_of_a_first_exec_says_who_refused_it(callback: Any, says: str) -> None:
    with pytest.raises(StartError) as caught:
        Cage(policy(), policy_fn=callback, watch=["exec"]).run(["true"])
    assert says in str(caught.value)
    (denial,) = caught.value.denials
    assert (denial.kind, denial.rule, denial.argv) == ("exec", "policy_fn", ("true",))
    assert pickle.loads(pickle.dumps(caught.value)).denials == (denial,)


def test_the_error_of_a_later_command_is_not_blamed_on_an_earlier_refusal(tmp_path: Path) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/nowhere\n")
    tool.chmod(0o755)
    refusing = [True, False]
    with Cage(policy(allow=[str(tmp_path)]), policy_fn=lambda event, context: refusing.pop(0), watch=["exec"]) as cage:
        for says in (True, False):
            with pytest.raises(StartError) as caught:
                cage.run([str(tool)])
            assert ("policy_fn" in str(caught.value)) == says == bool(caught.value.denials)


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
        supervisor = runtime.shared.find(Supervisor)
        assert supervisor is not None
        wire.stop(supervisor.notifier)
        supervisor._leader.join(PATIENT)
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
