"""Random system calls in cages of every profile and isolation, supervised and not; what the host sees of it is checked.

    python -m bench.syscall_fuzz [--seconds 60] [--seed N] [--answer 1]

Each turn has options of its own, up to two and a mode. During it another cage answers within a second; after it, what
lies outside of the grant is as it was (outside.py), the cage has ended when it was closed and left no process, mount or
core file; and the host does not grow. The seed is printed; a turn is drawn from the seed and its number alone. Exit
code 1 when anything was found.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import itertools
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from bench.soak.options import ROWS
from bench.syscall_fuzz.outside import Outside, memory_mb
from pysandbox import (
    DEVNULL,
    Cage,
    CageClosedError,
    CageError,
    Policy,
    PolicyError,
    SandboxSpawnError,
    UnsupportedError,
)
from pysandbox.policy.model import Grant

GUEST = sorted(Path(__file__).parent.glob("*.c"))
PROFILES = ("baseline", "seed-187", "default", "relaxed")
PATHS = ("/proc/1/mem", "/proc/self/mem", "/dev/null", "/", "/tmp/x", "/proc/self/ns/user", "/proc/self/fd/3")
FULL_PATHS = (*PATHS, "..", "/proc/1/root", "/proc/self/exe", "/etc/passwd")  # chmod of one's own is a gap of landlock
Kind: TypeAlias = tuple[str, str, bool | None]
KINDS: tuple[Kind, ...] = tuple(itertools.product(("full", "landlock"), PROFILES, (None, True)))
TURN = 2  # seconds of random calls
WARM = 8  # turns until the host has what it needs
MOST_FOUND = 20
refused: list[int] = []


def policy(kind: Kind, outside: Outside, options: dict[str, Any]) -> Policy:
    isolation, profile, notifier = kind
    asked: dict[str, Any] = {
        "isolation": isolation, "seccomp": profile, "notifier": notifier, "run_as": "self",
        "allow": (Grant(str(outside.program.parent)),), "allow_write": (Grant(str(outside.granted)),),
        "walltime_sec": TURN + 5, "grace_sec": 0.2, "tmp_mb": 16, "open_files": 256, "max_pids": 64,
    }  # fmt: skip
    return Policy(**{**asked, **options})


def drawn(seed: int) -> dict[str, Any]:
    """None, one or two options, and sometimes a mode: the soak's (bench/soak/options.py)."""
    chance = random.Random(seed)
    options: dict[str, Any] = {}
    for row in chance.sample(ROWS, chance.choice((0, 1, 2, 2))):
        options.update(row)
    options.update(chance.choice(({}, {}, {"strict": True}, {"monitor": True})))
    return {name: value for name, value in options.items() if name != "walltime_sec"}


@contextlib.contextmanager
def neighbour(found: list[str], answer: float) -> Iterator[None]:
    """Another cage, which is asked all the while to do a thing."""
    over = threading.Event()

    def ask(cage: Cage) -> None:
        while not over.wait(0.1):
            begun = time.monotonic()
            code = cage.run(["/bin/true"], stdin=DEVNULL, timeout=30).exit_code
            took = time.monotonic() - begun
            if code or took > answer:
                found.append(f"another cage took {took:.2f} s, exit code {code}")

    with Cage(Policy(notifier=True)) as cage:
        asking = threading.Thread(target=ask, args=(cage,))
        asking.start()
        try:
            yield
        finally:
            over.set()
            asking.join()


def let_loose(cage: Cage, kind: Kind, seed: int, outside: Outside) -> float:
    """Guests until the turn is over: one may kill itself, or be ended by the cage. When that was."""
    landlock = kind[0] == "landlock"
    paths = PATHS if landlock else FULL_PATHS
    until = time.monotonic() + TURN
    for again in itertools.count():
        left = until - time.monotonic()
        if left < TURN / 10:
            break
        argv = [str(outside.program), str(seed + (again << 32)), str(max(1, round(left))), *outside.paths, *paths]
        try:
            cage.run(argv, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, timeout=TURN + 20)
        except SandboxSpawnError as error:
            if error.errno != errno.EACCES or not again:  # a guest has taken the mode of its own root directory
                raise
            if landlock:  # or of its program: a named gap
                outside.put_back()
    return time.monotonic()


def turn(kind: Kind, seed: int, outside: Outside) -> list[str]:
    found: list[str] = []
    outside.tidy()
    before = outside.seen(kind[0])
    options = drawn(seed)
    try:
        with Cage(policy(kind, outside, options)) as cage:
            begun = let_loose(cage, kind, seed, outside)
        if time.monotonic() - begun > TURN:
            found.append(f"the cage took {time.monotonic() - begun:.1f} s to end")
    except (PolicyError, UnsupportedError):
        refused.append(seed)  # by name: some options do not go together
    except CageClosedError:
        pass  # a limit or `strict` has ended it
    except CageError as error:
        found.append(f"{type(error).__name__}: {error}")
    after = outside.seen(kind[0])
    if kind[0] == "landlock" and options.get("monitor"):  # nothing is refused there, and there is no namespace
        del before["kernel objects"]
    found += [f"{name}: {before[name]!r} became {after[name]!r}" for name in before if before[name] != after[name]]
    return [f"{options}: {each}" for each in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument(
        "--answer", type=float, default=1.0, help="seconds that another cage may take; a busy machine: 3"
    )
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="psb-fuzz-") as top, Outside(Path(top)) as outside:
        subprocess.run(["gcc", "-O1", "-o", str(outside.program), *map(str, GUEST)], check=True)
        found = fuzz(asked.seconds, asked.seed, asked.answer, outside)
    print("\n".join(found[:MOST_FOUND]) or "nothing found")
    return int(bool(found))


def fuzz(seconds: float, seed: int, answer: float, outside: Outside) -> list[str]:
    found: list[str] = []
    until, turns, memory = time.monotonic() + seconds, 0, memory_mb()
    for kind in itertools.cycle(KINDS):
        if time.monotonic() > until or len(found) > MOST_FOUND:
            break
        slow: list[str] = []
        with neighbour(slow, answer):
            wrong = turn(kind, seed + turns, outside)
        wrong += outside.grown()
        found += [f"turn {turns} {kind} {each}" for each in (*wrong, *slow)]
        turns += 1
        if turns == WARM:
            outside.remember()
    print(
        f"{turns} turns of {TURN} s, {len(refused)} of them refused; "
        f"the host had {memory:.0f} MB and has {memory_mb():.0f}"
    )
    return found


if __name__ == "__main__":
    sys.exit(main())
