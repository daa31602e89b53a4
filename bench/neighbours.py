"""How long one cage holds up the runs and calls of another: python -m bench.neighbours [--seconds N] [--only WORD]

A neighbour of the same host program runs a command in its open cage, runs one in a new cage, and makes a call that the
supervisor decides, one after another, while a hostile cage does one thing without pause. Beside them the host starts a
program without any cage, and one in namespaces of its own (unshare(1)): what the machine and its kernel do to all
(attackers use the processors, and processes that fork hold up whoever makes a namespace) is in those rows, and only
what exceeds them is the library's. Calm and attacked rounds alternate; the hostile cage is paused in the calm ones.
What the doors cost beside each other is bench.fairness.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import DEVNULL
from typing import Any

from bench.report import percentiles
from pysandbox import Cage, Policy

BAR = 100.0  # ms that the slowest neighbour may cost
ALONE, UNSHARED = "no cage (the machine)", "namespaces (the kernel)"
NAMESPACES = ["unshare", "--user", "--map-root-user", "--pid", "--net", "--mount", "--ipc", "--fork", "/bin/true"]
PYTHON = ["/usr/bin/python3", "-I", "-S", "-c"]
DECIDED = """
import socket, sys, time
for line in sys.stdin:
    began = time.monotonic()
    with socket.socket() as s: s.connect_ex(("203.0.113.9", 443))
    print(time.monotonic() - began, flush=True)
"""
HEAD = """
import mmap, os, socket, sys, time
def fork(work, times=1):
    for _ in range(times):
        if os.fork() == 0:
            while True:
                try: work()
                except OSError: pass
def descend(levels):
    for _ in range(levels):
        if os.fork():
            while True: time.sleep(3600)
"""
PROGRAMS: dict[str, Any] = {"allow_execve": ["/usr/bin/*", "/bin/*"], "deny": ["/usr/bin/true"]}
REFUSED = """
number = 0
def run():
    global number
    number += 1
    name = "/tmp/%d.%d" % (os.getpid(), number % 1000)
    if number <= 1000:
        with open(name, "w"): pass
        os.chmod(name, 0o700)
    os.execv(name, ["x"])
"""
ATTACKS: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, ""),
    "two that compute": ({}, "fork(lambda: None, 2)"),
    "refused connects": ({}, """
def knock():
    with socket.socket() as s: s.connect_ex(("203.0.113.9", 443))
fork(knock, 8)
"""),
    "sockets that are decided": ({}, """
def make():
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
fork(make, 8)
"""),
    "missed paths": ({"why": True}, """
number = 0
def look():
    global number
    number += 1
    os.stat("/nowhere/%d/%d" % (os.getpid(), number))
fork(look, 8)
"""),
    "refused programs": (PROGRAMS, REFUSED + "fork(run, 4)"),
    "... of a long line": (PROGRAMS, REFUSED + "descend(240)\nfork(run, 4)"),
    "memory, 64 processes": ({"memory_mb": 256}, """
def take():
    os.setsid()
    area = mmap.mmap(-1, 60 << 20)
    for at in range(0, 60 << 20, 4096): area[at] = 1
fork(take, 64)
"""),
    "memory, looked at closer": ({"memory_mb": 256}, """
area = mmap.mmap(-1, 100 << 20)
for at in range(0, 100 << 20, 4096): area[at] = 1
def touch():
    for at in range(0, 100 << 20, 4096): area[at]
fork(touch, 16)
"""),
    "forks": ({"max_pids": 64}, """
def breed():
    if os.fork() == 0: os._exit(0)
    os.wait()
fork(breed, 8)
"""),
    "a fork bomb": ({"max_pids": 64}, """
def breed(): os.fork()
fork(breed, 8)
"""),
    "signals and stops": ({"cpu_percent": 50}, """
