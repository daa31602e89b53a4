"""Random system calls in cages of every profile and isolation, supervised and not; what the host sees of it is checked.

    python -m bench.syscall_fuzz [--seconds 60] [--seed N] [--answer 1]

During each turn another cage answers within a second; after it, what lies outside of the grant is as it was, the cage
has ended when it was closed and left no process and no mount; and the host does not grow. The seed is printed; a turn
is drawn from the seed and its number alone. Exit code 1 when anything was found.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from pysandbox import DEVNULL, Cage, CageError, Policy
from pysandbox.policy.model import Grant

GUEST = Path(__file__).with_name("guest.c")
PROFILES = ("baseline", "seed-187", "default", "relaxed")
PATHS = ("/proc/1/mem", "/proc/self/mem", "/dev/null", "/", "..", "/tmp/x", "/proc/self/ns/user")
Kind: TypeAlias = tuple[str, str, bool | None]
KINDS: tuple[Kind, ...] = tuple(itertools.product(("full", "landlock"), PROFILES, (None, True)))
TURN = 2  # seconds of random calls
GROWTH_MB = 64
MOST_FOUND = 20


class Outside:
    """What must not change: files beside the grant, mounts, the processes of cages."""

    def __init__(self, top: Path) -> None:
        self.granted, self.kept, self.program = top / "granted", top / "kept", top / "program" / "guest"
        for directory in (self.granted, self.kept, self.program.parent):
            directory.mkdir()
            (directory / "file").write_text("as it was")
        self._file = (self.kept / "file").open("rb", buffering=0)

    def seen(self, isolation: str) -> dict[str, object]:
        """Without namespaces chmod by path is open, and named among the gaps: the mode is put back."""
        if isolation == "landlock":
            os.fchmod(self._file.fileno(), 0o644)
            self.kept.chmod(0o755)
        found = os.fstat(self._file.fileno())
        return {
            "file": os.pread(self._file.fileno(), 100, 0),
            "mode": (found.st_mode, found.st_uid, found.st_nlink),
            "names": sorted(os.listdir(self.kept)),
            "mounts": len(Path("/proc/self/mountinfo").read_bytes().splitlines()),
            "guests": living(self.program),
        }


def living(program: Path) -> int:
    """Processes that run the guest, in whatever cage."""
    found = 0
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            found += os.fsencode(program) in Path("/proc", entry, "cmdline").read_bytes()
    return found


def memory_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)


def policy(kind: Kind, outside: Outside) -> Policy:
    isolation, profile, notifier = kind
    return Policy(
        isolation=isolation, seccomp=profile, notifier=notifier, run_as="self",
        allow=(Grant(str(outside.program.parent)),), allow_write=(Grant(str(outside.granted)),),
        walltime_sec=TURN + 5, grace_sec=0.2, tmp_mb=16, open_files=256,
    )  # fmt: skip


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


def turn(kind: Kind, seed: int, outside: Outside) -> list[str]:
    found: list[str] = []
    before = outside.seen(kind[0])
    paths = [str(outside.granted / "file"), str(outside.kept / "file"), *PATHS]
    argv = [str(outside.program), str(seed), str(TURN), *paths]
    try:
        with Cage(policy(kind, outside)) as cage:
            cage.run(argv, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, timeout=TURN + 20)
            begun = time.monotonic()
        if time.monotonic() - begun > TURN:
            found.append(f"the cage took {time.monotonic() - begun:.1f} s to end")
    except CageError as error:
        found.append(f"{type(error).__name__}: {error}")
    after = outside.seen(kind[0])
    found += [f"{name}: {before[name]!r} became {after[name]!r}" for name in before if before[name] != after[name]]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31))
    parser.add_argument(
        "--answer", type=float, default=1.0, help="seconds that another cage may take; a busy machine: 3"
    )
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="psb-fuzz-") as top:
        outside = Outside(Path(top))
        subprocess.run(["gcc", "-O1", "-o", str(outside.program), str(GUEST)], check=True)
        found = fuzz(asked.seconds, asked.seed, asked.answer, outside)
    print("\n".join(found[:MOST_FOUND]) or "nothing found")
    return int(bool(found))


def fuzz(seconds: float, seed: int, answer: float, outside: Outside) -> list[str]:
    found: list[str] = []
    until, turns, grown = time.monotonic() + seconds, 0, 0.0
    for kind in itertools.cycle(KINDS):
        if time.monotonic() > until or len(found) > MOST_FOUND:
            break
        slow: list[str] = []
        with neighbour(slow, answer):
            wrong = turn(kind, seed + turns, outside)
        found += [f"turn {turns} {kind}: {each}" for each in (*wrong, *slow)]
        turns += 1
        grown = memory_mb() if turns == len(KINDS) else grown
    if grown and memory_mb() - grown > GROWTH_MB:
        found.append(f"the host grew from {grown:.0f} to {memory_mb():.0f} MB")
    print(f"{turns} turns of {TURN} s")
    return found


if __name__ == "__main__":
    sys.exit(main())
