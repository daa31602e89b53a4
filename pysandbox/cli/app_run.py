"""`pysandbox app run`: one run of an app, what it tells, and its log and journal, which are kept however it ends.

A signal (SIGINT, SIGTERM, SIGHUP) ends the run between two instructions; a second one ends this process at once.
"""

from __future__ import annotations

import os
import signal
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from pysandbox.apps.app import App, Budget
from pysandbox.apps.journal import QUOTA
from pysandbox.apps.kernel.event import Emitted
from pysandbox.apps.kernel.kernel import Kernel
from pysandbox.apps.machine import TICKS
from pysandbox.apps.outcome import AppOutcome
from pysandbox.apps.package import AppPackage
from pysandbox.apps.stopping import RunStop
from pysandbox.apps.store import AppStore
from pysandbox.cli import console
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.cli.trail import open_audit
from pysandbox.events import ignore
from pysandbox.exit_codes import BY_SIGNAL
from pysandbox.shapes import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pysandbox.apps.denials import DeniedInstruction
    from pysandbox.audit import AuditLog
    from pysandbox.runtime.runtime import Runtime

NOT_OK = 1
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
MEGABYTE = 1 << 20
TOLD_EVENTS, TOLD_BYTES = 10_000, 4 * MEGABYTE  # of one --json document: it waits in memory for the end of the run


def declare_run(parser: Parser) -> None:
    parser.usage = "pysandbox app run APP [flags]"
    add = parser.add_argument
    add("app", metavar="APP", help="The app_id of an installed app; with --debug, the directory of a package.")
    add("--workspace", metavar="DIR", help="Where its files are. Default: a directory of its own.")
    add("--ticks", type=int, default=TICKS, metavar="N", help=f"How many instructions it may take. Default: {TICKS}.")
    add("--journal-mb", type=int, default=QUOTA // MEGABYTE, metavar="N",
        help=f"How much its journal may hold: the run is ended then. Default: {QUOTA // MEGABYTE}.")  # fmt: skip
    add("--debug", action="store_true", help="Run a package that is being written, with all that it asks for.")
    add("--report-only", action="store_true", help="With --debug: log what is denied, and do it all the same.")


def run(namespace: Namespace) -> int:
    app, store = _app(namespace), AppStore()
    if not namespace.debug:  # whatever a package in debugging calls itself, the last run is the installed app's
        store.require_writable(app.grant.app_id)
    workspace = namespace.workspace or store.workspace(app.grant.app_id, debug=namespace.debug)
    events = _Events(namespace.json)
    with ended_by_signals() as (stop, ended_by):
        outcome = _performed(namespace, app, workspace, events, stop)
        try:
            if not namespace.debug:
                store.keep_run(app.grant.app_id, outcome)
        finally:
            code = _ended(namespace, app, outcome, events)
    return BY_SIGNAL + ended_by[0] if ended_by else code


def _performed(namespace: Namespace, app: App, workspace: str, events: _Events, stop: RunStop) -> AppOutcome:
    log = open_audit()
    runtime = _runtime(app, log)
    budget = Budget(ticks=namespace.ticks, journal_bytes=namespace.journal_mb * MEGABYTE)
    try:
        with Kernel(workspace, on_event=events) as kernel:
            return app.run(
                kernel, budget=budget, debug=namespace.debug, report_only=namespace.report_only,
                sink=log if log is not None else ignore, runtime=runtime, stop=stop,
            )  # fmt: skip
    finally:
        if runtime is not None:
            runtime.drain()
        if log is not None:
            log.close()


def _runtime(app: App, log: AuditLog | None) -> Runtime | None:
    """Where the cage of an app that is a process is recorded, as every other cage is."""
    if not app.manifest.argv:
        return None
    from pysandbox.runtime.runtime import Runtime

    return Runtime(audit=log, warm=0)


@contextmanager
def ended_by_signals() -> Iterator[tuple[RunStop, list[int]]]:
    """What the first signal asks to stop, and its number once it came. What the caller has us ignore stays ignored."""
    stop, ended_by = RunStop(), list[int]()
    before = {number: signal.getsignal(number) for number in ENDING}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(number: int, frame: object) -> None:
        ended_by.append(number)
        restore()
        stop.ask()

    for number, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, on_signal)
    try:
        yield stop, ended_by
    finally:
        restore()


class _Events:
    """What the app emits: a line at once, or a part of the document of --json."""

    def __init__(self, in_document: bool) -> None:
        self.told: list[dict[str, Any]] = []
        self.left_out = 0
        self._in_document, self._room = in_document, TOLD_BYTES

    def __call__(self, event: Emitted) -> None:
        value = event.value
        if isinstance(value, bytes):
            value = value.decode(errors="backslashreplace")
        if not self._in_document:
            console.out(f"{event.domain}: {value}")
            return
        self._room -= len(str(value))
        if self._room < 0 or len(self.told) >= TOLD_EVENTS:
            self.left_out += 1
        else:
            self.told.append({"domain": event.domain, "value": value})


def _app(namespace: Namespace) -> App:
    if namespace.report_only and not namespace.debug:
        raise UsageError("--report-only is for debugging: say --debug as well, and name a directory")
    for flag, least in (("ticks", 1), ("journal_mb", 1)):
        if getattr(namespace, flag) < least:
            raise UsageError(f"--{flag.replace('_', '-')} is at least {least}")
    if not namespace.debug:
        return App.installed(namespace.app)
    if not os.path.isdir(namespace.app):
        raise UsageError("--debug runs the directory of a package: an installed app is held to its grant")
    return App.debug(AppPackage.read(namespace.app))


def _ended(namespace: Namespace, app: App, outcome: AppOutcome, events: _Events) -> int:
    app_id = app.grant.app_id
    if namespace.json:
        denials = [each._asdict() for each in outcome.log]
        document = {"app_id": app_id, "ended": outcome.ended, "ticks": outcome.ticks, "denials": denials,
                    "events": events.told, "events_left_out": events.left_out}  # fmt: skip
        console.document(document)
    else:
        if namespace.debug:
            console.show(map(line_of, outcome.log))
        elif outcome.log:
            times = "once" if len(outcome.log) == 1 else f"{len(outcome.log)} times"
            console.say(f"{app_id} was denied {times}; see: pysandbox app log {app_id}")
        if not outcome.ok:
            console.say(f"{app_id} ended: {outcome.ended}, after {outcome.ticks} ticks")
    return 0 if outcome.ok else NOT_OK


def line_of(each: DeniedInstruction) -> str:
    return f"tick {each.tick}: {each.opcode}({each.args_summary}): {each.deny_reason}, needs {each.required_capability}"