import signal
def signals(): os.kill(-1, signal.SIGCONT)
fork(signals, 4)
"""),
}  # fmt: skip


def timed(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return 1e3 * (time.monotonic() - began)


class Neighbour:
    """What is asked, in turns, and how long each took, in ms."""

    def __init__(self, cage: Cage, policy: Policy) -> None:
        self._cage, self._policy = cage, policy
        self._calls = cage.spawn([*PYTHON, DECIDED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _call(self) -> float:
        assert self._calls.stdin is not None and self._calls.stdout is not None
        self._calls.stdin.write(b"now\n")
        self._calls.stdin.flush()
        return 1e3 * float(self._calls.stdout.readline())

    def ask(self, seconds: float) -> dict[str, list[float]]:
        until, taken = time.monotonic() + seconds, dict[str, list[float]]()
        while time.monotonic() < until:
            for name, ask in self._asks().items():
                taken.setdefault(name, []).append(ask())
                time.sleep(0.002)
        return taken

    def _asks(self) -> dict[str, Callable[[], float]]:
        return {
            ALONE: lambda: timed(lambda: subprocess.run(["/bin/true"], stdout=DEVNULL)),
            UNSHARED: lambda: timed(lambda: subprocess.run(NAMESPACES, stdout=DEVNULL, stderr=DEVNULL)),
            "a run in an open cage": lambda: timed(lambda: self._cage.run(["/bin/true"])),
            "a run in a new cage": lambda: timed(lambda: Cage(self._policy).run(["/bin/true"])),
            "a decided call": self._call,
        }

    def end(self) -> None:
        self._calls.kill()
        self._calls.wait()
        self._calls.close()


@contextmanager
def attacked(attack: str, common: dict[str, Any]) -> Iterator[Callable[[bool], None]]:
    """A cage that attacks, and another when it was ended for it; yields what pauses it."""
    more, body = ATTACKS[attack]
    wanted, over = threading.Event(), threading.Event()

    def attack_again() -> None:
        while not over.is_set():
            wanted.wait()
            with Cage(Policy(**common, **more)) as cage:
                process = cage.spawn([*PYTHON, HEAD + body + "\ntime.sleep(3600)"], stdout=DEVNULL, stderr=DEVNULL)
                while process.poll() is None and wanted.is_set():
                    time.sleep(0.01)
                process.kill()

    def switch(on: bool) -> None:
        (wanted.set if on else wanted.clear)()
        time.sleep(0.3)

    thread = threading.Thread(target=attack_again)
    thread.start()
    try:
        yield switch
    finally:
        over.set()
        wanted.set()
        time.sleep(0.05)
        wanted.clear()
        thread.join()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.neighbours", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="of each attack (6)")
    parser.add_argument("--only", default="", help="attacks whose name holds this")
    given = parser.parse_args()
    common: dict[str, Any] = {"allow_ips": ["198.51.100.1"]}  # so that connects are decided
    print(f"{'':50} {'calm: p50':>8} {'p99':>8} {'worst':>8}   {'p50':>8} {'p99':>8} {'worst':>8} ms  n")
    with Cage(Policy(**common)) as cage:
        neighbour = Neighbour(cage, Policy(**common))
        for attack in ATTACKS:
            if given.only in attack:
                compare(neighbour, attack, common, given.seconds)
        neighbour.end()
    return 0


def compare(neighbour: Neighbour, attack: str, common: dict[str, Any], seconds: float) -> None:
    calm: dict[str, list[float]] = {}
    beside: dict[str, list[float]] = {}
    with attacked(attack, common) as switch:
        for kept, on in ((beside, True), (calm, False)) * 3:
            switch(on)
            for name, taken in neighbour.ask(seconds / 6).items():
                kept.setdefault(name, []).extend(taken)
    for name, taken in beside.items():
        over = " over 100" if max(taken) > BAR + max(*beside[ALONE], *beside[UNSHARED]) else ""
        print(
            f"{attack:26} {name:23} {percentiles(calm[name])}   {percentiles(taken)} {len(taken):6}{over}", flush=True
        )


if __name__ == "__main__":
    sys.exit(main())
