"""One running host, as the conductor sees it: what it is doing, by the lines it writes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench.soak import REPOSITORY

DUMP_PATIENCE = 2.0  # seconds for a hanging host to write where it hangs
KEPT_LOG = 4000  # characters
WARM_ROUNDS = 20  # until caches of plans and idle workers have their size, and the allocator too
GROWTH_KIB = 48 * 1024  # what a host may grow after that, in all its rounds together


class HostProcess:
    """A process of bench.soak.host. `directory` is its TMPDIR, and goes with it."""

    def __init__(self, name: str, arguments: list[str], work: Path) -> None:
        self.name = name
        self.directory = work / name.replace(" ", "-")
        self.directory.mkdir()
        self.running: dict[int, tuple[str, float]] = {}
        self._log = self.directory / "log"
        self._rest = b""
        self._resident: list[int] = []  # KiB, after each round
        command = [sys.executable, "-m", "bench.soak.host", *arguments]
        environment = {**os.environ, "TMPDIR": str(self.directory), "XDG_RUNTIME_DIR": ""}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=REPOSITORY, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)

    def fileno(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def lines(self) -> list[dict[str, object]]:
        """What it has written since the last call, whole lines only."""
        try:
            data = os.read(self.fileno(), 1 << 16)
        except BlockingIOError:
            return []
        *whole, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in whole]

    def grown(self, resident: int) -> list[str]:
        """What is to be said of the host's memory after another round: a host that leaks grows without end."""
        self._resident.append(resident)
        warm = self._resident[:WARM_ROUNDS]
        if len(self._resident) > WARM_ROUNDS and resident > max(warm) + GROWTH_KIB:
            return [f"leak: a host grew from {max(warm)} to {resident} KiB in {len(self._resident)} rounds"]
        return []

    def overdue(self, patience: float) -> str:
        """The operation that takes too long, "" when none does."""
        limit = time.monotonic() - patience
        return next((name for name, since in self.running.values() if since < limit), "")

    def tell_to_end(self) -> None:
        assert self.process.stdin is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()

    def where_it_hangs(self) -> str:
        os.kill(self.process.pid, signal.SIGUSR1)
        time.sleep(DUMP_PATIENCE)
        return self.complaint()

    def complaint(self) -> str:
        return self._log.read_text(errors="replace").strip()[-KEPT_LOG:]

    def end(self) -> int:
        """Kills it, unless it has ended; removes what it could not. Returns the directories of cages among it."""
        self.process.kill()
        self.process.wait()
        self.tell_to_end()
        assert self.process.stdout is not None
        self.process.stdout.close()
        left = len(list(self.directory.glob("pysandbox-*")))
        shutil.rmtree(self.directory, ignore_errors=True)
        return left
