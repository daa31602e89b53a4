"""Runs in the internet: `python -m bench.network.inside ROUNDS ONLY`. Prints one line for each row.

Bare and each of the ways take turns, round by round, in an order that is drawn anew. What is compared is the median of
a way's samples with that of the bare ones of the same round; what is told is the median of those ratios, with the
quarter below and above it: what the machine does for a while is in both of a round. A row that cannot be made says why,
and the others go on.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from _support.internet import places
from bench.network.busy import busy_rows
from bench.network.programs import BULK, BULK_SPENT, DRAIN, ECHO, NEW, ROUND_TRIP
from bench.network.redis import redis_rows
from bench.network.spawns import spawn_rows
from bench.startup import SEED
from pysandbox import Cage, CageError, Policy
from pysandbox.policy.host import HostRule

PYTHON = "/usr/bin/python3"
NAME = "origin.example"
SETTLES = 0.3  # seconds, for what the host program does after a cage: the next one is made

LISTED = Policy(egress="proxy-only", allow_ips=(f"{places.ORIGIN}:{ECHO}", f"{places.ORIGIN}:{DRAIN}"))
NAMED = Policy(egress="proxy-only", hosts=(HostRule(domain=NAME),))


@dataclass(frozen=True)
class Way:
    """How a connection leaves: `dial` is for programs.DIAL; no policy is no cage."""

    label: str
    dial: str
    host: str
    policy: Policy | None
    direct: bool = False


WAYS = (
    Way("bare, again", "plain", places.ORIGIN, None),  # what the machine does to the ratio of two equals
    Way("direct grant", "plain", places.ORIGIN, LISTED, direct=True),
    Way("relay, transparent", "plain", NAME, NAMED),
    Way("relay, SOCKS", "socks", NAME, NAMED),
    Way("relay, CONNECT", "connect", NAME, NAMED),
)


@dataclass(frozen=True)
class Measure:
    """One program; bars are of the ratio, `faster` where the ratio is of speed, not of time. `spent`: what it tells is
    processor time of its ends, to which that of the relay is added: what the machine could move if it did nothing else,
    whatever else it does."""

    label: str
    program: str
    port: int
    count: int
    direct_bar: float
    relay_bar: float
    faster: bool = False
    spent: bool = False


MEASURES = (
    Measure("round trip of 256 B", ROUND_TRIP, ECHO, 2000, 1.05, 3.0),
    Measure("bulk throughput", BULK, DRAIN, 32, 0.97, 0.35, faster=True),
    Measure("bulk by processor time", BULK_SPENT, DRAIN, 32, 0.97, 0.45, faster=True, spent=True),
    Measure("new connection", NEW, ECHO, 200, 3.0, 3.0),
)


def sample(way: Way, measure: Measure) -> list[int]:
    argv = [PYTHON, "-I", "-S", "-c", measure.program, way.dial, way.host, str(measure.port), str(measure.count)]
    if way.policy is None:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        return list(json.loads(done.stdout))
    before = processor_ns()
    found = list(json.loads(Cage(way.policy).run(argv, check=True, timeout=120).stdout))
    own = (processor_ns() - before) // len(found)
    return [each + own for each in found] if measure.spent else found


def processor_ns() -> int:
    """What all threads of this process but the one that runs this have spent: the relay's, and the gatekeeper's."""
    total = 0
    for thread in Path("/proc/self/task").iterdir():
        if int(thread.name) != os.getpid():
            with suppress(OSError):
                total += int((thread / "schedstat").read_text().split()[0])
    return total


def row(measure: Measure, rounds: int) -> None:
    alone, chance = Way("bare", "plain", places.ORIGIN, None), random.Random(SEED)
    kept: dict[Way, list[float]] = {each: [] for each in (alone, *WAYS)}  # ns, one of each round
    broken: dict[Way, str] = {}
    for _ in range(rounds):
        for way in chance.sample(list(kept), len(kept)):
            if way not in broken:
                time.sleep(SETTLES)
                try:
                    kept[way].append(statistics.median(sample(way, measure)))
                except (CageError, subprocess.CalledProcessError) as error:
                    broken[way] = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
    bare = kept.pop(alone)
    for way, times in kept.items():
        if way in broken or alone in broken:
            tell(f"{measure.label}, {way.label}", broken.get(way) or broken[alone])
            continue
        pairs = zip(bare, times, strict=True)
        ratios = sorted(one / other if measure.faster else other / one for one, other in pairs)
        bar = 0.0 if way.policy is None else measure.direct_bar if way.direct else measure.relay_bar
        tell(f"{measure.label}, {way.label}",
             verdict(statistics.median(bare), statistics.median(times), ratios, bar, measure.faster))  # fmt: skip


def busy_row(measure: Measure, rounds: int) -> None:
    way = next(each for each in WAYS if each.policy is NAMED)
    busy_rows(f"busy host, {measure.label}", lambda: sample(way, measure), rounds, tell)


def verdict(bare: float, other: float, ratios: list[float], bar: float, faster: bool) -> str:
    """`bare` and `other` in nanoseconds; `ratios` in their order."""
    ratio, quarter = statistics.median(ratios), len(ratios) // 4
    said = f"{bare / 1e3:12.1f} {other / 1e3:12.1f} {ratio:7.2f} ({ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f})"
    if not bar:
        return said
    is_met = ratio == bar or (ratio > bar) == faster
    return f"{said}  {'>=' if faster else '<='} {bar:g} {'ok' if is_met else 'MISSED'}"


def tell(label: str, text: str) -> None:
    print(f"{label:44} {text}", flush=True)


def main() -> None:
    rounds, only = int(sys.argv[1]), sys.argv[2]
    tell("", f"{'bare us':>12} {'other us':>12} {'ratio':>7} (the middle half)  bar")
    rows: Sequence[tuple[str, Callable[[], None]]] = (
        *((each.label, lambda each=each: row(each, rounds)) for each in MEASURES),
        *(
            (f"busy host, {each.label}", lambda each=each: busy_row(each, rounds))
            for each in MEASURES
            if not each.faster
        ),
        ("redis", lambda: redis_rows(rounds, tell)),
        ("spawn", lambda: spawn_rows(rounds, tell)),
    )
    for label, measured in rows:
        if only in label:
            measured()


if __name__ == "__main__":
    main()
