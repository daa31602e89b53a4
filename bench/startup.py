"""How long it takes to run /bin/true to its end: bare, in a cage, and in other sandboxes.

    python -m bench.startup [--rounds N] [--json FILE] [--svg FILE] [--markdown FILE]

Every subject is measured once in each round, in an order shuffled by a fixed seed, so that whatever else the machine
does falls on all of them alike; the first rounds are dropped. Half of the blocks run with a large host (--ballast-mb
of touched memory), since some ways of starting a process cost more the bigger the caller is. The other sandboxes have
rounds of their own, with their own yardstick: what they leave the kernel to tear down takes it tens of milliseconds,
and would fall on whoever comes next.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import random
import statistics
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from bench.peers import peers
from bench.report import Figure, Report, as_json, as_markdown, as_svg, figure
from bench.subjects import Subject, burst, ours, yardstick
from pysandbox import Policy

SEED = 20_240_117
BLOCKS = 5  # small and large hosts alternate this often, so that a drift of the machine falls on both
WARM_UP = 2  # rounds dropped at the start of each block
BURST = 50


def rounds(subjects: Sequence[Subject], host: str, count: int, chance: random.Random) -> None:
    """`count` measured rounds after the warm-up, every subject once in each, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        for number in range(WARM_UP + count):
            for subject in chance.sample(subjects, len(subjects)):
                subject.measure(host)
                if number < WARM_UP:
                    subject.samples[host].pop()
    finally:
        gc.enable()


def ballast(megabytes: int) -> bytearray:
    """Memory that is really there: every page touched."""
    memory = bytearray(megabytes << 20)
    memory[:: os.sysconf("SC_PAGESIZE")] = b"\1" * len(range(0, len(memory), os.sysconf("SC_PAGESIZE")))
    return memory


@contextmanager
def silent() -> Iterator[None]:
    """Standard output and error are the null device, for every subject alike: a file or a pipe would have a relay for
    a cage's command, so the figures would depend on where they are written."""
    kept = [os.dup(fd) for fd in (1, 2)]
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        for fd in (1, 2):
            os.dup2(null, fd)
        yield
    finally:
        for fd, was in zip((1, 2), kept, strict=True):
            os.dup2(was, fd)
            os.close(was)
        os.close(null)


def measure(groups: Sequence[Sequence[Subject]], total: int, megabytes: int) -> tuple[str, str]:
    """Fills the subjects' samples; the names of the two hosts. The first subject of a group is its yardstick."""
    small, large = "small host", f"{megabytes} MB host"
    chance = random.Random(SEED)
    for block in range(BLOCKS):
        share = (total + block) // BLOCKS
        for subjects in groups:
            rounds(subjects, small, share, chance)
        memory = ballast(megabytes)
        for subjects in groups:
            rounds(subjects, large, share, chance)
        del memory
    return small, large


def report(
    groups: Sequence[Sequence[Subject]], hosts: tuple[str, ...], total: int, missing: Sequence[str], rate: float
) -> Report:
    def figures_of(host: str) -> Iterator[Figure]:
        for number, subjects in enumerate(groups):
            unit = statistics.median(subjects[0].samples[host])
            for each in subjects[1:] if number else subjects:
                yield figure(each.key, each.label, host, each.samples[host], unit)

    figures = tuple(each for host in hosts for each in figures_of(host))
    return Report(
        machine=f"{platform.machine()}, {os.cpu_count()} CPUs",
        kernel=platform.release(),
        python=platform.python_version(),
        user="root" if os.geteuid() == 0 else "unprivileged",
        rounds=total,
        hosts=hosts,
        figures=figures,
        burst=rate,
        missing=tuple(missing),
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.startup", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200, help="measured rounds for each host size (200)")
    parser.add_argument("--ballast-mb", type=int, default=500, help="size of the large host (500)")
    for kind in ("json", "svg", "markdown"):
        parser.add_argument(f"--{kind}", type=Path, metavar="FILE")
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    working, broken = peers()
    groups = [ours(), [yardstick(), *working]]
    try:
        with silent():
            hosts = measure(groups, max(asked.rounds, BLOCKS), asked.ballast_mb)
            rate = burst(Policy(), BURST)
    finally:
        for subject in chain(*groups):
            subject.close()
    done = report(groups, hosts, max(asked.rounds, BLOCKS), broken, rate)
    for path, text in ((asked.json, as_json), (asked.svg, as_svg), (asked.markdown, as_markdown)):
        if path:
            path.write_text(text(done), encoding="utf-8")
    print(as_markdown(done), end="")


if __name__ == "__main__":
    main()
