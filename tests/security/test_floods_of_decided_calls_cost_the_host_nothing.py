"""Claim: very many decided calls, interrupted ones, many threads and many cages are each done once, and leave the host
no larger than it was.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pysandbox import Cage
from pysandbox.runtime.runtime import Runtime

from .harness import PATIENCE, in_cage, policy, wait_until

GROWTH_KB = 32 * 1024


class Counter:
    """Accepts and counts connections."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.port: int = self.listener.getsockname()[1]
        self.count = 0
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                self.listener.accept()[0].close()
            except OSError:
                return
            self.count += 1

    def close(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.listener.close()


@pytest.fixture
def counter() -> Iterator[Counter]:
    made = Counter()
    yield made
    made.close()


def resident_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "threads", "hertz"), [(100_000, 1, 0), (20_000, 1, 1000), (100, 200, 0)])
def test_each_connect_is_done_once(rounds: int, threads: int, hertz: int, attack_bin: Path, counter: Counter) -> None:
    rules = policy("landlock", allow=[str(attack_bin)], allow_ips=[f"127.0.0.1:{counter.port}"])
    runtime = Runtime(warm=0)
    with Cage(rules, runtime=runtime) as cage:
        in_cage(cage, [str(attack_bin / "busy"), str(counter.port), "100", "1", "0"])
        assert wait_until(lambda: counter.count == 100, PATIENCE)  # it may accept later than they connect
        before, counted = resident_kb(), counter.count
        argv = [str(attack_bin / "busy"), str(counter.port), str(rounds), str(threads), str(hertz)]
        assert in_cage(cage, argv)["busy"].value == rounds * threads
        assert resident_kb() - before < GROWTH_KB
    assert counter.count - counted <= rounds * threads
    runtime.drain()


def test_many_cages_are_decided_for_at_once(attack_bin: Path, counter: Counter) -> None:
    asked = []

    def allow(event: object, context: object) -> None:
        asked.append(event)

    rules = policy("landlock", allow=[str(attack_bin)], allow_ips=[f"127.0.0.1:{counter.port}"])
    runtime = Runtime(warm=0)
    with ExitStack() as stack:
        cages = [
            stack.enter_context(Cage(rules, runtime=runtime, policy_fn=allow, watch=["network"])) for _ in range(64)
        ]
        argv = [str(attack_bin / "busy"), str(counter.port), "20", "1", "0"]
        processes = [stack.enter_context(cage.spawn(argv)) for cage in cages]
        assert [process.wait(100) for process in processes] == [0] * 64
    assert len(asked) == 64 * 20
    runtime.drain()
