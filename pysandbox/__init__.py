"""pysandbox: run code that nobody has reviewed, in a cage made of kernel primitives, without root.

    from pysandbox import Cage, Policy

    result = Cage(Policy(allow_write=["/home/me/project"])).run(["python3", "generated.py"])

The names below are the public ones; each is imported when it is first used.

    policy/   what the user wants          probe/    what the host can do     compile/  both -> Plan (pure)
    launch/   Plan -> a waiting cage       cage.py   START HERE               process.py  commands and results
    handlers/ one call -> its verdict (pure)   supervise/ calls decided at run time
    aio.py    the same for asyncio         cli/      the command line         errors.py events.py testing.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

_WHERE = {
    "pysandbox.aio": ("AsyncCage", "AsyncProcess"),
    "pysandbox.cage": ("Cage", "DEVNULL", "PIPE", "STDOUT", "run", "spawn"),
    "pysandbox.errors": (
        "CageClosedError", "CageError", "CageTimeout", "ExitError", "PolicyError", "SandboxCompileError",
        "SandboxPathMissing", "StartError", "UnsupportedError",
    ),
    "pysandbox.events": ("Event",),
    "pysandbox.launch.runtime": ("Runtime",),
    "pysandbox.launch.scratch": ("Session",),
    "pysandbox.policy.model": ("Policy",),
    "pysandbox.policy.option": ("Grant",),
    "pysandbox.handlers.denial": ("Denial",),
    "pysandbox.process": ("Process", "Result", "Usage"),
    "pysandbox.supervise.context": ("Context",),
    "pysandbox.supervise.policy_fn": ("CallEvent",),
}  # fmt: skip
_HOME = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "DEVNULL", "PIPE", "STDOUT", "AsyncCage", "AsyncProcess", "Cage", "CageClosedError", "CageError", "CageTimeout",
    "CallEvent", "Context", "Denial", "Event", "ExitError", "Grant", "Policy", "PolicyError", "Process", "Result",
    "Runtime", "SandboxCompileError", "SandboxPathMissing", "Session", "StartError", "UnsupportedError", "Usage", "run",
    "spawn",
]  # fmt: skip

if TYPE_CHECKING:
    from pysandbox.aio import AsyncCage, AsyncProcess
    from pysandbox.cage import DEVNULL, PIPE, STDOUT, Cage, run, spawn
    from pysandbox.errors import (
        CageClosedError,
        CageError,
        CageTimeout,
        ExitError,
        PolicyError,
        SandboxCompileError,
        SandboxPathMissing,
        StartError,
        UnsupportedError,
    )
    from pysandbox.events import Event
    from pysandbox.handlers.denial import Denial
    from pysandbox.launch.runtime import Runtime
    from pysandbox.launch.scratch import Session
    from pysandbox.policy.model import Policy
    from pysandbox.policy.option import Grant
    from pysandbox.process import Process, Result, Usage
    from pysandbox.supervise.context import Context
    from pysandbox.supervise.policy_fn import CallEvent


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'pysandbox' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
