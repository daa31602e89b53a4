"""The report of a run in a real browser: it shows what it should, asks nobody for anything, and runs nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pysandbox.audit import AuditLog

HOSTILE = (
    "x\"'><script>document.title='owned'</script><img src=http://127.0.0.1:9/x onerror=\"document.title='owned'\">"
)
QUIET = ("--headless=new", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-component-update",
         "--disable-background-networking", "--disable-dev-shm-usage", "--no-sandbox")  # fmt: skip
PATIENCE = 100  # seconds


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    run = {"invocation_id": "01HXAA", "command": 1}
    path = tmp_path / "audit" / "events.jsonl"
    with AuditLog(path) as log:
        log.append("subagent.spawn", {**run, "argv": ["python3", HOSTILE], "cwd": HOSTILE, "cage_summary": HOSTILE,
                                      "grants": {"read": [HOSTILE], "write": ["/proj"], "network": ["none"]},
                                      "limits": {"memory_mb": 64}, "recipes": [HOSTILE]})  # fmt: skip
        log.append("cage.denied", {**run, "kind": "open", "target": HOSTILE, "rule": HOSTILE, "fix": HOSTILE})
        log.append("subagent.exit", {**run, "exit_code": 1, "duration_ms": 12, "max_rss_kb": 9000, "user_ms": 4})
    return path


def browser(folder: Path, page: Path, *flags: str) -> tuple[str, str, str]:
    """(what it printed, what its console said, the addresses that it asked for)."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("chromium is missing: apt-get install chromium")
    net = folder / "net.json"
    noted = (f"--user-data-dir={folder / 'profile'}", f"--log-net-log={net}", "--enable-logging=stderr")
    command = [found, *QUIET, *noted, *flags, page.as_uri()]
    environment = {
        **os.environ,
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "DBUS_SESSION_BUS_ADDRESS": "none:",
    }
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert done.returncode == 0, done.stderr
    console = "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)
    return done.stdout, console, "\n".join(re.findall(r'"url":"(https?:[^"]*)"', net.read_text()))


def report(stream: Path, folder: Path) -> Path:
    page = folder / "report.html"
    command = [sys.executable, "-m", "pysandbox", "explain", "--last", "--path", str(stream), "--html", str(page)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return page


@pytest.mark.slow
def test_it_shows_the_run_and_neither_asks_nor_runs_anything(stream: Path, tmp_path: Path) -> None:
    shown, console, asked = browser(tmp_path, report(stream, tmp_path), "--dump-dom")
    assert "<svg" in shown
    assert "onerror=" in shown  # as text
    assert "<script" not in shown
    assert "<title>owned" not in shown
    assert "WAS REFUSED" in shown
    assert console == ""
    assert HOSTILE.partition("src=")[2].partition(" ")[0] not in asked


@pytest.mark.slow
def test_control_the_same_names_unescaped_do_run(tmp_path: Path) -> None:
    page = tmp_path / "control.html"
    page.write_text(f"<!doctype html><title>quiet</title><body>{HOSTILE}")
    shown, _, asked = browser(tmp_path, page, "--dump-dom")
    assert "<title>owned" in shown
    assert "http://127.0.0.1:9/x" in asked


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["0", "1"], ids=["dark", "light"])
def test_it_is_drawn_in_light_and_dark(stream: Path, tmp_path: Path, scheme: str) -> None:
    picture = tmp_path / "page.png"
    flags = (f"--blink-settings=preferredColorScheme={scheme}", "--window-size=1100,1600", f"--screenshot={picture}")
    browser(tmp_path, report(stream, tmp_path), *flags)
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.stat().st_size > 20_000  # an empty page is a tenth of that
