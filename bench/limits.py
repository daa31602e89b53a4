"""What limits cost, and what many cages cost: python -m bench.limits [--rounds N] [--cages N]

Runs of /bin/true in a cage with limits and in one without, in turns, from a warm pool: the ratio of the medians, with
its bar. Then idle cages with limits, all open at once: the memory of each, and the last opened against the first. What
holds the limits on this machine is printed first, since a cgroup and a watchdog cost different things.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import statistics
import time
from contextlib import ExitStack

from bench.memory import pss_kb
from bench.startup import SEED, WARM_UP
from bench.subjects import Subject, checked, wait_for_pool
from pysandbox import Cage, Policy, Runtime
from pysandbox.compile.limits import held_by

LIMITED = Policy(memory_mb=512, cpu_percent=100, max_pids=100, walltime_sec=60, limits_required=False)
PLAIN = Policy()
COST_BAR = 1.1  # times a spawn without limits
PSS_BAR_KB = 300
LAST_BAR = 2.0  # times the 10th cage
WINDOW = 10  # cages whose median stands for the 10th, and for the last


def warm(label: str, policy: Policy) -> Subject:
    return Subject(label, label, lambda: checked(Cage(policy)), lambda: wait_for_pool(policy))


def spawns(rounds: int) -> float:
    """The ratio of the medians."""
    subjects = [warm("without limits", PLAIN), warm("with limits", LIMITED)]
    chance = random.Random(SEED)
    gc.disable()
    for number in range(WARM_UP + rounds):
        for subject in chance.sample(subjects, len(subjects)):
            subject.measure("")
            if number < WARM_UP:
                subject.samples[""].pop()
    gc.enable()
    plain, limited = (statistics.median(each.samples[""]) for each in subjects)
    print(f"spawn: {plain * 1e3:.2f} ms without, {limited * 1e3:.2f} ms with limits")
    return limited / plain


def crowd(count: int, policy: Policy) -> tuple[float, float]:
    """`count` idle cages open at once: the median PSS in kB, and the last openings against those about the 10th."""
    runtime, opening = Runtime(warm=0, register=False), []
    with ExitStack() as stack:
        cages = []
        for _ in range(count):
            cage = Cage(policy, runtime=runtime)
            began = time.perf_counter()
            cages.append(stack.enter_context(cage))
            opening.append(time.perf_counter() - began)
        sizes = [pss_kb(cage.init_pid) for cage in cages if cage.init_pid is not None]
        first, last = (statistics.median(each) for each in (opening[5 : 5 + WINDOW], opening[-WINDOW:]))
        print(f"{count} cages: {statistics.median(sizes)} kB each ({min(sizes)}-{max(sizes)}), opened in "
              f"{first * 1e3:.2f} ms about the 10th, {last * 1e3:.2f} ms in the end")  # fmt: skip
    return statistics.median(sizes), last / first


def verdict(name: str, value: float, bar: float) -> None:
    print(f"{name}: {value:.2f} (bar {bar:g}) {'ok' if value <= bar else 'MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.limits", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200, help="measured runs of each (200)")
    parser.add_argument("--cages", type=int, default=1000, help="idle cages open at once (1000)")
    asked = parser.parse_args()
    held = held_by(LIMITED, Cage(LIMITED)._launcher.prepare(LIMITED).plan)
    print(", ".join(f"{limit}: {by}" for limit, by in held.items()), f"; load {os.getloadavg()[0]:.1f}")
    verdict("spawn with limits, of one without", spawns(asked.rounds), COST_BAR)
    for label, policy in (("without limits", PLAIN), ("with limits", LIMITED)):
        size, growth = crowd(asked.cages, policy)
        verdict(f"idle cage {label}, kB", size, PSS_BAR_KB)
        verdict(f"last cage {label}, of the 10th", growth, LAST_BAR)


if __name__ == "__main__":
    main()
