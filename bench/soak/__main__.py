"""Lets hosts and cages loose on each other for a while, and tells what leaked, hung or escaped.

    python -m bench.soak --seconds N [--hosts H] [--threads T] [--seed S]

Hosts are killed at random; their threads start, time out, kill, lose and fork cages (operations.py). Every operation is
watched, every orphan has to end, after every round a host looks for what was left behind, and a canary (a file, two
sockets, a process) notices whoever gets out. Prints how often each operation ended. Exits with 1 and what was found.

One minute finds what is broken; before a release, give it ten. `bash tests/run --exec python -m bench.soak --seconds
600` prepares everything and runs as an ordinary user. A finding names the operation, not the interleaving: the seed
repeats the choices, not the races.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from bench.soak.conductor import Conductor, Options, Score
from bench.soak.planted import PLANTED

SHOWN = 20  # different findings


def main() -> int:
    options = _options()
    print(f"{options.seconds:g} s, {options.hosts} hosts of {options.threads} threads, seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        score = Conductor(options, Path(name)).run()
    print(_summary(score))
    return 1 if score.found or not score.ended else 0


def _options() -> Options:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, required=True, help="how long")
    parser.add_argument("--hosts", type=int, default=2, help="host processes at once")
    parser.add_argument("--threads", type=int, default=4, help="threads of each host")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of every choice")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds until an operation counts as hanging")
    parser.add_argument("--kill-every", type=float, default=4.0, help="seconds between two killed hosts, on average")
    parser.add_argument("--plant", default="", choices=sorted(PLANTED), help="also do what must be found")
    given = parser.parse_args()
    return Options(
        given.seconds, given.hosts, given.threads, given.seed, given.patience, given.kill_every, given.plant
    )  # fmt: skip


def _summary(score: Score) -> str:
    lines = [f"  {count:8}  {name}" for name, count in (*score.ended.most_common(), *sorted(score.events.items()))]
    if not score.found:
        verdict = [
            "nothing leaked, hung or escaped" if score.ended else "nothing was done: no operation came to its end"
        ]
    else:
        verdict = [f"FOUND {count} times: {text}" for text, count in score.found.most_common(SHOWN)]
    return "\n".join([*lines, *verdict])


sys.exit(main())
