"""One host of the soak: rounds of operations in threads, and after each round a look at what is left.

    python -m bench.soak.host SEED THREADS SETTLE CANARY SECRET [PLANTED]

Goes on until its stdin ends. Says on its stdout, one JSON object a line: {"begin": id, "operation": name},
{"end": id}, {"found": text}, {"round": number, "resident": KiB}. SIGUSR1 writes where every thread is to stderr.
"""

from __future__ import annotations

import faulthandler
import gc
import itertools
import json
import os
import random
import select
import signal
import sys
import threading
import time
import traceback
import warnings

from _support.residue import Picture
from bench.soak.canary import Whereabouts
from bench.soak.operations import NEED_LANDLOCK, OPERATIONS, Operation, World
from bench.soak.options import WITH_OPTIONS
from bench.soak.planted import PLANTED
from pysandbox import Policy, run
from pysandbox.errors import UnsupportedError
from pysandbox.launch.stdio import null_device
from pysandbox.testing import drain

ROUND = 25  # operations of each thread between two looks
OFTEN = 30  # the weight of a planted operation

numbers = itertools.count(1)


def say(**line: object) -> None:
    """One write(2), which a pipe keeps whole: threads need no lock, and a forked copy can hold none."""
    os.write(1, json.dumps(line).encode()[:4000] + b"\n")


def told_to_end() -> bool:
    return bool(select.select([0], [], [], 0)[0])


def perform(operation: Operation, world: World) -> None:
    number = next(numbers)
    say(begin=number, operation=operation.__name__)
    try:
        operation(world)
    except Exception:
        say(found=f"{operation.__name__}: {traceback.format_exc(limit=-4).strip()}")
    say(end=number)


def work(world: World, choice: dict[Operation, int]) -> None:
    names, weights = list(choice), list(choice.values())
    for operation in world.rng.choices(names, weights, k=ROUND):
        if told_to_end():
            return
        perform(operation, world)


def look(before: Picture, settle: float) -> list[str]:
    """What is left `settle` seconds after a round. Cages are the conductor's to look at: some are another host's."""
    gc.collect()
    drain()
    deadline = time.monotonic() + settle
    while left := Picture.take(cages=False).left_behind(before):
        if time.monotonic() > deadline:
            return left
        gc.collect()
        drain()
        time.sleep(0.05)
    return []


def resident_kib() -> int:
    """VmRSS of this host (proc(5))."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def has_landlock() -> bool:
    try:
        run(["/bin/true"], Policy(isolation="landlock", run_as="self"))
    except UnsupportedError:
        return False
    return True


def choices(planted: str) -> dict[Operation, int]:
    lacking = () if has_landlock() else NEED_LANDLOCK
    every = {**OPERATIONS, **WITH_OPTIONS}
    choice = {each: weight for each, weight in every.items() if each not in lacking}
    return {PLANTED[planted]: OFTEN, **choice} if planted else choice


def main(seed: str, threads: str, settle: str, canary: str, secret: str, planted: str = "") -> None:
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    warnings.simplefilter("ignore", DeprecationWarning)  # fork with threads: what is tried here
    choice = choices(planted)
    null_device()
    drain()
    before = Picture.take(cages=False)
    for number in itertools.count(1):
        worlds = [World(random.Random(f"{seed}/{number}/{each}"), Whereabouts.of(canary), secret)
                  for each in range(int(threads))]  # fmt: skip
        running = [threading.Thread(target=work, args=(world, choice)) for world in worlds]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        for line in look(before, float(settle)):
            say(found=f"left behind: {line}")
        say(round=number, resident=resident_kib())
        if told_to_end():
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
