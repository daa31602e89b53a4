"""`pysandbox app` as users have it: what is told before an install and of an update, runs that a signal ends, and what
is kept of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from _support.apps import constants, write

MODULE = [sys.executable, "-m", "pysandbox"]
LIMIT = 60  # seconds after which a test is stuck
BEGUN = [*constants({1: "docs2", 2: "desk", 3: "begun"}), ["FS_LIST", 4, 1], ["EMIT", 2, 3]]
ENDLESS = [*BEGUN, ["SLEEP_TICKS", 1], ["JUMP", 5]]
PROCESS = """
from pysandbox.apps.client import AppPort, PortDenied
port = AppPort()
try:
    port.list("docs2")
except PortDenied:
    port.emit("desk", "begun")
import time
while True:
    time.sleep(60)
"""
ALL = {"requested_capabilities": ["fs.use", "input.route"]}

Call = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "home").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return {**kept, "HOME": str(tmp_path / "home")}


@pytest.fixture
def call(project: Path, env: dict[str, str]) -> Call:
    def call(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        settings: dict[str, Any] = {"cwd": project, "env": env, "stdin": subprocess.DEVNULL, "timeout": LIMIT}
        return subprocess.run([*MODULE, "app", *arguments], capture_output=True, text=True, **settings | options)

    return call


def test_what_is_told_before_and_after(call: Call, project: Path) -> None:
    write(project / "notes", description="keeps 'notes'; fs.use: may nothing", **ALL)
    told = call("explain", "notes").stdout
    assert "runs main.json in the machine, as no process; it asks for:" in told
    assert """says of itself: "keeps 'notes'; fs.use: may nothing"\n""" in told
    assert call("install", "notes", "--allow-all").returncode == 0
    write(project / "notes.app", app_id="other.app")
    assert "under docs" in call("explain", "notes.app").stdout  # the installed one, whatever lies here
    assert "other.app" in call("explain", "./notes.app").stdout
    update = write(project / "update", version="2", entrypoint=["python3", "main.py"], **ALL)
    refused = call("install", str(update), "--allow-all")
    assert refused.returncode == 125 and "runs a process in a cage: python3 main.py; until now: runs" in refused.stderr
    assert call("install", str(update), "--accept").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("how", ["machine", "process"])
def test_a_run_that_a_signal_ends_leaves_its_log_and_is_repeated(
    call: Call, project: Path, env: dict[str, str], how: str, number: int
) -> None:
    place = write(project / "notes", ENDLESS, **(ALL if how == "machine" else {**ALL, "entrypoint": ["python3", "x"]}))
    (place / "x").write_text(PROCESS)
    assert call("install", "notes", "--allow-all").returncode == 0
    asked = [*MODULE, "app", "run", "notes.app", "--ticks", str(1 << 60)]
    with subprocess.Popen(
        asked, cwd=project, env={**env, "PYTHONUNBUFFERED": "1"}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        assert running.stdout is not None and running.stderr is not None
        assert running.stdout.readline() == "desk: begun\n"
        running.send_signal(number)
        assert running.wait(LIMIT) == 128 + number
        told = running.stderr.read()
    assert "was denied once" in told and "ended: stopped" in told
    assert 'FS_LIST("docs2"): denied_scope' in call("log", "notes.app").stdout
    again = call("replay", "notes.app")
    assert again.returncode == 0 and again.stdout.startswith("identical: stopped")


def test_the_journal_has_a_quota(call: Call, project: Path) -> None:
    write(project / "notes", [*constants({1: "desk", 2: "x"}), ["EMIT", 1, 2], ["JUMP", 2]], **ALL)
    call("install", "notes", "--allow-all")
    done = call("run", "notes.app", "--journal-mb", "1", "--json")
    document = json.loads(done.stdout)
    assert (done.returncode, document["ended"]) == (1, "journal full")
    assert len(document["events"]) == 10_000 and document["events_left_out"] > 50_000
    assert call("replay", "notes.app").stdout.startswith("identical: journal full")
    assert call("run", "notes.app", "--journal-mb", "0").returncode == 125
    assert "1073741824 bytes at most" in call("run", "notes.app", "--journal-mb", "1025").stderr


def test_without_room_for_its_log_an_app_does_not_run(call: Call, project: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    write(project / "notes", BEGUN, **ALL)
    call("install", "notes", "--allow-all")
    place = tmp_path / "home/.local/state/pysandbox/apps/notes.app"
    place.chmod(0o500)
    refused = call("run", "notes.app", "--workspace", str(project))
    place.chmod(0o700)
    assert refused.returncode == 125 and "begun" not in refused.stdout
    assert f"cannot be kept in {place}: Permission denied" in refused.stderr
