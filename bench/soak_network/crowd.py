"""Runs in the internet: `python -m bench.soak_network.crowd SECONDS CAGES CONNECTIONS`. See __main__.py.

One thread for each cage that is to be there: it makes one, lets the client run its time in it, reads the report, and
makes the next. A client without a cage runs all the while: what it has to wait for, the machine is to blame for.
"""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import secrets
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _support.internet import places
from bench.soak_network import CLIENT, PORT
from pysandbox import Cage, CageError, Policy, Runtime
from pysandbox.policy.host import HostRule

PYTHON = "/usr/bin/python3"
NAME = "origin.example"
POLICY = Policy(egress="proxy-only", hosts=(HostRule(domain=NAME),), allow=(str(CLIENT),))
LIVES = (8, 20)  # seconds of a cage
RAMP = 0.1  # seconds between the first cages: a thousand that dial in one instant would measure the instant
GROWTH, SLACK_KB = 1.1, 8 << 10  # of memory, under the same load
SHOWN = 20
STALL = sys.argv[4] if len(sys.argv) > 4 else "1.0"  # seconds an answer may take


@dataclass
class Score:
    """What the clients have reported, and what is wrong with it."""

    done: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    stalls: list[tuple[float, float, str]] = field(default_factory=list)  # when, how long, of what
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, report: dict[str, Any]) -> None:
        with self.lock:
            for key in ("connections", "frames", "bytes"):
                self.done[key] += report[key]
            self.done["cages"] += 1
            self.found += [*report["wrong"], *report["failed"]]
            self.stalls += [(began, took, what) for began, took, what in report["stalls"]]

    def failed(self, text: str) -> None:
        with self.lock:
            self.found.append(text)


@dataclass(frozen=True)
class Held:
    """What this process holds."""

    fds: tuple[str, ...]
    threads: tuple[str, ...]

    @classmethod
    def now(cls) -> Held:
        gc.collect()
        return cls(tuple(sorted(filter(None, map(_target, os.listdir("/proc/self/fd"))))),
                   tuple(sorted(each.name for each in threading.enumerate())))  # fmt: skip


def _target(fd: str) -> str:
    """What a descriptor is of, without the number that every socket has for itself."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}").partition("[")[0]
    except FileNotFoundError:  # that of the listing
        return ""


def memory_kb() -> int:
    line = next(each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith("VmRSS"))
    return int(line.split()[1])


def arguments(host: str, connections: int, seconds: int) -> list[str]:
    return [PYTHON, "-I", "-S", str(CLIENT), host, str(PORT), secrets.token_hex(16), str(connections), str(seconds),
            STALL]  # fmt: skip


def one_place(runtime: Runtime, score: Score, until: float, connections: int) -> None:
    """One cage after the other. The first live for different times, so that they do not all end at once."""
    while (left := until - time.monotonic()) > 1:
        life = int(min(left, random.uniform(*LIVES)))
        try:
            with Cage(POLICY, runtime=runtime) as cage:
                result = cage.run(arguments(NAME, connections, max(life, 1)), timeout=life + 60)
            if result.exit_code:
                score.failed(f"a client ended with {result.exit_code}: {result.stderr[-400:]}")
            else:
                score.take(json.loads(result.stdout))
            if result.denials:
                score.failed(f"denied: {result.denials[0]}")
        except (CageError, ValueError) as error:
            score.failed(f"{type(error).__name__}: {error}")


def under_load(runtime: Runtime, score: Score, seconds: float, cages: int, connections: int) -> None:
    """The crowd, and twice a look at the memory: when it is complete, and at the end."""
    until = time.monotonic() + seconds
    places_ = [threading.Thread(target=one_place, args=(runtime, score, until, connections), name=f"place {number}")
               for number in range(cages)]  # fmt: skip
    for each in places_:
        each.start()
        time.sleep(RAMP)
    time.sleep(max(0.0, until - time.monotonic() - seconds * 2 / 3))
    early = memory_kb()
    time.sleep(max(0.0, until - time.monotonic() - 2))
    late = memory_kb()
    for each in places_:
        each.join()
    print(f"memory {early} kB after a third, {late} kB at the end", flush=True)
    if late > early * GROWTH + SLACK_KB:
        score.failed(f"memory grows: {early} kB, then {late} kB")


def unexcused(score: Score, witness: dict[str, Any]) -> list[str]:
    """Stalls in cages at a time when nobody without a cage had to wait as well."""
    excuses = [(began, began + took) for began, took, _ in witness["stalls"]]
    return [
        f"{what}: {took:.2f} s" for began, took, what in score.stalls
        if not any(began < last and first < began + took for first, last in excuses)
    ]  # fmt: skip


def main() -> int:
    seconds, cages, connections = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    runtime, score = Runtime(warm=0), Score()
    one_place(runtime, Score(), time.monotonic() + 2.5, connections)  # all that is made once is made
    runtime.drain()
    before = Held.now()
    with subprocess.Popen(arguments(places.ORIGIN, 4, int(seconds)), stdout=subprocess.PIPE, text=True) as witness:
        under_load(runtime, score, seconds, cages, connections)
        bare = json.loads(witness.communicate()[0])
    runtime.drain()
    after = Held.now()
    score.found += unexcused(score, bare)
    for name in ("fds", "threads"):
        extra = Counter(getattr(after, name)) - Counter(getattr(before, name))
        score.found += [f"left behind: {count} {name}: {text}" for text, count in extra.items()]
    return tell(score, len(bare["stalls"]))


def tell(score: Score, excused: int) -> int:
    done = score.done
    print(f"{done['cages']} cages, {done['connections']} connections, {done['frames']} frames, "
          f"{done['bytes'] >> 20} MiB")  # fmt: skip
    print(f"{len(score.stalls)} answers after more than {STALL} s, {excused} without a cage")
    for text, count in Counter(score.found).most_common(SHOWN):
        print(f"FOUND {count} times: {text}")
    if not score.found:
        print("nothing leaked, stalled or went astray" if done["frames"] else "nothing was done")
    return 1 if score.found or not done["frames"] else 0


if __name__ == "__main__":
    sys.exit(main())
