"""What of a call on demand is a fork, what is an interpreter that answers, and what are the walls.

    python -m bench.floors [--rounds N] [MODULE ...]

A process without a cage has loaded what a template has loaded, and forks when it is told to, as the template does. Its
child says one byte; or enters the walls of a worker first; or makes the call that is in its socket and answers, by the
same code as a worker. The last rows are calls of a template. All are measured in turn; ratios are of medians. The first
row is the yardstick: os.fork() by a process that was asked to, until the byte is there.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from bench.forking import BYTE, CALL, CPU, WALLED_CALL, WALLS
from bench.forks import ALONE, nothing
from pysandbox import Policy, Template
from pysandbox.pipeline import calls
from pysandbox.pipeline.exchange import CallExchange
from pysandbox.pipeline.memory import send_call
from pysandbox.pipeline.packing import SentCall, packed, sent

WHAT = {
    BYTE: "os.fork(), and a byte",
    WALLS: "  in a session and a Landlock domain",
    CALL: "  and the call is answered",
    WALLED_CALL: "    in a session and a Landlock domain",
}
PAUSE = 0.03  # seconds before each, in which what came before ends, and what has to wait for a call begins to


# ---- what is measured ----------------------------------------------------------------------------------------------


@contextmanager
def server(modules: list[str]) -> Iterator[Callable[[int], tuple[float, float]]]:
    """Tells, for one of `WHAT`, the seconds until the answer is there, and those of the child's CPU."""
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        argv = [sys.executable, "-m", "bench.forking", str(theirs.fileno()), *modules]
        child = subprocess.Popen(argv, pass_fds=[theirs.fileno()], env={**os.environ, **ALONE})
    pieces = packed(SentCall(sent(nothing), (0,)))

    def asked(what: int) -> tuple[float, float]:
        began = time.perf_counter()
        ours, inside_ = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, inside_:
            socket.send_fds(control, [bytes([what])], [inside_.fileno()])
            inside_.close()
            if what in (CALL, WALLED_CALL):
                send_call(ours, 1, pieces)
            if not ours.recv(calls.LONGEST):
                raise RuntimeError(f"no answer to {WHAT[what]!r}")
            took = time.perf_counter() - began
        return took, float(CPU.unpack(control.recv(CPU.size))[0])

    with child, control:
        yield asked
        control.close()


def of_template(template: Template) -> float:
    """Seconds of one call, from its arguments to its answer."""
    began = time.perf_counter()
    pieces = packed(SentCall(sent(nothing), (0,)))
    CallExchange(template.take(), pieces, timeout=None, most=1 << 20).run()
    return time.perf_counter() - began


def rows(modules: list[str], rounds: int) -> Iterator[str]:
    with ExitStack() as stack:
        on_demand = stack.enter_context(Template(Policy(), init=modules, parked=0))
        waiting = stack.enter_context(Template(Policy(), init=modules, parked=1))
        asked = stack.enter_context(server(modules))
        measured: dict[str, Callable[[], tuple[float, float]]] = {
            **{told: partial(asked, what) for what, told in WHAT.items()},
            "a call of a template, on demand": lambda: (of_template(on_demand), 0.0),
            "a call of a worker that waits": lambda: (of_template(waiting), 0.0),
        }
        samples: dict[str, list[tuple[float, float]]] = {told: [] for told in measured}
        for _ in range(rounds + 2):
            for told, measure in measured.items():
                time.sleep(PAUSE)
                samples[told].append(measure())
    wall = {told: statistics.median(took for took, _ in each[2:]) for told, each in samples.items()}
    yardstick = next(iter(wall.values()))
    for told, took in wall.items():
        used = statistics.median(cpu for _, cpu in samples[told][2:])
        cpu = f", {used * 1e3:.2f} ms CPU of the child" if used else ""
        yield f"  {told:40} {took * 1e3:6.2f} ms  {took / yardstick:5.2f}{cpu}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.floors", description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", default=["json"], help="what is loaded before (json)")
    parser.add_argument("--rounds", type=int, default=60, help="measured rounds (60)")
    given = parser.parse_args()
    print(f"with {', '.join(given.modules)} loaded:")
    for line in rows(given.modules, given.rounds):
        print(line)


if __name__ == "__main__":
    main()
