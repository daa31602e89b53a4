"""Claim: a cage that makes its socket blocking just as the supervisor connects it delays no other cage's calls."""

from __future__ import annotations

import time
from pathlib import Path

import pysandbox
from pysandbox import Cage, Policy
from pysandbox.runtime.runtime import Runtime

from .harness import policy

OTHER = """
import socket, time
listener = socket.create_server(("127.0.0.1", 0))
worst = 0
for _ in range(300):
    began = time.monotonic()
    socket.create_connection(listener.getsockname()).close()
    listener.accept()[0].close()
    worst = max(worst, time.monotonic() - began)
print(worst)
"""
LONGEST_SLEEP = 3.0  # seconds; a connect that is left to sleep does so for two minutes


def allow(event: object, context: object) -> None:
    """Everything."""


def test_another_cage_s_connects_go_on(attack_bin: Path) -> None:
    runtime = Runtime(warm=0)
    rules = policy(allow=[str(attack_bin)])
    with Cage(rules, runtime=runtime, policy_fn=allow, watch=["network"]) as attacker:
        argv = [str(attack_bin / "unblock"), "1000000"]
        with attacker.spawn(argv, stdout=pysandbox.PIPE) as attack:
            assert attack.stdout is not None and attack.stdout.readline() == b"ready\n"
            began = time.monotonic()
            other = Cage(Policy(), runtime=runtime, policy_fn=allow, watch=["network"])
            result = other.run(["python3", "-c", OTHER], timeout=60, check=True)
            assert float(result.stdout) < LONGEST_SLEEP
            assert time.monotonic() - began < 60
            attack.kill()
    runtime.drain()
