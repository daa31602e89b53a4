"""START HERE: an App is a package and the grant for it; `run` brings it to a kernel, `replay` repeats a run.

    store = AppStore()
    store.install(AppPackage.read("notes"), allow=("fs.use",))
    with Kernel(workspace="/home/me/notes") as kernel:
        outcome = App.installed("notes.app", store).run(kernel)
    outcome.log[0].deny_reason          # "denied_scope"

An app whose entrypoint is a program runs in the machine (`machine.py`); one whose entrypoint is an argv is a process in
a cage (`process.py`). Both have their effects through the one dispatch.
"""

from __future__ import annotations

from pysandbox.apps.denials import DenialLog
from pysandbox.apps.dispatch import MOST_HANDLES, Calls, Dispatch
from pysandbox.apps.grant import ENFORCE, REPORT_ONLY, AppGrant, reduce_request
from pysandbox.apps.journal import (
    FULL,
    LARGEST,
    QUOTA,
    AppJournal,
    JournalFull,
    Recorded,
    RecordingCalls,
    ReplayedCalls,
    differs,
)
from pysandbox.apps.machine import TICKS, Machine
from pysandbox.apps.outcome import AppOutcome, Trail
from pysandbox.apps.port import RequestDispatch, replay_requests
from pysandbox.apps.program import MachineProgram
from pysandbox.apps.stopping import STOPPED
from pysandbox.errors import AppError, PolicyError
from pysandbox.events import Sink, ignore
from pysandbox.policy.refusal import shown
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # a replay opens nothing, and needs none of them
    from pysandbox.apps.kernel.kernel import Kernel
    from pysandbox.apps.package import AppPackage
    from pysandbox.apps.stopping import RunStop
    from pysandbox.apps.store import AppStore
    from pysandbox.runtime.runtime import Runtime

LOG_RECORDS, MOST_RECORDS = 10_000, 1_000_000
REPLAYED = 3  # parts of a budget that decide about a replay: a journal that has come to its quota says so itself


class Budget(NamedTuple):
    """What one run may use up. An app that was denied `log_records` times is ended: no denial is without its record.
    So is one whose journal has come to `journal_bytes`, before its next effect."""

    ticks: int = TICKS
    log_records: int = LOG_RECORDS
    handles: int = MOST_HANDLES
    journal_bytes: int = QUOTA


