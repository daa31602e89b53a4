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
from functools import partial
from pathlib import Path
from typing import Any

from pysandbox import PIPE, Cage, Policy, Runtime
from pysandbox.policy.model import Grant
from pysandbox.testing import wait_idle

TRUE = ["/bin/true"]
READY_SECONDS = 2.0  # the longest to wait for the warm pool
PAUSE = 0.003  # before every sample, when the library's background work is done: for the kernel's


def nothing() -> None:
    pass


@dataclass
class Subject:
    key: str
    label: str
    sample: Callable[[], Any]
    ready: Callable[[], Any] = nothing
    close: Callable[[], Any] = nothing
    tidy: Callable[[], Any] = nothing  # after each sample, not measured: what must not fall on the next one
    samples: dict[str, list[float]] = field(default_factory=dict)  # host size -> seconds

    def measure(self, host: str) -> None:
        self.ready()
        wait_idle()
        time.sleep(PAUSE)
        began = time.perf_counter_ns()
        self.sample()
        self.samples.setdefault(host, []).append((time.perf_counter_ns() - began) / 1e9)
        self.tidy()


def checked(cage: Cage, **output: Any) -> None:
    """One run, which does what the yardstick does: no output is captured unless asked for. A cage that did not run the
    program would be a very fast one."""
    result = cage.run(TRUE, **(output or {"stdout": None, "stderr": None}))
    if result.exit_code != 0:
        raise RuntimeError(f"/bin/true ended with {result.exit_code} ({result.reason}): {result.stderr!r}")


def wait_for_pool(policy: Policy) -> None:
    """Returns when a cage of this policy is waiting; a run asks for one where there is none (expired, or replaced)."""
    from pysandbox.testing import pool_ready

    deadline = time.monotonic() + READY_SECONDS
    while not pool_ready(policy):
        if time.monotonic() > deadline:
            raise RuntimeError(f"no cage is kept ready for {policy}")
        checked(Cage(policy))
        wait_idle()


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
    runtime = Runtime(warm=0)  # knows the host, as after a program's first cage; keeps nothing ready
    folder = tempfile.TemporaryDirectory(prefix="psb-bench-")
    policies: list[Policy] = []

    def ready() -> None:
        number = len(policies)
        grant = Path(folder.name) / str(number)
        grant.mkdir()
        policies.append(Policy(allow=(Grant(str(grant)),), env=(("PSB_BENCH", str(number)),)))

    return Subject(
        "cold",
        "cage, cold policy",
        lambda: checked(Cage(policies[-1], runtime=runtime)),
        ready,
        folder.cleanup,
        lambda: wait_idle(runtime),
    )


def warm(key: str, label: str, policy: Policy, **output: Any) -> Subject:
    return Subject(key, label, lambda: checked(Cage(policy), **output), lambda: wait_for_pool(policy))


def session(policy: Policy) -> Subject:
    stack = ExitStack()
    cage = stack.enter_context(Cage(policy))
    return Subject("session", "one more command in an open cage", lambda: checked(cage), close=stack.close)


def passed_on(policy: Policy) -> Subject:
    """Where the host's own output leads to a pipe or a file, as a service's does: the command is given another pipe,
    and what it writes is passed on."""
    stack = ExitStack()
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    cage = stack.enter_context(Cage(policy))
    run = partial(checked, cage, stdout=ends[1], stderr=ends[1])
    return Subject("passed-on", "one more command, output to a pipe of the host", run, close=stack.close)


def ours() -> list[Subject]:
    return [
        yardstick(),
        captured(),
        posix_spawn(),
        warm("warm", "cage, warm policy", Policy()),
        warm("warm-captured", "cage, warm policy, output captured", Policy(), stdout=PIPE, stderr=PIPE),
        session(Policy()),
        passed_on(Policy()),
        warm("landlock", "cage, Landlock mode, warm policy", Policy(isolation="landlock", run_as="self")),
        cold(),
    ]


def burst(policy: Policy, count: int) -> float:
    """Cages a second when `count` are run back to back, never waiting for the pool to fill up again."""
    wait_for_pool(policy)
    began = time.perf_counter()
    for _ in range(count):
        checked(Cage(policy))
    return count / (time.perf_counter() - began)
