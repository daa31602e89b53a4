"""What serves the cage of a run that the launcher has started (csrc/launcher/services.h). Nobody types it.

    pysandbox-python beside RUN [flags of run] -- COMMAND ...

The launcher holds the command's streams, its signals and its terminal, to the end. This process is started beside it
when the first call, connection or look at the memory waits for somebody: it compiles the policy again, takes over what
the launcher holds of the cage, and says so. From then on it is for this cage what `cli.perform` is for its own: it
decides, answers and watches, records the end, and says why the command failed. Its exit code is the run's.

RUN is JSON, and tells which run that is, and under which numbers the descriptors are open here. A policy that does not
come to the very rules that the cage was made for ends it: then they were changed in between. Its files may be others by
now, as the command may have made some; the names that it was to leave alone come from the kept plan.
"""

from __future__ import annotations

import json
import os
import struct
import time
from contextlib import ExitStack, suppress
from socket import AF_UNIX, SOCK_SEQPACKET, socket

from pysandbox.cage import Cage
from pysandbox.callback_options import CallbackOptions
from pysandbox.cli import console
from pysandbox.cli.descriptors import wants_pty
from pysandbox.cli.flags import policy_values
from pysandbox.cli.kept_services import served_digest
from pysandbox.cli.note_lines import end_lines
from pysandbox.cli.perform import failed, say_why
from pysandbox.cli.policy_of import policy_of
from pysandbox.cli.run import read_arguments
from pysandbox.cli.trail import open_audit
from pysandbox.command import Command, LaunchRequest
from pysandbox.errors import CageError
from pysandbox.events import ignore, said_elsewhere
from pysandbox.exit_codes import BY_SIGNAL, OUR_FAILURE
from pysandbox.launch.native import Opened
from pysandbox.launch.stdio import Stdio
from pysandbox.launcher import Launcher
from pysandbox.live.init import CageInit
from pysandbox.live.kill_reason import OUT_OF_MEMORY, unwatched
from pysandbox.probe.planted import Absences
from pysandbox.process import Process
from pysandbox.process_state import ProcessState
from pysandbox.runtime.plans import CompiledPlans
from pysandbox.runtime.runtime import Runtime
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple, replace

if TYPE_CHECKING:
    from pysandbox.audit import AuditLog
    from pysandbox.cli.policy_of import ResolvedRequest
    from pysandbox.compile.plan import Plan
    from pysandbox.probe.planted import Absent
    from pysandbox.runtime.prepared import Prepared

ENDING = struct.Struct("@4i")  # struct ending of csrc/launcher/services.h
BLAMED = {1: "timeout", 2: "cancelled"}
UNSEEN = unwatched(TimeoutError("what its processes use could not be read"))
KILL_REASONS = {3: OUT_OF_MEMORY, 4: UNSEEN}
NO_CAUSE = -1
READY = b"r"
COMMAND = 1  # the only one of its cage
ENDING_SIGNALS = (1, 15)  # SIGHUP, SIGTERM: what the command makes of them is its own affair
LOOK = 0.01  # seconds between two looks at a cage that is over its limit, and not killed yet


def main(arguments: list[str], verbose: bool) -> int:
    run = json.loads(arguments[0])
    namespace, argv = read_arguments(arguments[1:])
    try:
        return _serve(run, namespace, argv)
    except (CageError, OSError) as error:
        return failed(error, argv, as_json=False)


class OpenedBefore(Opened):
    """A cage that the launcher has opened, and ends."""

    def __init__(self, run: dict[str, Any]) -> None:
        self._held = None
        self.upper = -1  # such a plan is not kept
        self.pid, self.user = int(run["pid"]), int(run["user"])
        self.pidfd, self.control = int(run["pidfd"]), int(run["control"])
        self.listener = int(run.get("listener", -1))


class ReportedEnd(NamedTuple):
    """The launcher's part in the end of the command."""

    blame: int
    cause: int
    insisted: int
    lost: int

    def code(self, own: int) -> int:
        """The exit code of a command whose own is `own`, as `Attendance.code` and `console.exit_code_after_loss`."""
        heeded = self.cause - BY_SIGNAL in ENDING_SIGNALS and not self.insisted
        code = own if self.cause == NO_CAUSE or heeded else self.cause
        return OUR_FAILURE if self.lost and not code else code


