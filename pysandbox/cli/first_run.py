"""The first run of a command line: its plan is made and kept, and then it is like any later one: the launcher's.

What makes a plan and what carries it out need different halves of this package, and the second half exists in C. So
this process ends in the launcher, by execve(2), with the descriptors and the signals that it was started with, and
nothing of a running cage is ever imported here. Where that cannot be, `leave_to_launcher` returns, and the command is
run by `cli.perform`, which also tells what is wrong with a policy.
"""

from __future__ import annotations

import _signal as signal
import os
import time

from pysandbox.audit import AuditLog, files
from pysandbox.cli.keep import is_all_in_the_plan, launcher, may_be_kept, save_plan, split
from pysandbox.cli.kept_imports import starts_what_it_writes
from pysandbox.errors import CageError
from pysandbox.events import said_elsewhere
from pysandbox.launch.orders import DEFAULT_PATH, candidates
from pysandbox.probe.state import is_foreign
from pysandbox.runtime.plans import CompiledPlans
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from pysandbox.cli.policy_of import ResolvedRequest
    from pysandbox.runtime.prepared import Prepared

JUST_KEPT = "PYSANDBOX_JUST_KEPT"  # as csrc/launcher/main.c has it, which takes it away, or hands it back
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # and by nobody before it, as a rule


def leave_to_launcher(
    arguments: list[str], namespace: Namespace, asked: Callable[[], ResolvedRequest], *, pty: bool
) -> None:
    """Returns where this process is to run the command. The launcher has handed back what it was left, and could not
    start, when it says so: the two do not pass it to each other for ever."""
    if os.environ.pop(JUST_KEPT, None):
        return
    began, beside = time.time_ns(), launcher()
    if beside is None or not may_be_kept(namespace, arguments) or is_foreign(os.environ.get("HOME", "")):
        return
    trail = None if namespace.no_audit else files.chosen_path()
    try:
        resolved = asked()
        if not is_all_in_the_plan(resolved.policy):
            return
        plans = CompiledPlans(said_elsewhere, _begun(trail) if trail else "")
        prepared = plans.prepare(resolved.policy, os.getcwd())
    except (CageError, OSError):  # told by whoever comes to it again
        return
    alone = starts_what_it_writes(prepared.policy, prepared.paths)
    kept = save_plan(arguments, namespace, resolved, prepared,
                     began=began, pty=pty, audited=trail is not None, alone=alone)  # fmt: skip
    if kept and not alone and _is_there(arguments, prepared):  # alone, it could not say why the command failed
        _become(beside, arguments)


def _begun(trail: str) -> str:
    """The directory of the trail, which can be written from now on. Raises AuditError."""
    with AuditLog(trail) as log:
        return log.directory


def _is_there(arguments: list[str], prepared: Prepared) -> bool:
    """Whether there is a program to run: what is not found is told of by Python, which need not be asked twice."""
    _, argv = split(arguments)
    path = dict(prepared.plan.env).get("PATH", DEFAULT_PATH)
    return any(os.access(each, os.X_OK) for each in candidates(argv[0], path))


def _become(launcher: str, arguments: list[str]) -> None:
    """Returns only where there is nothing to become."""
    for number in IGNORED_BY_PYTHON:
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(launcher, [launcher, "run", *arguments], {**os.environ, JUST_KEPT: "1"})
    except OSError:
        for number in IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_IGN)
