"""For tests and benchmarks of programs that use pysandbox: the state of the warm pool, and emptying it."""

from __future__ import annotations

import os

from pysandbox.policy.model import Policy
from pysandbox.runtime.runtime import Runtime, default_runtime

__all__ = ["drain", "pool_ready", "wait_idle"]


def drain(runtime: Runtime | None = None) -> None:
    """Waits for background work and closes the waiting cages; then only cages that somebody holds are running."""
    (runtime or default_runtime()).drain()


def pool_ready(policy: Policy, *, cwd: str | None = None, runtime: Runtime | None = None) -> bool:
    """Whether the next cage of this policy is already waiting."""
    return (runtime or default_runtime()).is_warm(policy, cwd or os.getcwd())


def wait_idle(runtime: Runtime | None = None) -> None:
    """Waits for background work only: ended cages are collected and taken ones replaced. For measurements."""
    (runtime or default_runtime()).wait_idle()
