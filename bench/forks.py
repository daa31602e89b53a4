"""Rows of `python -m bench.functions` for the executor and for templates: what it is compared with, and how.

A fork of a template stands beside os.fork of an interpreter without a cage that has imported the same and frozen its
garbage: its child says one byte, ends and is waited for. Both are measured in turn, and a ratio is that of medians.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from bench.memory import below
from pysandbox import CageExecutor, Policy, Template

FORKS = """
import gc, os, sys
gc.disable()
for name in sys.argv[1:]:
    __import__(name)
gc.collect(); gc.freeze()
for line in sys.stdin:
    for _ in range(int(line)):
        read, write = os.pipe()
        if not (child := os.fork()):
            gc.enable(); os.write(write, b'x'); os._exit(0)
        os.close(write); os.read(read, 1); os.close(read); os.waitpid(child, 0)
    print(flush=True)
"""
BEHIND = 200  # calls that are submitted while one runs
SPIN = 1_500_000  # rounds of a loop: some 50 ms
ALONE = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def nothing(_: object = None) -> None:
    return None


def spins(rounds: int) -> int:
    total = 0
    for number in range(rounds):
        total += number
    return total


def sleeps() -> None:
    time.sleep(600)


# ---- the executor --------------------------------------------------------------------------------------------------


def submit_cost(isolate: str) -> float:
    """Seconds of the caller's, for one of many calls that have to wait."""
    with CageExecutor(isolate=isolate, max_workers=1) as executor:
        first = executor.submit(sleeps)
        while not first.running():
            time.sleep(0.01)
        samples, futures = [], []
        for _ in range(BEHIND):
            began = time.perf_counter()
            futures.append(executor.submit(nothing, 1))
            samples.append(time.perf_counter() - began)
        for each in [*futures, first]:
            each.cancel()
    return statistics.median(samples)


def two_workers(isolate: str, rounds: int, calls: int = 8) -> float:
    """How many times as many calls that compute are answered by two workers as by one; the two are measured in turn."""
    samples: dict[int, list[float]] = {1: [], 2: []}
    with ExitStack() as stack:
        made = {most: stack.enter_context(CageExecutor(isolate=isolate, max_workers=most)) for most in (1, 2)}
        for _ in range(rounds + 1):
            for most, executor in made.items():
                time.sleep(0.3)  # for the interpreters that wait ahead
                began = time.perf_counter()
                list(executor.map(spins, [SPIN] * calls))
                samples[most].append(time.perf_counter() - began)
    return statistics.median(samples[1][1:]) / statistics.median(samples[2][1:])


# ---- templates -----------------------------------------------------------------------------------------------------


@contextmanager
def bare_forks(modules: list[str]) -> Iterator[Callable[[int], float]]:
    """Forks so many times, one after the other, and tells the seconds."""
    with subprocess.Popen([sys.executable, "-I", "-c", FORKS, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env={**os.environ, **ALONE}, text=True) as child:  # fmt: skip
        assert child.stdin is not None and child.stdout is not None

        def fork(count: int) -> float:
            assert child.stdin is not None and child.stdout is not None
            began = time.perf_counter()
            print(count, file=child.stdin, flush=True)
            child.stdout.readline()
            return time.perf_counter() - began

        fork(5)
        yield fork
        child.stdin.close()


def on_demand(modules: list[str], rounds: int) -> tuple[float, float]:
    """Seconds for a call that has to fork its worker, and for a fork without a cage."""
    with Template(Policy(), init=modules, parked=0) as template, bare_forks(modules) as fork:
        template.map(nothing, range(3))
        samples = []
        for _ in range(rounds):
            began = time.perf_counter()
            template.map(nothing, [0])
            samples.append((time.perf_counter() - began, fork(1)))
    return statistics.median(a for a, _ in samples), statistics.median(b for _, b in samples)


def many(modules: list[str], count: int) -> tuple[int, float, float]:
    """Calls of so many whose answer is lost; how many are answered, and forks without a cage, in a second."""
    with Template(Policy(), init=modules) as template, bare_forks(modules) as fork:
        began = time.perf_counter()
        found = [each.value for each in template.map(spins, [3] * count)]
        return count - found.count(3), count / (time.perf_counter() - began), count / fork(count)


def parked_memory(modules: list[str], parked: int) -> tuple[float, float]:
    """kB of a worker that waits: its proportional share of everything, and what is its alone. Medians."""
    with Template(Policy(), init=modules, parked=parked) as template:
        template.map(nothing, range(2))
        time.sleep(1)
        trees = [list(below(pid))[2:] for pid in below(os.getpid()) if is_template(pid)]  # not it and its zygote
        sizes = [memory_kb(pid) for tree in trees for pid in tree]
    return statistics.median(a for a, _ in sizes), statistics.median(b for _, b in sizes)


def is_template(pid: int) -> bool:
    """The one that forks: its parent's command line is another."""

    def command(of: int) -> bytes:
        with open(f"/proc/{of}/cmdline", "rb") as file:
            return file.read()

    with open(f"/proc/{pid}/stat") as file:
        parent = int(file.read().rpartition(")")[2].split()[1])
    return b"frozen_modules" in command(pid) and b"frozen_modules" not in command(parent)


def memory_kb(pid: int) -> tuple[int, int]:
    with open(f"/proc/{pid}/smaps_rollup") as file:
        lines = {line.partition(":")[0]: line.split()[1] for line in file if line.endswith("kB\n")}
    return int(lines["Pss"]), int(lines["Private_Clean"]) + int(lines["Private_Dirty"])


def told(rounds: int, forks: int) -> Iterator[str]:
    for isolate in ("cage", "worker"):
        cost, faster = submit_cost(isolate), two_workers(isolate, 3)
        yield (f'executor, isolate="{isolate}": a submit {cost * 1e6:.0f} us (bar: at most 100); '
               f"two workers {faster:.2f} of one (bar: at least 1.6)")  # fmt: skip
    for modules in (["json"], ["numpy", "asyncio"]):
        name = ", ".join(modules)
        call, bare = on_demand(modules, rounds)
        lost, answered, forked = many(modules, forks)
        yield (f"template of {name}: a call on demand {call * 1e3:.2f} ms, os.fork of the same {bare * 1e3:.2f} ms: "
               f"{call / bare:.2f} (bar: at most 1.1)")  # fmt: skip
        yield (f"  {forks} calls, {lost} lost: {answered:.0f} a second, {forked:.0f} bare forks: "
               f"{answered / forked:.2f} (bar: at least 0.9)")  # fmt: skip
        for parked in (4, 16):
            share, own = parked_memory(modules, parked)
            yield (f"  one of {parked} that wait: PSS {share / 1024:.2f} MiB (bar: at most 1.5), "
                   f"{own / 1024:.2f} MiB its own")  # fmt: skip
