"""Claim: what is committed or kept of a paused cage is what was looked at while it was paused: where a program has had
itself woken meanwhile (SIGCONT), nothing is written, and the cage has to be paused and looked at again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pysandbox import PIPE, Cage, Process
from pysandbox.errors import CommitError
from pysandbox.live.stopping import stands_still
from pysandbox.workspace import bundle
from pysandbox.workspace import commit as commit_module
from pysandbox.workspace.workspace import Workspace

from .harness import PYTHON, policy

# It writes what is harmless, has a timer wake it once it is stopped, and writes again when it goes on.
WAKES = """
import ctypes, os, signal, sys, time
how, path, wait = sys.argv[1], sys.argv[2], float(sys.argv[3])
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int),
                ("pad", ctypes.c_char * 48)]
open(path, "w").write("print('harmless')\\n")
woken = []
signal.signal(signal.SIGCONT, lambda *_: woken.append(1))
made, event = ctypes.c_void_p(), Event(None, signal.SIGCONT, 0)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.timer_create(time.CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(made)) == 0
spec = (ctypes.c_long * 4)(0, 0, int(wait), int(wait % 1 * 1e9))
if how != "nothing":
    assert libc.timer_settime(made, 0, spec, None) == 0
print("on", flush=True)
while not woken:
    time.sleep(0.005)
open(path, "w").write("print('HOSTILE')\\n")
if how == "wakes and ends":
    os._exit(0)
time.sleep(60)
"""
WAIT = "2"  # seconds until it is woken: a pause takes some milliseconds


@pytest.fixture(autouse=True)
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = tmp_path / "tree"
    made.mkdir()
    (made / "a.py").write_text("old\n")
    time.sleep(0.1)
    monkeypatch.chdir(made)
    return made


@contextmanager
def running(how: str, isolation: str) -> Iterator[tuple[Cage, Process]]:
    rules = policy(isolation, workdir="cow", cow_mb=16)
    argv = [PYTHON, "-I", "-S", "-c", WAKES, how, "a.py", WAIT]
    with Cage(rules) as cage, cage.spawn(argv, stdout=PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"on\n"
        yield cage, process


def await_change(workspace: Workspace) -> None:
    """EVIDENCE that it ran although it had been paused."""
    end = time.monotonic() + 30
    while "HOSTILE" not in workspace.diff():
        assert time.monotonic() < end, "it was not woken"
        time.sleep(0.05)


@pytest.mark.parametrize("isolation", ["full", "landlock"])
def test_who_stays_paused_is_committed_and_kept(isolation: str, tree: Path) -> None:
    """The control."""
    with running("nothing", isolation) as (cage, _):
        with pytest.raises(CommitError, match="may still write"):
            cage.workspace.commit()
        cage.pause()
        assert "harmless" in cage.workspace.diff()
        cage.workspace.commit(["a.py"])
        assert cage.workspace.keep()
    assert (tree / "a.py").read_text() == "print('harmless')\n"


@pytest.mark.parametrize("isolation", ["full", "landlock"])
@pytest.mark.parametrize("how", ["wakes", "wakes and ends"])
def test_who_wakes_itself_after_the_look_has_nothing_written(how: str, isolation: str, tree: Path) -> None:
    with running(how, isolation) as (cage, _):
        cage.pause()
        assert "harmless" in cage.workspace.diff()
        await_change(cage.workspace)
        for decided in (cage.workspace.commit, cage.workspace.keep):
            with pytest.raises(CommitError, match="has run since it was paused"):
                decided()
        assert (tree / "a.py").read_text() == "old\n" and Workspace.kept() == []
        cage.pause()  # and looked at again, it is what is written
        assert "HOSTILE" in cage.workspace.diff()
        cage.workspace.commit(["a.py"])
    assert (tree / "a.py").read_text() == "print('HOSTILE')\n"


@pytest.mark.parametrize("step", ["commit", "keep"])
def test_who_wakes_itself_while_it_is_written_has_nothing_written(
    step: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running("wakes", "full") as (cage, _):
        cage.pause()
        workspace = cage.workspace
        stage, write = commit_module.stage_all, bundle.write_own

        def late_stage(*given: object) -> object:
            await_change(workspace)
            return stage(*given)  # type: ignore[arg-type]

        def late_write(*given: object) -> None:
            await_change(workspace)
            write(*given)  # type: ignore[arg-type]

        monkeypatch.setattr(commit_module, "stage_all", late_stage)
        monkeypatch.setattr(bundle, "write_own", late_write)
        assert "harmless" in workspace.diff()
        with pytest.raises(CommitError, match="has run since it was paused"):
            getattr(workspace, step)()
    assert [each.name for each in tree.iterdir()] == ["a.py"] and (tree / "a.py").read_text() == "old\n"
    assert Workspace.kept() == []


def test_a_pause_is_over_for_whoever_asks_once_it_was_resumed() -> None:
    with running("nothing", "full") as (cage, process):
        assert cage._live is not None and not stands_still(cage._live)
        cage.pause()
        assert stands_still(cage._live)
        cage.resume()
        assert not stands_still(cage._live)
        cage.pause()
        process.kill()
        process.wait()
        assert not stands_still(cage._live), "who ended may have run before"
