"""redis-benchmark outside, the server bare, in a cage with the host's network, and in a cage behind a published port.

What is compared is the cage alone. Every server has a session of its own, the bare ones too, as a cage's command and a
service of the host have: with autogroups (sched(7)) the scheduler shares a CPU between sessions, and a server in the
session of its client is woken and preempted differently, caged or not. One process is as fast as its pages happen to
lie, so each round has new servers; all run at once, each idle but for its turn, and the turns are shuffled.
"""

from __future__ import annotations

import csv
import io
import random
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from itertools import product

from bench.startup import SEED
from pysandbox import DEVNULL, Cage, CageError, Policy

SECONDS = 10.0
REQUESTS = 50_000
COMMANDS = ("SET", "GET")
OPTIONS = ("--save", "", "--appendonly", "no", "--protected-mode", "no", "--daemonize", "no")
BARE = {"bare": 7379, "bare, again": 7380}
DIRECT, PUBLISHED = 7381, 7382
INSIDE = 6379
POLICIES: Mapping[str, tuple[int, int, Policy, float]] = {  # label: port outside, inside, policy, bar
    "direct": (DIRECT, DIRECT, Policy(egress="direct", unsafe_direct=True), 0.97),
    "published port, relay": (PUBLISHED, INSIDE, Policy(ports=(f"{PUBLISHED}:{INSIDE}",)), 0.0),
}


def redis_rows(rounds: int, tell: Callable[[str, str], None]) -> None:
    if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
        tell("redis", "redis-server and redis-benchmark are missing")
        return
    chance = random.Random(SEED)
    starts = servers()
    rates: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        with ExitStack() as stack:
            ports: dict[str, int] = {}
            for label, start in list(starts.items()):
                try:
                    ports[label] = stack.enter_context(start())
                except (CageError, ConnectionError) as error:
                    del starts[label]
                    tell(f"redis, {label}", str(error))
            turns = list(product(ports, COMMANDS))
            for label, command in chance.sample(turns, len(turns)):
                rates.setdefault((label, command), []).append(benchmark(ports[label], command))
    for label, command in product(starts, COMMANDS):
        if label != "bare":
            tell(f"redis {command}, {label}, requests a second", verdict(rates, label, command))


def verdict(rates: Mapping[tuple[str, str], list[float]], label: str, command: str) -> str:
    one, other = statistics.median(rates["bare", command]), statistics.median(rates[label, command])
    bar = POLICIES[label][3] if label in POLICIES else 0.0
    said = f">= {bar:g} {'ok' if other / one >= bar else 'MISSED'}" if bar else ""
    return f"{one:12.0f} {other:12.0f} {other / one:7.2f}  {said}"


def benchmark(port: int, command: str) -> float:
    """Requests a second. One command a run: the first of several would find the CPUs as the turn before left them."""
    argv = ["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-t", command.lower(), "-n", str(REQUESTS),
            "-c", "50", "--csv"]  # fmt: skip
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=120)
    return next(float(line["rps"]) for line in csv.DictReader(io.StringIO(done.stdout)))


def servers() -> dict[str, Callable[[], AbstractContextManager[int]]]:
    """How each is started; what that gives is its port."""
    starts: dict[str, Callable[[], AbstractContextManager[int]]] = {}
    for label, port in BARE.items():
        starts[label] = partial(bare, port)
    for label, (outside, inside, policy, _) in POLICIES.items():
        starts[label] = partial(caged, policy, inside, outside)
    return starts


@contextmanager
def bare(port: int) -> Iterator[int]:
    argv = ["redis-server", "--port", str(port), *OPTIONS]
    process = subprocess.Popen(argv, cwd="/tmp", stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        answers(port)
        yield port
    finally:
        process.terminate()
        process.wait()


@contextmanager
def caged(policy: Policy, inside: int, outside: int) -> Iterator[int]:
    argv = ["redis-server", "--port", str(inside), *OPTIONS]
    with Cage(policy) as cage, cage.spawn(argv, cwd="/tmp", stdin=DEVNULL, stdout=DEVNULL):
        answers(outside)
        yield outside


def answers(port: int) -> None:
    """Returns when the server does; ConnectionError when it never did."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as s:
                s.sendall(b"PING\r\n")
                if s.recv(5) == b"+PONG":
                    return
        except OSError:
            pass
        if time.monotonic() > deadline:
            raise ConnectionError(f"nobody answers at port {port}")
        time.sleep(0.02)
