"""Claim: what a run writes down is bounded by its budget, and is whole wherever it ends: at the quota, when it is asked
to stop, on a disk that is full. What is not written down has no effect, and a run is repeated to the same byte.
"""

from __future__ import annotations

import errno
import io
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from _support.apps import constants, manifest, package
from pysandbox.apps import App, AppOutcome, AppPackage, Budget, Kernel, RunStop
from pysandbox.apps.kernel.event import Emitted
from pysandbox.apps.package import PackageFile
from pysandbox.errors import AppError, PolicyError

ALL = {"requested_capabilities": ["fs.use", "input.route"]}
EMITTING = [*constants({1: "desk", 2: "x" * 100, 3: "docs2"}), ["EMIT", 1, 2], ["FS_LIST", 4, 3], ["JUMP", 3]]
LISTING = [*constants({1: "docs"}), ["FS_LIST", 2, 1], ["JUMP", 1]]
ASKING = """
from pysandbox.apps.client import AppPort
port = AppPort()
while True:
    port.emit("desk", "x" * 1000)
"""


def process(source: str) -> App:
    files = {"app.json": json.dumps(manifest(entrypoint=["python3", "main.py"], **ALL)), "main.py": source}
    return App.debug(AppPackage({name: PackageFile(text.encode(), False) for name, text in files.items()}))


def require_same(app: App, outcome: AppOutcome) -> None:
    again = app.replay(outcome.journal)
    assert (again.ended, again.ticks, again.log.text()) == (outcome.ended, outcome.ticks, outcome.log.text())


@pytest.mark.parametrize("quota", [0, 1, 500, 10_000])
@pytest.mark.parametrize("how", ["machine", "process"])
def test_a_run_ends_at_its_quota_and_is_repeated_to_there(quota: int, how: str) -> None:
    app = App.debug(package(EMITTING, **ALL)) if how == "machine" else process(ASKING)
    heard: list[Emitted] = []
    with Kernel(on_event=heard.append) as kernel:
        outcome = app.run(kernel, debug=True, budget=Budget(journal_bytes=quota))
    assert outcome.ended == "journal full" and not outcome.ok
    assert len(outcome.journal) < quota + 3000
    assert outcome.journal.count(b'["ok",null]') == len(heard)  # no effect that is not written down
    require_same(app, outcome)


def test_an_answer_of_any_size_passes_the_quota_once(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "big").write_bytes(b"x" * (1 << 20))
    reads = [*constants({1: "docs/big", 2: "r", 3: 1 << 20}), ["FS_OPEN", 4, 1, 2], ["FS_READ", 5, 4, 3], ["JUMP", 4]]
    app = App.debug(package(reads))
    with Kernel(tmp_path) as kernel:
        outcome = app.run(kernel, debug=True, budget=Budget(journal_bytes=100_000))
    assert outcome.ended == "journal full" and 100_000 < len(outcome.journal) < 150_000
    require_same(app, outcome)


WRONG: list[dict[str, Any]] = [{"journal_bytes": 1 << 31}, {"journal_bytes": -1}, {"ticks": 1.5}, {"handles": True}]


@pytest.mark.parametrize("budget", WRONG)
def test_a_budget_that_is_none_is_refused(budget: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match=next(iter(budget))):
        App.debug(package()).run(debug=True, budget=Budget(**budget))


def test_a_journal_that_cannot_be_written_is_no_failure_of_an_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    """The app does not hear of it: the run ends, in words."""

    class FullDisk(io.BytesIO):
        def write(self, data: object, /) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pysandbox.apps.journal.tempfile.SpooledTemporaryFile", lambda size: FullDisk())
    with Kernel() as kernel:
        with pytest.raises(AppError, match=r"journal cannot be written.*No space left"):
            App.debug(package(LISTING)).run(kernel, debug=True)
        with pytest.raises(AppError, match=r"journal cannot be written.*No space left"):
            process(ASKING).run(kernel, debug=True)
    monkeypatch.undo()
    with Kernel() as kernel:
        assert App.debug(package()).run(kernel, debug=True).ended == "halt"  # control: and it is over with the disk


def test_a_program_that_is_stopped_is_repeated_to_there() -> None:
    """It is asked by what the app itself emits, after the hundredth time, and elsewhere, at any time."""
    app = App.debug(package(EMITTING, **ALL))
    heard: list[Emitted] = []
    stop = RunStop()

    def on_event(event: Emitted) -> None:
        heard.append(event)
        if len(heard) == 100:
            stop.ask()

    with Kernel(on_event=on_event) as kernel:
        outcome = app.run(kernel, debug=True, stop=stop)
    assert outcome.ended == "stopped" and len(heard) >= 100 and len(outcome.log) > 0
    require_same(app, outcome)
    endless, stop = App.debug(package([["SLEEP_TICKS", 3], ["JUMP", 0]])), RunStop()
    timer = threading.Timer(0.05, stop.ask)
    timer.start()
    outcome = endless.run(debug=True, stop=stop, budget=Budget(ticks=1 << 60))
    timer.join()
    assert outcome.ended == "stopped"
    require_same(endless, outcome)
