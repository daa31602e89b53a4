"""What an idle cage costs in memory: the proportional set size of its init and of what runs below it.

    python -m bench.memory [--cages N]

PSS counts a page shared by n processes as 1/n, so many cages of one policy show what one more really adds.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from pysandbox import Cage, Policy


def below(pid: int) -> Iterator[int]:
    """The process and its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from below(int(child))


def pss_kb(pid: int) -> int:
    """From smaps_rollup; 0 for a process whose memory this user may not read is never returned: it raises."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1])
    raise ValueError(f"/proc/{pid}/smaps_rollup has no Pss line")


def idle_cages(count: int) -> list[tuple[int, int]]:
    """For each of `count` idle cages open at once: processes, and their PSS in kB."""
    with ExitStack() as stack:
        cages = [stack.enter_context(Cage(Policy())) for _ in range(count)]
        inits = [cage.init_pid for cage in cages]
        trees = [list(below(init)) for init in inits if init is not None]
        return [(len(tree), sum(map(pss_kb, tree))) for tree in trees]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__.splitlines()[0])
    parser.add_argument("--cages", type=int, default=10, help="idle cages open at once (10)")
    found = idle_cages(parser.parse_args().cages)
    sizes = [kb for _, kb in found]
    processes = statistics.median(count for count, _ in found)
    print(f"{len(found)} idle cages: {statistics.median(sizes):.0f} kB each ({min(sizes)}-{max(sizes)}), "
          f"{processes:.0f} process each")  # fmt: skip


if __name__ == "__main__":
    main()
