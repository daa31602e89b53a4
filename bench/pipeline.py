"""What it costs to join three cages by pipes, and how fast bytes go through.

    python -m bench.pipeline [--rounds N] [--mb N]

Every subject is measured once in each round, one after the other; what is told are medians and their ratios.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import time
from collections.abc import Callable

from pysandbox import Cage, Policy

STAGES = 3
MOST_START, LEAST_BYTES = 1.15, 0.95  # the bars


def measured(subjects: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median of each, in seconds; the first round is dropped."""
    samples: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds + 1):
        for name, call in subjects.items():
            began = time.perf_counter()
            call()
            samples[name].append(time.perf_counter() - began)
    return {name: statistics.median(each[1:]) for name, each in samples.items()}


def alone(cage: Cage) -> None:
    """As many cages at the same time, each by itself: what a pipeline costs is what it takes longer than this."""
    running = [cage.spawn(["/bin/true"], stdout=-1, stderr=-1) for _ in range(STAGES)]
    for process in running:
        process.communicate()
        process.close()


def joined(cage: Cage) -> None:
    stage = cage.cmd(["/bin/true"])
    (stage | stage | stage).run()


def bare_bytes(size: int) -> None:
    with (
        subprocess.Popen(["head", "-c", str(size), "/dev/zero"], stdout=subprocess.PIPE) as writer,
        subprocess.Popen(["wc", "-c"], stdin=writer.stdout, stdout=subprocess.DEVNULL),
    ):
        assert writer.stdout is not None
        writer.stdout.close()


def caged_bytes(cage: Cage, size: int) -> None:
    result = (cage.cmd(["head", "-c", str(size), "/dev/zero"]) | cage.cmd(["wc", "-c"])).run()
    assert result.stdout.strip() == str(size)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pipeline", description="Three cages joined by pipes.")
    parser.add_argument("--rounds", type=int, default=50, help="measured rounds (50)")
    parser.add_argument("--mb", type=int, default=1024, help="MiB through the pipe (1024)")
    asked = parser.parse_args()
    cage = Cage(Policy())
    start = measured({"alone": lambda: alone(cage), "joined": lambda: joined(cage)}, asked.rounds)
    size = asked.mb << 20
    rounds = max(3, asked.rounds // 10)
    flow = measured({"bare": lambda: bare_bytes(size), "caged": lambda: caged_bytes(cage, size)}, rounds)
    print(f"{STAGES} stages: {start['joined'] * 1e3:.2f} ms, alone {start['alone'] * 1e3:.2f} ms: "
          f"{start['joined'] / start['alone']:.2f} (bar: at most {MOST_START})")  # fmt: skip
    print(f"bytes: {size / flow['caged'] / 1e9:.2f} GB/s, a bare pipe {size / flow['bare'] / 1e9:.2f} GB/s: "
          f"{flow['bare'] / flow['caged']:.2f} (bar: at least {LEAST_BYTES})")  # fmt: skip


if __name__ == "__main__":
    main()
