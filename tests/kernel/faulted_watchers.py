"""The host that faults.c traces, once more: calls fail on its other threads, which watch over its cages (supervisor and
notifier loops, gatekeeper, relay, watchdog, what passes output on), and each trial is judged from outside.

    faulted_watchers.py DIRECTORY GRANTED FORBIDDEN SHAPE ERRNO[,ERRNO...] SEED SAMPLE

GRANTED and FORBIDDEN are ports of the host at which somebody says "hello". Wrong is: what is refused was done, another
cage is hurt, a watcher ended without a word, a hang, an exception that is no error of a cage, anything left. What was
granted may fail. SAMPLE calls are tried with each errno; 0: all of them.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import json
import os
import random
import re
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from faulted_host import ARM, COUNT, HIT, PARTS, Hung, Trials, ask, hung

from pysandbox import DEVNULL, PIPE, Cage, CageError, Policy, Runtime
from pysandbox.events import GATEKEEPER_FAILED, SUPERVISOR_FAILED, Event

WATCHER = PARTS.index("watcher")
HANGS = 12  # seconds; a watcher may take five to leave
ENDS = frozenset({GATEKEEPER_FAILED.name, SUPERVISOR_FAILED.name})
DOORS = """
said() { read -t 3 word <&3; echo "$1 ${word:-nothing}"; word=; exec 3<&-; }
(exec 3<>/dev/tcp/host.pysandbox.internal/$0 && said granted) 2>/dev/null
(exec 3<>/dev/tcp/host.pysandbox.internal/$1 && said forbidden) 2>/dev/null
echo done
"""
EXECS = "/bin/true && echo granted true\n/usr/bin/id >/dev/null 2>&1 && echo forbidden id\necho done"
SERVES = "import socket; s = socket.create_server(('127.0.0.1', 8000)); print(flush=True); s.accept()[0].send(b'hello')"
EATS = "import time; data = bytearray(b'x' * (320 << 20)); time.sleep(10); print('forbidden memory')"


def refuses_id(event: Any, _: object) -> bool | None:
    return True if (event.argv or ("",))[0].endswith("id") else None


class Watched(Trials):
    """A Runtime for each trial: every watcher starts and ends in it."""

    settles = 10.0  # a machine may be busy

    def __init__(self, directory: str, granted: str, forbidden: str, shape: str) -> None:
        self.directory, self.ports, self.shape = Path(directory), (granted, forbidden), shape
        self.kinds = collections.Counter()
        self.told: list[str] = []
        self.alive = False  # whether the bystanders still answer

    # ---- what a cage does ---------------------------------------------------------------------------------------

    def said(self, policy: Policy, argv: list[str], **options: Any) -> str:
        result = Cage(policy, runtime=self.runtime, **options).run(argv, stdin=DEVNULL)
        return str(result.stdout)

    def doors(self) -> str:
        policy = Policy(allow_host_loopback=True, host_loopback_ports=(int(self.ports[0]),))
        return self.said(policy, ["/bin/bash", "-c", DOORS, *self.ports])

    def calls(self) -> str:
        return self.said(Policy(), ["/bin/sh", "-c", EXECS], policy_fn=refuses_id)

    def limits(self) -> str:
        return self.said(Policy(memory_mb=64), ["/usr/bin/python3", "-c", EATS])

    def published(self) -> str:
        with socket.socket() as held:
            held.bind(("127.0.0.1", 0))
            port = held.getsockname()[1]
        policy = Policy(ports=(f"{port}:8000",))
        with Cage(policy, runtime=self.runtime) as cage, cage.spawn(
            ["/usr/bin/python3", "-c", SERVES], stdin=DEVNULL, stdout=PIPE
        ) as server:  # fmt: skip
            assert server.stdout is not None
            server.stdout.readline()
            with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
                return f"granted {client.recv(10).decode()}\ndone\n"

    def passed_on(self) -> str:
        """Output of a file's: what is there when the command has ended is all of it, or it is an error."""
        target = self.directory / "output"
        with target.open("wb") as file:
            result = Cage(runtime=self.runtime).run(["/usr/bin/head", "-c", "300000", "/dev/zero"], stdout=file)
        return f"granted {target.stat().st_size} {result.exit_code}\ndone\n"

    def piped(self) -> str:
        """As `passed_on`, where the output goes to a pipe of the host's."""
        reading, writing = os.pipe()
        with open(reading, "rb") as read, open(writing, "wb") as write:
            result = Cage(runtime=self.runtime).run(["/usr/bin/head", "-c", "30000", "/dev/zero"], stdout=write)
            write.close()
            return f"granted {len(read.read())} {result.exit_code}\ndone\n"

    # ---- one trial ----------------------------------------------------------------------------------------------

    def run(self, before: Callable[[], object] = int, after: Callable[[], object] = int) -> str:
        """With two other cages, one that needs no watcher and one that needs the same. What went wrong with them is
        said in lines of its own."""
        self.told = []
        self.runtime = Runtime(warm=0, sink=self.sink)
        with contextlib.ExitStack() as stack:
            stack.callback(self.runtime.drain)
            plain = stack.enter_context(Cage(runtime=self.runtime))
            other = stack.enter_context(
                Cage(
                    Policy(allow_host_loopback=True, host_loopback_ports=(9,)),
                    policy_fn=refuses_id,
                    runtime=self.runtime,
                )
            )
            before()
            try:
                said = str(getattr(self, self.shape)())
            finally:
                after()
                self.others = self.look_at(plain, other)
        return said

    def left(self) -> list[str]:
        """Without numbers, and without the program that each Runtime opens once and keeps."""
        found = [each for each in super().left() if not each.endswith("/cage-init")]
        return sorted(re.sub(r"^(fd|child) \d+|(?<=\[)\d+", r"\1", each) for each in found)

    def sink(self, event: Event) -> None:
        self.told.append(event.type)

    def look_at(self, plain: Cage, other: Cage) -> list[str]:
        wrong = []
        if self.answers(plain) != "yes":
            wrong.append("a cage that nobody watches was hurt")
        answer = self.answers(other)
        if answer != "yes" and not self.was_told():
            wrong.append(f"another cage ended without a word: {answer}")
        return wrong

    def was_told(self) -> bool:
        """Cages are ended before it is said why, by another thread than the one that looks."""
        deadline = time.monotonic() + self.settles
        while not ENDS & set(self.told) and time.monotonic() < deadline:
            time.sleep(0.002)
        return bool(ENDS & set(self.told))

    def answers(self, cage: Cage) -> str:
        try:
            return "yes" if cage.run(["/bin/true"], stdin=DEVNULL, timeout=5).exit_code == 0 else "no"
        except CageError as error:
            return repr(error)

    def trial_of(self, n: int, number: int) -> None:
        outcome, trace, fine, hit, before = "", "", False, -1, self.left()
        signal.setitimer(signal.ITIMER_REAL, HANGS)
        self.others: list[str] = []

        def after() -> None:
            nonlocal hit
            hit = ask(HIT)
            ask(COUNT, WATCHER)

        try:
            said = self.run(lambda: ask(ARM, WATCHER, n, number), after)
            fine = not self.others and not any(
                line.startswith("forbidden") and not line.endswith(" nothing") for line in said.splitlines()
            )
            outcome = ("same" if said == self.good else "less") if fine else f"WRONG: {said!r} {self.others}"
        except Hung:
            outcome, trace = "HUNG", traceback.format_exc()
        except BaseException as error:
            outcome, trace = f"{type(error).__name__}: {error} {self.others}", traceback.format_exc()
            fine = isinstance(error, (CageError, OSError, MemoryError)) and not self.others
            fine = fine and not isinstance(error, TimeoutError)  # told at once, or not at all
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self.kinds[outcome.split(":")[0]] += 1
        left = self.settled(before)
        if left or not fine:
            told = {"shape": self.shape, "n": n, "call": hit, "errno": errno.errorcode[number], "outcome": outcome}
            print(json.dumps({**told, "left": left, "told": self.told, "trace": trace}), flush=True)


def main() -> None:
    directory, granted, forbidden, shape, numbers, seed, sample = sys.argv[1:]
    signal.signal(signal.SIGALRM, hung)
    watched, chance = Watched(directory, granted, forbidden, shape), random.Random(seed)
    counted: list[int] = []
    watched.good = watched.run(lambda: ask(ARM, WATCHER, 0, 0), lambda: counted.append(ask(COUNT, WATCHER)))
    tried = 0
    for name in numbers.split(","):
        calls = range(1, counted[0] + 1)
        for n in sorted(chance.sample(calls, min(int(sample) or len(calls), len(calls)))):
            watched.trial_of(n, getattr(errno, name))
            tried += 1
    print(json.dumps({"calls": counted[0], "tried": tried, "kinds": watched.kinds, "good": watched.good}))


if __name__ == "__main__":
    main()
