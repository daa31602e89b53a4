"""What a call of a sandboxed function costs: beside an interpreter that waits without a cage, and one that is started.

    python -m bench.functions [--rounds N] [--mb N] [--forks N]

An interpreter answers one call, and the next is started meanwhile; so there is a pause after each call, which is not
counted. Large arguments and answers go by memory that is handed over: beside them, a copy of as many bytes. The rows of
the executor and of templates are `forks`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import numpy

from bench.forks import told
from pysandbox import sandboxed

PAUSE = 0.3  # seconds for the next interpreter to start
ECHO = "import sys; sys.stdin.buffer.read(1); sys.stdout.buffer.write(b'x')"


@sandboxed()
def one() -> int:
    return 1


@sandboxed()
def same(data: bytes) -> bytes:
    return data


@sandboxed()
def same_array(data: numpy.ndarray) -> numpy.ndarray:
    return data


class Bare:
    """An interpreter without a cage that waits for one byte."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self.child = subprocess.Popen(
            [sys.executable, "-I", "-c", ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )  # fmt: skip

    def call(self) -> None:
        assert self.child.stdin is not None and self.child.stdout is not None
        with self.child:
            self.child.stdin.write(b"x")
            self.child.stdin.flush()
            self.child.stdout.read(1)

    def start_and_call(self) -> None:
        self.start()
        self.call()


def measured(call: Callable[[], object], after: Callable[[], object], rounds: int) -> float:
    samples = []
    for _ in range(rounds + 1):
        time.sleep(PAUSE)
        began = time.perf_counter()
        call()
        samples.append(time.perf_counter() - began)
        after()
    return statistics.median(samples[1:])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.functions", description="Calls of sandboxed functions.")
    parser.add_argument("--rounds", type=int, default=30, help="measured rounds (30)")
    parser.add_argument("--mb", type=int, default=100, help="MiB in and out (100)")
    parser.add_argument("--forks", type=int, default=1000, help="calls of a template (1000)")
    asked = parser.parse_args()
    bare = Bare()
    waiting = measured(bare.call, bare.start, asked.rounds)
    bare.call()
    started = measured(bare.start_and_call, lambda: None, asked.rounds)
    caged = measured(one, lambda: None, asked.rounds)
    print(f"a call: {caged * 1e3:.2f} ms; an interpreter that waits, without a cage: {waiting * 1e3:.2f} ms; "
          f"one that is started: {started * 1e3:.2f} ms")  # fmt: skip
    data = bytes(asked.mb << 20)
    array = numpy.ones(asked.mb << 17)
    copies = measured(lambda: bytes(bytearray(data)), lambda: None, 3)
    for what, there_and_back in (("bytes", lambda: same(data)), ("an array", lambda: same_array(array))):
        call = measured(there_and_back, lambda: None, 3)
        print(f"{asked.mb} MiB as {what}, in and out: {call * 1e3:.0f} ms; two copies of as many bytes: "
              f"{copies * 1e3:.0f} ms: {copies / call:.2f} (bar for an array: at least 0.5)")  # fmt: skip
    one.close()
    same.close()
    same_array.close()
    for line in told(asked.rounds, asked.forks):
        print(line, flush=True)


if __name__ == "__main__":
    main()
