"""Runs in the internet: `python -m bench.network.inside ROUNDS ONLY`. Prints one line for each row.

Bare and each of the ways take turns, round by round; what is compared is the median of all samples with that of the
bare ones. A row that cannot be made says why, and the others go on.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from _support.internet import places
from bench.network.busy import busy_rows
from bench.network.programs import BULK, DRAIN, ECHO, NEW, ROUND_TRIP
from bench.network.redis import redis_rows
from bench.network.spawns import spawn_rows
from pysandbox import Cage, CageError, Policy
from pysandbox.policy.host import HostRule

PYTHON = "/usr/bin/python3"
NAME = "origin.example"

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
    """One program; bars are of the ratio, `faster` where the ratio is of speed, not of time."""

    label: str
    program: str
    port: int
    count: int
    direct_bar: float
    relay_bar: float
    faster: bool = False


MEASURES = (
    Measure("round trip of 256 B", ROUND_TRIP, ECHO, 2000, 1.05, 3.0),
    Measure("bulk throughput", BULK, DRAIN, 256, 0.97, 0.35, faster=True),
    Measure("new connection", NEW, ECHO, 200, 3.0, 3.0),
)


def sample(way: Way, measure: Measure) -> list[int]:
    argv = [PYTHON, "-I", "-S", "-c", measure.program, way.dial, way.host, str(measure.port), str(measure.count)]
    if way.policy is None:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        return list(json.loads(done.stdout))
    return list(json.loads(Cage(way.policy).run(argv, check=True, timeout=120).stdout))


def row(measure: Measure, rounds: int) -> None:
    bare: list[int] = []
    others: dict[Way, list[int]] = {each: [] for each in WAYS}
    broken: dict[Way, str] = {}
    alone = Way("bare", "plain", places.ORIGIN, None)
    for _ in range(rounds):
        bare += sample(alone, measure)
        for way, kept in others.items():
            if way not in broken:
                try:
                    kept += sample(way, measure)
                except (CageError, subprocess.CalledProcessError) as error:
                    broken[way] = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
    for way, kept in others.items():
        if way in broken:
            tell(f"{measure.label}, {way.label}", broken[way])
            continue
        times = (statistics.median(bare), statistics.median(kept))
        ratio = times[0] / times[1] if measure.faster else times[1] / times[0]
        bar = 0.0 if way.policy is None else measure.direct_bar if way.direct else measure.relay_bar
        tell(f"{measure.label}, {way.label}", verdict(*times, ratio, bar, measure.faster))


def busy_row(measure: Measure, rounds: int) -> None:
    way = next(each for each in WAYS if each.policy is NAMED)
    busy_rows(f"busy host, {measure.label}", lambda: sample(way, measure), rounds, tell)


def verdict(bare: float, other: float, ratio: float, bar: float, faster: bool = False) -> str:
    """`bare` and `other` in nanoseconds."""
    if not bar:
        said = ""
    else:
        said = f"{'>=' if faster else '<='} {bar:g} " + ("ok" if (ratio >= bar) == faster or ratio == bar else "MISSED")
    return f"{bare / 1e3:12.1f} {other / 1e3:12.1f} {ratio:7.2f}  {said}"


def tell(label: str, text: str) -> None:
    print(f"{label:44} {text}", flush=True)


def main() -> None:
    rounds, only = int(sys.argv[1]), sys.argv[2]
    tell("", f"{'bare us':>12} {'other us':>12} {'ratio':>7}  bar")
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