class App:
    """`store`: the directory in which it is installed, which it does not reach."""

    def __init__(self, package: AppPackage, grant: AppGrant, store: str = "") -> None:
        self.package, self.grant, self.manifest = package, grant, package.manifest()
        if package.digest != grant.package or self.manifest.app_id != grant.app_id:
            raise AppError(f"the grant of {grant.app_id} is for other files", "install the app again")
        self._store = store

    @classmethod
    def installed(cls, app_id: str, store: AppStore | None = None) -> App:
        """An installed one. Raises AppError for a grant that does not hold, and for files that are not its."""
        from pysandbox.apps.store import AppStore

        store = store or AppStore()
        grant, package = store.load(app_id)
        return cls(package, grant, store.directory)

    @classmethod
    def debug(cls, package: AppPackage) -> App:
        """One that is being written: with all that it asks for, unsigned, good for a debug run alone."""
        manifest = package.manifest()
        return cls(package, reduce_request(manifest, package.digest, manifest.requested))

    def run(
        self, kernel: Kernel | None = None, *, budget: Budget = Budget(), debug: bool = False,  # noqa: B008
        report_only: bool = False, sink: Sink = ignore, runtime: Runtime | None = None, stop: RunStop | None = None,
    ) -> AppOutcome:  # fmt: skip
        """Runs it to its end. Raises PolicyError for a program or a mode that is wrong, AppError, and what a cage does.

        `sink` hears of denials and of the end; `runtime` is the one of the cage of an app that is a process; `stop`
        ends it from elsewhere. With `report_only`, what is denied is logged, and done all the same where it can be: for
        a grant that nobody signed, and with `debug` alone."""
        mode = self._mode(debug, report_only)
        _require_sensible(budget)
        if kernel is None:
            from pysandbox.apps.kernel.kernel import Kernel

            with Kernel() as own:
                return self._run(own, budget, mode, sink, runtime, stop)
        return self._run(kernel, budget, mode, sink, runtime, stop)

    def _run(
        self, kernel: Kernel, budget: Budget, mode: str, sink: Sink, runtime: Runtime | None, stop: RunStop | None
    ) -> AppOutcome:
        journal = AppJournal(self._header(budget, mode), budget.journal_bytes)
        if self._store:
            kernel.keep_out((self._store,), self._store)
        trail, log = Trail(sink, self.grant, mode), DenialLog(budget.log_records)
        kernel.begin(self.grant.app_id)
        try:
            dispatch = self._dispatch(RecordingCalls(kernel, journal), log, budget, mode, trail)
            ended, ticks = self._perform(dispatch, budget, journal, kernel, runtime, stop)
        finally:
            kernel.end(self.grant.app_id)
        journal.end(ended, ticks, log.text())
        outcome = AppOutcome(ended, ticks, log, journal)
        trail.ended(outcome)
        return outcome

    def _perform(
        self, dispatch: Dispatch, budget: Budget, journal: AppJournal, kernel: Kernel, runtime: Runtime | None,
        stop: RunStop | None,
    ) -> tuple[str, int]:  # fmt: skip
        if self.manifest.argv:
            from pysandbox.apps.process import require_reachable, run_process

            requests = RequestDispatch(dispatch, budget.ticks, journal)
            require_reachable(self.grant, kernel.workspace, self._store)
            ended = run_process(
                self.package, self.grant, self.manifest.argv, requests, project=kernel.workspace, runtime=runtime,
                stop=stop,
            )  # fmt: skip
            return ended, requests.tick
        return self._perform_program(dispatch, budget.ticks, stop)

    def _perform_program(self, dispatch: Dispatch, ticks: int, stop: RunStop | None = None) -> tuple[str, int]:
        machine = Machine(self._program(), dispatch, ticks, stop)
        try:
            return machine.run(), machine.tick
        except JournalFull:
            return FULL, machine.tick

    def replay(self, journal: bytes) -> AppOutcome:
        """Repeats a run without any effect. Raises AppError for a journal that is not whole, is not of this package
        and grant, or that this run does not follow to the same log."""
        recorded = Recorded.parse(journal)
        budget, mode = _budget(recorded), str(recorded.header.get("mode"))
        if recorded.header != {"format": recorded.header["format"], **self._header(budget, mode)}:
            raise AppError("the journal is of another package or grant", "replay it with those of that run")
        calls, log = ReplayedCalls(recorded), DenialLog(budget.log_records)
        dispatch = self._dispatch(calls, log, budget, mode)
        if self.manifest.argv:
            requests = RequestDispatch(dispatch, budget.ticks)
            ended, ticks = replay_requests(requests, calls, recorded), requests.tick
        else:
            ended, ticks = self._perform_program(dispatch, min(budget.ticks, recorded.ticks))
            if recorded.ended == STOPPED and ended == "ticks":
                ended = STOPPED  # by somebody else, after so many
        if calls.left or not recorded.is_of(ended, ticks, log.text()):
            raise differs()
        return AppOutcome(ended, ticks, log)

    def _program(self) -> MachineProgram:
        name = self.manifest.program
        if not name:
            raise PolicyError("names no program of the machine", file="app.toml", key="entrypoint")
        if name not in self.package.files:
            raise PolicyError(f"the package has no file {name!r}", file="app.toml", key="entrypoint")
        return MachineProgram.parse(self.package.files[name].content, name)

    def _dispatch(
        self, calls: Calls, log: DenialLog, budget: Budget, mode: str, trail: Trail | None = None
    ) -> Dispatch:
        return Dispatch(
            self.grant, calls, log, report_only=mode == REPORT_ONLY, most_handles=budget.handles,
            on_denied=trail.denied if trail is not None else None,
        )  # fmt: skip

    def _header(self, budget: Budget, mode: str) -> dict[str, Any]:
        grant = self.grant
        return {"app_id": grant.app_id, "version": grant.version, "package": grant.package, "grant": grant.digest,
                "mode": mode, "budget": list(budget[:REPLAYED])}  # fmt: skip

    def _mode(self, debug: bool, report_only: bool) -> str:
        if report_only and self.grant.signed:
            hint = "report_only is for a package that is being written: App.debug(package)"
            raise PolicyError("an installed app is held to its grant", key="report_only", suggestion=hint)
        if report_only and not debug:
            raise PolicyError("is for debugging", key="report_only", suggestion="say debug=True as well")
        if not self.grant.signed and not debug:
            hint = "install the app, or say debug=True"
            raise PolicyError(f"the grant of {self.grant.app_id} is not signed", key="grant", suggestion=hint)
        return REPORT_ONLY if report_only else ENFORCE


def _budget(recorded: Recorded) -> Budget:
    given = recorded.header.get("budget")
    if not isinstance(given, list) or len(given) != REPLAYED:
        raise AppError("the journal is none of this version", "run the app again")
    budget = Budget(*given)
    try:
        _require_sensible(budget)
    except PolicyError:
        raise AppError("the journal has a budget that no run has", "run the app again") from None
    return budget


def _require_sensible(budget: Budget) -> None:
    """Raises PolicyError."""
    for name, value in budget._asdict().items():
        if type(value) is not int or value < 0:
            raise PolicyError(f"{shown(value)} is no number from 0 on", key=name)
    if budget.journal_bytes > LARGEST:
        raise PolicyError(f"a journal holds {LARGEST} bytes at most", key="journal_bytes")
    if budget.log_records > MOST_RECORDS:
        raise PolicyError(f"a log holds {MOST_RECORDS} records at most", key="log_records")
