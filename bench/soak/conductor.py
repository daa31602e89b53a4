"""Starts hosts, kills them, holds the watch on every operation, and collects what was found.

Every orphan of the run becomes a child of this process (PR_SET_CHILD_SUBREAPER): whoever is still there when its host
is gone is seen here, without a look at other processes of the machine.
"""

from __future__ import annotations

import ctypes
import os
import random
import select
import signal
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from _support.residue import Picture
from bench.soak.canary import Canary, unnoticed
from bench.soak.running import HostProcess

PR_SET_CHILD_SUBREAPER = 36
WALL = 0x40000000  # __WALL: children that end without a signal, as cages do
TICK = 0.1
ROUNDS = "rounds, each with a look at what was left"


@dataclass(frozen=True, slots=True)
class Options:
    seconds: float
    hosts: int
    threads: int
    seed: int
    patience: float  # seconds an operation may take, and a process may outlive its host
    kill_every: float  # seconds between two killed hosts, on average
    planted: str = ""


@dataclass
class Score:
    """What was done, and what was found: lines, each with how often."""

    ended: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)


class Conductor:
    """`run` is the whole story; everything is looked at once in a TICK."""

    def __init__(self, options: Options, work: Path) -> None:
        self.options = options
        self.score = Score()
        self._work = work
        self._rng = random.Random(options.seed)
        self._hosts: list[HostProcess] = []
        self._started = 0
        self._orphans: dict[int, float] = {}  # pid -> when it was first seen without a host
        self._next_kill = 0.0

    def run(self) -> Score:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        before = Picture.take(cages=False)
        with Canary(self._work) as self._canary:
            self._find(f"the canary does not notice: {way}" for way in unnoticed(self._canary))
            try:
                self._until(time.monotonic() + self.options.seconds)
                self._finish()
            finally:
                self._end_all()
        self._find(f"left behind at the end: {line}" for line in Picture.take(cages=False).left_behind(before))
        return self.score

    def _until(self, deadline: float) -> None:
        """However slow the machine is: not before one host has come to the end of a round, or something was found."""
        self._plan_kill()
        while time.monotonic() < deadline or not (self.score.events[ROUNDS] or self.score.found):
            while len(self._hosts) < self.options.hosts:
                self._start()
            self._tick()
            if time.monotonic() > self._next_kill:
                self._kill_one()
                self._plan_kill()

    def _finish(self) -> None:
        """Hosts end by themselves, and then every process of theirs has to be gone."""
        for host in self._hosts:
            host.tell_to_end()
        deadline = time.monotonic() + 2 * self.options.patience
        while (self._hosts or self._orphans) and time.monotonic() < deadline:
            self._tick()
        self._find(f"{host.name} does not end:\n{host.where_it_hangs()}" for host in self._hosts)

    def _tick(self) -> None:
        ready, _, _ = select.select(self._hosts, [], [], TICK)
        for host in ready:
            self._listen(host)
        for host in list(self._hosts):
            self._look_after(host)
        self._look_at_orphans()
        if harmed := self._canary.harmed():
            self._find(f"escape: the canary sings: {each}" for each in harmed)
            self._canary.restore()

    # ---- hosts --------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._started += 1
        options = self.options
        arguments = [
            f"{options.seed}/{self._started}", str(options.threads), str(options.patience / 2),
            self._canary.whereabouts().text(), self._canary.secret, *filter(None, [options.planted]),
        ]  # fmt: skip
        self._hosts.append(HostProcess(f"host {self._started}", arguments, self._work))

    def _listen(self, host: HostProcess) -> None:
        for line in host.lines():
            match line:
                case {"begin": int(number), "operation": str(name)}:
                    host.running[number] = name, time.monotonic()
                case {"end": int(number)}:
                    self.score.ended[host.running.pop(number)[0]] += 1
                case {"found": str(text)}:
                    self._find([text])
                case {"round": int(), "resident": int(resident)}:
                    self.score.events[ROUNDS] += 1
                    self._find(host.grown(resident))

    def _look_after(self, host: HostProcess) -> None:
        slow = host.overdue(self.options.patience)
        if slow:
            self._find([f"hang: {slow} takes more than {self.options.patience:g} s\n{host.where_it_hangs()}"])
            self._drop(host)
        elif (code := host.process.poll()) is not None:
            self._listen(host)
            if code != 0:
                self._find([f"a host ended with {code}:\n{host.complaint()}"])
            self._drop(host)

    def _kill_one(self) -> None:
        if self._hosts:
            self.score.events["hosts killed"] += 1
            self._drop(self._rng.choice(self._hosts))

    def _plan_kill(self) -> None:
        self._next_kill = time.monotonic() + self._rng.expovariate(1 / self.options.kill_every)

    def _drop(self, host: HostProcess) -> None:
        self._hosts.remove(host)
        self.score.events["directories left by killed hosts"] += host.end()

    def _end_all(self) -> None:
        for host in list(self._hosts):
            self._drop(host)
        for pid in self._orphans:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, WALL)

    # ---- orphans ------------------------------------------------------------------------------------------------

    def _look_at_orphans(self) -> None:
        """Collects the dead ones; a living one may take as long as an operation."""
        now = time.monotonic()
        known = {host.process.pid for host in self._hosts} | {self._canary.whereabouts().pid}
        alive = {pid for pid in _children() - known if os.waitpid(pid, os.WNOHANG | WALL) == (0, 0)}
        self._orphans = {pid: self._orphans.get(pid, now) for pid in alive}
        for pid, since in list(self._orphans.items()):
            if now - since > self.options.patience:
                self._find([f"stray: a process outlived its host: {_command(pid)}"])
                os.kill(pid, signal.SIGKILL)

    def _find(self, lines: Iterable[str]) -> None:
        self.score.found.update(lines)


def _children() -> set[int]:
    found: set[int] = set()
    for task in os.listdir("/proc/self/task"):
        found.update(map(int, Path(f"/proc/self/task/{task}/children").read_text().split()))
    return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:120]
    except OSError:
        return f"pid {pid}, ended meanwhile"
