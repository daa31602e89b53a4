"""redis-benchmark outside, the server bare, in a cage with the host's network, and in a cage behind a published port.

All servers run at once, each idle but for its turn.
"""

from __future__ import annotations

import csv
import io
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from pysandbox import DEVNULL, Cage, CageError, Policy

SECONDS = 10.0
REQUESTS = 20_000
OPTIONS = ("--save", "", "--appendonly", "no", "--protected-mode", "no", "--daemonize", "no")
BARE, DIRECT, PUBLISHED = 7379, 7380, 7381
INSIDE = 6379
POLICIES: Mapping[str, tuple[int, int, Policy, float]] = {  # label: port outside, inside, policy, bar
    "direct": (DIRECT, DIRECT, Policy(egress="direct", unsafe_direct=True), 0.97),
    "published port, relay": (PUBLISHED, INSIDE, Policy(ports=(f"{PUBLISHED}:{INSIDE}",)), 0.0),
}


def redis_rows(rounds: int, tell: Callable[[str, str], None]) -> None:
    if not shutil.which("redis-server") or not shutil.which("redis-benchmark"):
        tell("redis", "redis-server and redis-benchmark are missing")
        return
    with ExitStack() as stack:
        stack.enter_context(bare())
        ports = {"bare": BARE, "bare, again": BARE}
        for label, (outside, inside, policy, _) in POLICIES.items():
            try:
                stack.enter_context(caged(policy, inside, outside))
                ports[label] = outside
            except (CageError, ConnectionError) as error:
                tell(f"redis, {label}", str(error))
        rates: dict[tuple[str, str], list[float]] = {}
        for _ in range(rounds):
            for label, port in ports.items():
                for command, rate in benchmark(port).items():
                    rates.setdefault((label, command), []).append(rate)
    for (label, command), kept in rates.items():
        if label != "bare":
            one, other = statistics.median(rates["bare", command]), statistics.median(kept)
            bar = POLICIES[label][3] if label in POLICIES else 0.0
            said = f">= {bar:g} {'ok' if other / one >= bar else 'MISSED'}" if bar else ""
            tell(
                f"redis {command}, {label}, requests a second", f"{one:12.0f} {other:12.0f} {other / one:7.2f}  {said}"
            )


def benchmark(port: int) -> dict[str, float]:
    """Requests a second, of SET and GET."""
    command = ["redis-benchmark", "-h", "127.0.0.1", "-p", str(port), "-t", "set,get", "-n", str(REQUESTS), "-c", "50",
               "--csv"]  # fmt: skip
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=120)
    return {line["test"]: float(line["rps"]) for line in csv.DictReader(io.StringIO(done.stdout))}


@contextmanager
def bare() -> Iterator[None]:
    process = subprocess.Popen(["redis-server", "--port", str(BARE), *OPTIONS], stdout=subprocess.DEVNULL)
    try:
        answers(BARE)
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def caged(policy: Policy, inside: int, outside: int) -> Iterator[None]:
    argv = ["redis-server", "--port", str(inside), *OPTIONS]
    with Cage(policy) as cage, cage.spawn(argv, cwd="/tmp", stdin=DEVNULL, stdout=DEVNULL):
        answers(outside)
        yield


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
