"""What is over is looked at once by a process: a start costs the same, however many commits and workspaces are kept."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from pysandbox.probe import unchanged
from pysandbox.probe.opening import coarse_now
from pysandbox.workspace import recovery, store
from pysandbox.workspace.bundle import INDEX
from pysandbox.workspace.commit import KEPT_FOR
from pysandbox.workspace.journal import SAVED
from pysandbox.workspace.recovery import recover


@pytest.fixture(autouse=True)
def looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were opened since it was emptied."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    names: list[str] = []
    opened_one = store.opened_one
    monkeypatch.setattr(store, "opened_one", lambda name, **more: (names.append(name), opened_one(name, **more))[1])
    return names


def keep(name: str, file: str, *lines: object) -> None:
    with store.opened_one(name, make=True):
        Path(store.directory(), name, file).write_text("".join(json.dumps(each) + "\n" for each in lines))


def test_what_is_over_is_not_opened_again(looked_at: list[str]) -> None:
    keep("COMMIT", "journal", {"tree": "/nowhere"}, {"done": True}, SAVED)
    keep("BUNDLE", INDEX, {})
    keep("NEITHER", "entries-0")
    looked_at.clear()
    assert recover() == [] and sorted(looked_at) == ["BUNDLE", "COMMIT", "NEITHER"]
    looked_at.clear()
    assert recover() == [] and looked_at == ["NEITHER"], "which may become one"
    keep("LATER", "journal", {"tree": "/nowhere"}, {"done": True}, SAVED)
    looked_at.clear()
    recover()
    assert sorted(looked_at) == ["LATER", "NEITHER"]


def test_a_commit_that_is_over_is_removed_when_it_is_too_old(
    looked_at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("COMMIT", "journal", {"tree": "/nowhere"}, {"done": True}, SAVED)
    recover()
    assert store.names() == ["COMMIT"]
    later = time.time() + KEPT_FOR + 5
    monkeypatch.setattr(recovery.time, "time", lambda: later)
    recover()
    assert store.names() == []
    recover()
    assert not [path for path in recovery._OVER if path.startswith(store.directory())], "nor remembered"


def test_a_store_that_has_not_changed_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unchanged, "COARSEST_NS", 0)  # what a test makes is young
    listed: list[int] = []
    names = store.names
    monkeypatch.setattr(store, "names", lambda: (listed.append(1), names())[1])
    keep("BUNDLE", INDEX, {})
    while coarse_now() <= Path(store.directory()).stat().st_ctime_ns:
        pass
    recover()  # looks at the bundle
    recover()  # sees that there is nothing else
    listed.clear()
    recover()
    assert not listed
    keep("LEFT", "journal", {"tree": "/nowhere"}, {"done": True}, SAVED)
    recover()
    assert listed, "another program has begun a commit there"
