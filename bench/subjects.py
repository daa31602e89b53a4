"""What is measured: every way of running /bin/true to its end, each as one `Subject`.

A subject has three parts: `ready` is called before each sample and is not measured (let the warm pool fill, invent a
policy never seen before), `sample` is measured, `close` ends what was opened for it. The yardstick is first; peers are
in peers.py.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pysandbox import Cage, Policy
from pysandbox.policy.model import Grant

TRUE = ["/bin/true"]
READY_SECONDS = 2.0  # the longest to wait for the warm pool
PAUSE = 0.003  # before every sample, for what the one before it has left to do in the background


def nothing() -> None:
    pass


@dataclass
class Subject:
    key: str
    label: str
    sample: Callable[[], Any]
    ready: Callable[[], Any] = nothing
    close: Callable[[], Any] = nothing
    samples: dict[str, list[float]] = field(default_factory=dict)  # host size -> seconds

    def measure(self, host: str) -> None:
        self.ready()
        time.sleep(PAUSE)
        began = time.perf_counter_ns()
        self.sample()
        self.samples.setdefault(host, []).append((time.perf_counter_ns() - began) / 1e9)


def checked(run: Callable[[], Any]) -> None:
    """A cage that did not run the program would be a very fast one."""
    result = run()
    if result.exit_code != 0:
        raise RuntimeError(f"/bin/true ended with {result.exit_code} ({result.reason}): {result.stderr!r}")


def wait_for_pool(policy: Policy) -> bool:
    """Waits until a cage of this policy is parked; False where the library keeps none for it."""
    from pysandbox.testing import pool_ready

    deadline = time.monotonic() + READY_SECONDS
    while not pool_ready(policy):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def drain() -> None:
    from pysandbox.testing import drain

    drain()


def yardstick() -> Subject:
    return Subject("subprocess", "subprocess.run (yardstick)", lambda: subprocess.run(TRUE))


def captured() -> Subject:
    """What a cage's `run` does by default: both outputs through pipes."""
    return Subject("captured", "subprocess.run, output captured", lambda: subprocess.run(TRUE, capture_output=True))


def posix_spawn() -> Subject:
    def sample() -> None:
        os.waitpid(os.posix_spawn(TRUE[0], TRUE, os.environ), 0)

    return Subject("posix_spawn", "os.posix_spawn + waitpid", sample)


def cold() -> Subject:
    """Each sample has a policy that was never seen: another directory granted, another variable set."""
    folder = tempfile.TemporaryDirectory(prefix="psb-bench-")
    policies: list[Policy] = []

    def ready() -> None:
        drain()
        number = len(policies)
        grant = Path(folder.name) / str(number)
        grant.mkdir()
        policies.append(Policy(allow=(Grant(str(grant)),), env=(("PSB_BENCH", str(number)),)))

    return Subject(
        "cold", "cage, cold policy", lambda: checked(lambda: Cage(policies[-1]).run(TRUE)), ready, folder.cleanup
    )


def warm(key: str, label: str, policy: Policy) -> Subject:
    def ready() -> None:
        if not wait_for_pool(policy):  # emptied by the cold subject: one run asks for the pool again
            Cage(policy).run(TRUE)
            wait_for_pool(policy)

    checked(lambda: Cage(policy).run(TRUE))
    return Subject(key, label, lambda: checked(lambda: Cage(policy).run(TRUE)), ready)


def session(policy: Policy) -> Subject:
    stack = ExitStack()
    cage = stack.enter_context(Cage(policy))
    return Subject(
        "session", "one more command in an open cage", lambda: checked(lambda: cage.run(TRUE)), close=stack.close
    )


def ours() -> list[Subject]:
    return [
        yardstick(),
        captured(),
        posix_spawn(),
        warm("warm", "cage, warm policy", Policy()),
        session(Policy()),
        warm("landlock", "cage, Landlock mode, warm policy", Policy(isolation="landlock", run_as="self")),
        cold(),
    ]


def burst(policy: Policy, count: int) -> float:
    """Cages a second when `count` are run back to back, never waiting for the pool to fill up again."""
    wait_for_pool(policy)
    began = time.perf_counter()
    for _ in range(count):
        checked(lambda: Cage(policy).run(TRUE))
    return count / (time.perf_counter() - began)
