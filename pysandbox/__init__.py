"""pysandbox: run code that nobody has reviewed, in a cage made of kernel primitives, without root.

    from pysandbox import Cage, Policy

    result = Cage(Policy(allow_write=["/home/me/project"])).run(["python3", "generated.py"])

The names below are the public ones; each is imported when it is first used.

    policy/   what the user wants          probe/    what the host can do     compile/  both -> Plan (pure)
    launch/   Plan -> a waiting cage       live/     one running cage         records/  which cages there are
    runtime/  what cages share             one_command.py  run and spawn
    cage.py   START HERE: launcher.py is where its cages come from, open_cage.py the cage of a session, start.py the one
              way to a running command; callback_options.py, files.py, misplaced.py   what else is said and asked of it
    process.py  a running command: process_state.py, exchange.py; its end: result.py, result_text.py, exit_codes.py
    confinement.py  a process that confines itself
    handlers/ one call -> its verdict (pure)   supervise/ calls decided at run time   gate/    the network's doors
    dlp/      credentials in what is sent  (pure)
    audit/    what ran, kept and told      aio.py, aio_exchange.py, aio_files.py   the same for asyncio
    shim.py, detached.py   a cage that outlives its program
    cli/      the command line             setup/    AppArmor and SELinux     netfilter/ nf_tables, as bytes
    streams/  what flows in and out of a command   descriptors/ 0, 1, 2 and others, kept in order
    stages/   commands joined by pipes     pipeline/ functions called in a cage
    workspace/ what a copy-on-write cage wrote, until it is taken over or forgotten
    apps/     programs whose every effect is checked against a signed grant (document 004)
    errors.py, cage_error.py, events.py, denial.py, note.py, keywords.py   what is told, and what calls take
    testing.py  for tests of programs that use this    greenlets.py  gevent in the place of threads    sha256.py
    shapes/   dataclasses that cost nothing at the start
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's own, which would cost this start half as much again as the interpreter itself

__version__ = "0.1.0"

_WHERE = {
    "pysandbox.aio": ("AsyncCage", "AsyncProcess"),
    "pysandbox.audit.sink": ("AuditLog",),
    "pysandbox.cage": ("Cage", "DEVNULL", "PIPE", "STDOUT"),
    "pysandbox.confinement": ("Confinement", "confine"),
    "pysandbox.detached": ("Detached",),
    "pysandbox.errors": (
        "AppError", "AuditError", "CageClosedError", "CageError", "CagePausedError", "CageTimeout", "ConfineError",
        "ExitError", "SandboxedError",
        "PolicyError", "SandboxCgroupError", "SandboxCompileError", "SandboxNetworkError", "SandboxPathMissing",
        "SandboxSpawnError", "StartError", "TemplateError", "UnstoppableError", "UnsupportedError",
    ),
    "pysandbox.events": ("Event",),
    "pysandbox.runtime.runtime": ("Runtime",),
    "pysandbox.launch.scratch": ("Session",),
    "pysandbox.live.stats": ("Stats",),
    "pysandbox.one_command": ("run", "spawn"),
    "pysandbox.pipeline.dispatch": ("CageFuture",),
    "pysandbox.pipeline.executor": ("CageExecutor",),
    "pysandbox.pipeline.mapping": ("WorkerResult",),
    "pysandbox.pipeline.template": ("Template",),
    "pysandbox.policy.host": ("HostRule",),
    "pysandbox.policy.secret": ("Secret",),
    "pysandbox.policy.keywords": ("PolicyOptions",),
    "pysandbox.policy.model": ("Policy",),
    "pysandbox.policy.option": ("Grant",),
    "pysandbox.denial": ("Denial",),
    "pysandbox.pipeline.sandboxed": ("SandboxedFunction", "sandboxed"),
    "pysandbox.process": ("Process",),
    "pysandbox.result": ("Result", "Usage"),
    "pysandbox.stages": ("Pipeline", "PipelineResult", "Stage"),
    "pysandbox.gate.sent": ("SentPart",),
    "pysandbox.supervise.context": ("Context",),
    "pysandbox.supervise.policy_fn": ("CallEvent",),
}  # fmt: skip
_HOME = {name: module for module, names in _WHERE.items() for name in names}

__all__ = [
    "DEVNULL", "PIPE", "STDOUT", "AppError", "AsyncCage", "AsyncProcess", "AuditError", "AuditLog", "Cage",
    "CageClosedError", "CageError", "CageExecutor", "CageFuture", "CagePausedError", "CageTimeout", "CallEvent",
    "ConfineError", "Confinement",
    "Context", "Denial", "Detached", "Event", "ExitError", "Grant", "HostRule", "Pipeline", "PipelineResult",
    "Policy", "PolicyError", "PolicyOptions", "Process", "Result", "Runtime", "SandboxCgroupError",
    "SandboxCompileError", "SandboxNetworkError", "SandboxPathMissing", "SandboxSpawnError", "SandboxedError",
    "SandboxedFunction", "Secret", "SentPart", "Session", "Stage", "StartError", "Stats", "Template", "TemplateError",
    "UnstoppableError", "UnsupportedError", "Usage", "WorkerResult", "confine", "run", "sandboxed", "spawn",
]  # fmt: skip

if TYPE_CHECKING:
    from pysandbox.aio import AsyncCage, AsyncProcess
    from pysandbox.audit.sink import AuditLog
    from pysandbox.cage import DEVNULL, PIPE, STDOUT, Cage
    from pysandbox.confinement import Confinement, confine
    from pysandbox.denial import Denial
    from pysandbox.detached import Detached
    from pysandbox.errors import (
        AppError,
        AuditError,
        CageClosedError,
        CageError,
        CagePausedError,
        CageTimeout,
        ConfineError,
        ExitError,
        PolicyError,
        SandboxCgroupError,
        SandboxCompileError,
        SandboxedError,
        SandboxNetworkError,
        SandboxPathMissing,
        SandboxSpawnError,
        StartError,
        TemplateError,
        UnstoppableError,
        UnsupportedError,
    )
    from pysandbox.events import Event
    from pysandbox.gate.sent import SentPart
    from pysandbox.launch.scratch import Session
    from pysandbox.live.stats import Stats
    from pysandbox.one_command import run, spawn
    from pysandbox.pipeline.dispatch import CageFuture
    from pysandbox.pipeline.executor import CageExecutor
    from pysandbox.pipeline.mapping import WorkerResult
    from pysandbox.pipeline.sandboxed import SandboxedFunction, sandboxed
    from pysandbox.pipeline.template import Template
    from pysandbox.policy.host import HostRule
    from pysandbox.policy.keywords import PolicyOptions
    from pysandbox.policy.model import Policy
    from pysandbox.policy.option import Grant
    from pysandbox.policy.secret import Secret
    from pysandbox.process import Process
    from pysandbox.result import Result, Usage
    from pysandbox.runtime.runtime import Runtime
    from pysandbox.stages import Pipeline, PipelineResult, Stage
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