def _serve(run: dict[str, Any], namespace: Any, argv: list[str]) -> int:
    asked = policy_of(namespace.recipe, command=argv, extra=policy_values(namespace), pty=wants_pty(namespace))
    cage = _cage(asked, open_audit() if not namespace.no_audit else None)
    prepared = cage.runtime.prepare(cage.policy, os.getcwd())
    if served_digest(prepared.policy, prepared.plan) != run["served"]:
        raise CageError("what this run is to be like has changed since it began, and so it was ended; run it again")
    prepared = replace(prepared, absences=Absences(_read_absent(int(run["absent"]))))
    with ExitStack() as stack:
        stack.callback(cage.runtime.drain)
        live = _adopt(run, cage, prepared)
        process = stack.enter_context(_running(run, cage, prepared, live, argv))
        ending = _await_end(int(run["channel"]))
        if ending is None:  # the launcher is gone, and the cage with it
            live.end()
            return OUR_FAILURE
        live.kill_reason = live.kill_reason or KILL_REASONS.get(ending.blame)
        if ending.blame in BLAMED:
            timed_out = BLAMED[ending.blame] == "timeout"
            process.blame("timeout" if timed_out else "cancelled", namespace.timeout if timed_out else None)
        process.wait()
        result = process.result()
    for message in end_lines(result.notes):
        console.warning(message)
    return say_why(result, cage, ending.code(result.exit_code))


def _cage(asked: ResolvedRequest, audit: AuditLog | None) -> Cage:
    """Compiling tells nothing here: all that can be told of the plan was, before the command was ordered."""
    runtime = Runtime(sink=said_elsewhere, audit=audit, warm=0, register=False)
    runtime.plans = CompiledPlans(ignore, audit.directory if audit is not None else "")
    return Cage(asked.policy, runtime=runtime, labels=asked.labels)


def _read_absent(fd: int) -> list[Absent]:
    """Each tree and name, as Python can not see any more which were absent."""
    told = os.pread(fd, os.fstat(fd).st_size, 0)
    os.close(fd)
    texts = [os.fsdecode(text) for text in told.split(b"\0")[:-1]]
    return list(zip(texts[::2], texts[1::2], strict=True))


def _adopt(run: dict[str, Any], cage: Cage, prepared: Prepared) -> CageInit:
    """The cage, with all that serves it. Raises StartError, CageClosedError, OSError; the launcher ends it then."""
    doors = {}
    for name, fd in run["doors"].items():
        kind, slash, protocol = name.partition("/")
        if slash:
            doors[kind, protocol] = int(fd)
    live = CageInit(OpenedBefore(run), run["id"], doors=doors)
    live.hostname, live.orders = run["hostname"], 1
    if "cgroup" in run:
        from pysandbox.live.cgroup import CageCgroup

        live.cgroup = CageCgroup(run["cgroup_path"], int(run["cgroup"]))
    assert live.commands.begin() == COMMAND
    Launcher(
        cage.runtime, cage.policy, None, None, cage.labels, CallbackOptions.of(None, None, 5.0, None, True)
    ).serve(live, prepared)  # fmt: skip
    if prepared.plan.net is not None:
        from pysandbox.gate.gatekeeper import Gatekeeper, join_gatekeeper

        join_gatekeeper(cage.runtime, Gatekeeper.wait_begun)
        live.services.denials()  # what has been refused before it came is written down first
    if prepared.plan.watch is not None:
        _watch(live, prepared.plan, run["watched"])
    return live


def _watch(live: CageInit, plan: Plan, held: dict[str, int]) -> None:
    """Begins to watch, and returns when the cage may go on: it uses no more than it may, or is killed."""
    from pysandbox.live.tree import ProcessTree
    from pysandbox.live.watchdog import Watchdog

    assert plan.watch is not None
    live.tree = ProcessTree(live.pid, plan.watch, own_proc=True, own_net="NET" in plan.namespaces, held=held)
    Watchdog().add(live, plan.watch)
    while not (_is_within(live, plan.watch.memory or 0) or live.kill_reason or live.is_dead()):
        time.sleep(LOOK)


def _is_within(live: CageInit, limit: int) -> bool:
    """False also where that cannot be seen: the watchdog knows what to do about it."""
    try:
        used = live.tree.memory(limit) if live.tree is not None else None
    except OSError:
        return False
    return used is None or used <= limit


def _running(run: dict[str, Any], cage: Cage, prepared: Prepared, live: CageInit, argv: list[str]) -> Process[str]:
    """The command, whose streams are the launcher's."""
    request = LaunchRequest(Command(tuple(argv), {}, None), prepared, live, COMMAND, True, True, (None, None, None))
    state = ProcessState(request, Stdio(), int(run["report"]), cage.runtime)
    state.began, live.commands.since = run["began_ns"] / 1e9, run["since_ns"]
    return Process(state)


def _await_end(channel: int) -> ReportedEnd | None:
    """Says that the cage is served, and waits until its command has ended. None: nobody is there to hear it."""
    with socket(AF_UNIX, SOCK_SEQPACKET, fileno=channel) as launcher:
        with suppress(BrokenPipeError, ConnectionResetError):
            launcher.send(READY)
        told = launcher.recv(ENDING.size)
    return ReportedEnd(*ENDING.unpack(told)) if len(told) == ENDING.size else None
