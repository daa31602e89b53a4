"""The end of a cage removes its scratch directory and its record and closes what serves it, whatever is raised at it: a
warning that was made an error, an error of a service, an interrupt; and nobody who asks the cage waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from _support.projects import enter_project
from pysandbox import Cage, Policy, Runtime
from pysandbox.events import Event, Sink
from pysandbox.live.init import CageInit
from pysandbox.live.services import CageService
from pysandbox.workspace.workspace import Workspace

ASKED = """
import sys
from pysandbox import Cage, Policy
cage = Cage(Policy(workdir="cow", isolation="landlock", on_exit="ask"))
result = cage.run(["sh", "-c", "echo x > new; pwd"])
print(result.exit_code, cage.workspace.outcome.action)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    return enter_project(tmp_path, monkeypatch, "old\n")


def left(project: Path) -> list[str]:
    """Scratch directories and records of cages."""
    place = project.parent / "run"
    found = (each for each in place.rglob("*") if each.name.startswith("pysandbox-") or each.suffix == ".json")
    return list(map(str, found))


class Ended(CageService):
    """One that raises, or waits, at its end."""

    is_awaited = True

    def __init__(self, raises: BaseException | None = None) -> None:
        self.raises, self.begun, self.go_on = raises, threading.Event(), threading.Event()

    def end(self) -> None:
        self.begun.set()
        if self.raises is not None:
            raise self.raises
        assert self.go_on.wait(60)


def landlock(**said: str) -> Policy:
    return Policy(workdir="cow", isolation="landlock", allow=("/proc",), **said)  # type: ignore[arg-type]


def opened(*services: CageService, rules: Policy, sink: Sink | None = None) -> tuple[Cage, CageInit]:
    """One that has written something, and these to be ended besides."""
    cage = Cage(rules, runtime=Runtime(sink=sink) if sink is not None else None)
    cage.open()
    cage.run(["sh", "-c", "echo x > new"]).check()
    live = cage._live
    assert live is not None
    for each in services:
        live.services.add(each)
    return cage, live


def test_a_warning_that_is_an_error_is_shown_and_stops_nothing(project: Path) -> None:
    done = subprocess.run([sys.executable, "-W", "error:the workspace was not ended:UserWarning", "-c", ASKED],
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.stdout, done.returncode) == ("0 kept\n", 0), done.stderr
    assert "the workspace was not ended as asked: nobody could be asked" in done.stderr
    assert "Traceback" not in done.stderr and not left(project)


def test_control_the_warning_is_one(project: Path) -> None:
    with pytest.warns(UserWarning, match="nobody could be asked"), Cage(Policy(workdir="cow", on_exit="ask")) as cage:
        cage.run(["sh", "-c", "echo x > new"]).check()
    cage.workspace.abort()


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("broken"), OSError(5, "gone")], ids=repr)
def test_what_a_service_raises_leaves_nothing_behind(project: Path, error: BaseException) -> None:
    before = len(os.listdir("/proc/self/fd"))
    first, last = Ended(), Ended(error)
    first.go_on.set()
    cage, live = opened(first, last, rules=landlock(on_exit="keep"))
    assert left(project)  # control: there is something
    with pytest.raises(type(error)):
        cage.close()
    assert first.begun.is_set() and not left(project)
    assert cage.workspace.outcome is not None and cage.workspace.outcome.action == "kept"
    Workspace.open(cage.workspace.outcome.kept).abort()
    cage.workspace.close()
    assert live.reap()  # there is nothing to do any more
    assert len(os.listdir("/proc/self/fd")) <= before + 1  # the pool's


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_nobody_waits_for_the_end_who_only_asks(project: Path) -> None:
    slow = Ended()
    cage, live = opened(slow, rules=landlock(on_exit="abort"))
    ending = threading.Thread(target=cage.close)
    ending.start()
    assert slow.begun.wait(60)
    assert live.is_dead() and live.closed and live.take_uppers() is None
    live.await_end()
    also = threading.Thread(target=live.reap)  # whoever ends it, too, waits until it is over
    also.start()
    also.join(0.2)
    assert also.is_alive()
    slow.go_on.set()
    ending.join(60)
    also.join(60)
    assert not ending.is_alive() and not also.is_alive() and not left(project)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_whoever_is_told_of_the_end_may_end_it_again(project: Path) -> None:
    told = []

    def sink(event: Event) -> None:
        if event.type == "workspace.kept":
            told.append(live.reap())

    cage, live = opened(rules=landlock(on_exit="keep"), sink=sink)
    ending = threading.Thread(target=cage.close)
    ending.start()
    ending.join(60)
    assert not ending.is_alive() and told == [True] and not left(project)
    cage.workspace.abort()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_whoever_is_told_and_raises_loses_no_result(project: Path) -> None:
    def sink(event: Event) -> None:
        if event.type == "workspace.kept":
            raise RuntimeError("no room for it")

    cage = Cage(landlock(on_exit="keep"), runtime=Runtime(sink=sink))
    assert cage.run(["sh", "-c", "echo x > new"]).exit_code == 0 and not left(project)
    outcome = cage.workspace.outcome
    assert outcome is not None and outcome.action == "failed" and "RuntimeError: no room for it" in outcome.reason
    cage.workspace.abort()
