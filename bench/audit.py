"""What keeping an audit costs a run: nothing kept, events to a function, an AuditLog, interleaved in one process.

    python -m bench.audit [--rounds N] [--directory DIR]

The directory decides: fdatasync(2) is the price of a record that outlives a power failure, and every disk has its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from pysandbox import AuditLog, Cage, Event, Policy, Runtime


def seconds(cage: Cage) -> tuple[float, float]:
    """(until spawn has returned, until the command was collected)."""
    began = time.perf_counter()
    process = cage.spawn(["/bin/true"])
    started = time.perf_counter()
    process.wait()
    ended = time.perf_counter()
    process.close()
    return started - began, ended - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--directory", default=None, help="where the stream is written")
    arguments = parser.parse_args()
    seen: list[Event] = []
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder, AuditLog(Path(folder) / "a" / "log") as log:
        runtimes = {"nothing": Runtime(), "a function": Runtime(sink=seen.append), "AuditLog": Runtime(audit=log)}
        cages = {name: Cage(Policy(), runtime=runtime).open() for name, runtime in runtimes.items()}
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in cages}
        for _ in range(arguments.rounds + 5):
            for name, cage in cages.items():
                times[name].append(seconds(cage))
        for name, cage in cages.items():
            spawned, collected = (statistics.median(column) * 1e6 for column in zip(*times[name][5:], strict=True))
            print(f"{name:<12} spawn {spawned:8.0f} us   until collected {collected:8.0f} us")
            cage.close()
            cage.runtime.drain()
        print(f"{os.path.getsize(log.path) / max(1, arguments.rounds + 5):.0f} bytes a run in {folder}")


if __name__ == "__main__":
    main()
