"""What a way out adds to a spawn: /bin/true in a waiting cage with hosts, in one without a network, and bare."""

from __future__ import annotations

import gc
import random
import statistics
from collections.abc import Callable

from bench.startup import SEED, WARM_UP
from bench.subjects import wait_for_pool, warm, yardstick
from pysandbox import CageError, Policy
from pysandbox.policy.host import HostRule

BAR = 0.4  # of a bare subprocess.run, beyond the same cage without a network
SAMPLES = 20  # for each round
OUT = Policy(egress="proxy-only", hosts=(HostRule(domain="origin.example"),))


def spawn_rows(rounds: int, tell: Callable[[str, str], None]) -> None:
    subjects = [yardstick(), warm("none", "no network", Policy()), warm("out", "with hosts", OUT)]
    try:
        wait_for_pool(OUT)
    except (CageError, RuntimeError) as error:
        tell("spawn", str(error))
        return
    chance = random.Random(SEED)
    gc.disable()
    for number in range(WARM_UP + rounds * SAMPLES):
        for subject in chance.sample(subjects, len(subjects)):
            subject.measure("")
            if number < WARM_UP:
                subject.samples[""].pop()
    gc.enable()
    bare, none, out = (statistics.median(each.samples[""]) * 1e6 for each in subjects)
    added = (out - none) / bare
    tell("spawn, added by a way out, of a bare run",
         f"{none:12.1f} {out:12.1f} {added:7.2f}  <= {BAR:g} {'ok' if added <= BAR else 'MISSED'}")  # fmt: skip
