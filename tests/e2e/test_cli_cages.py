"""`pysandbox ps, top, kill, pause, resume, orphans` on the cages of another host."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.hosts import comes_true, host, said
from pysandbox.live import processes
from pysandbox.records import registry
from pysandbox.records.registry import CageRecord

HOST = """
    import sys
    from pysandbox import Cage, Policy
    command = ["/bin/sh", "-c", "trap 'exit 3' USR1; echo on; while :; do :; done"]
    with Cage(Policy(isolation=sys.argv[1], run_as="self")) as cage:
        process = cage.spawn(command, stdout=-1)
        process.stdout.read(1)
        cage.runtime.wait_idle()
        print(cage.id, flush=True)
        result = process.result()
        print(result.exit_code, result.reason, flush=True)
        input()
"""


def pysandbox(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "pysandbox", *arguments], capture_output=True, text=True, timeout=60)


@pytest.fixture(params=["full", "landlock"])
def busy(request: pytest.FixtureRequest, registry_home: Path) -> Iterator[tuple[subprocess.Popen[str], CageRecord]]:
    """A host with a busy session, and the session's record."""
    with host(HOST, request.param) as running:
        cage_id = said(running)
        record = registry.read(cage_id)
        assert record is not None
        yield running, record
        if running.poll() is None:
            subprocess.run(["kill", "-TERM", str(running.pid)], check=True)
            running.wait()
    from pysandbox.records.orphans import find_orphans, remove

    assert comes_true(lambda: all(each.kind != "cage" for each in find_orphans()))
    for each in find_orphans():
        remove(each)


Busy = tuple[subprocess.Popen[str], CageRecord]


def still(record: CageRecord) -> bool:
    return not processes.moving(processes.tasks(processes.descendants(record.init.pid)))


def test_ps_lists_it_with_what_runs(busy: Busy) -> None:
    running, record = busy
    (row,) = json.loads(pysandbox("ps", "--json").stdout)
    assert (row["id"], row["init"], row["host"], row["state"]) == (record.id, record.init.pid, running.pid, "running")
    assert "trap 'exit 3' USR1" in row["commands"][0]
    assert "key" not in row
    assert record.id in pysandbox("ps").stdout.splitlines()[1]


def test_pause_and_resume(busy: Busy) -> None:
    _, record = busy
    assert not still(record), "the control"
    assert pysandbox("pause", record.id[-6:]).returncode == 0
    assert still(record)
    assert json.loads(pysandbox("ps", "--json").stdout)[0]["state"] == "paused"
    assert pysandbox("resume", record.id[-6:]).returncode == 0
    assert not still(record)


def test_kill_sends_the_signal_that_is_asked_for(busy: Busy) -> None:
    running, record = busy
    assert pysandbox("kill", record.id, "--signal", "usr1").returncode == 0
    assert said(running) == "3 exited"
    assert registry.live() == [record], "the session is still there"


def test_kill_with_sigkill_ends_the_cage(busy: Busy) -> None:
    running, record = busy
    assert pysandbox("kill", record.id, "--signal", "9").returncode == 0
    assert said(running).startswith("137 ")
    assert comes_true(lambda: not registry.live())
    assert pysandbox("kill", record.id).returncode == 125


def test_top_shows_it_once_where_there_is_no_terminal(busy: Busy) -> None:
    _, record = busy
    head, row = pysandbox("top").stdout.splitlines()
    assert head.split()[:3] == ["ID", "CPU%", "MEMORY"]
    assert row.split()[0] == record.id
    assert float(row.split()[1]) > 0


def test_top_on_a_terminal_ends_with_q_and_puts_it_back(busy: Busy) -> None:
    _, record = busy
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "pysandbox", "top", "--interval", "0.1"])
    seen = b""
    while seen.count(record.id.encode()) < 2:
        seen += os.read(terminal, 65536)
    os.write(terminal, b"q")
    while not seen.endswith(b"\x1b[?1049l"):
        seen += os.read(terminal, 65536)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    os.close(terminal)


def test_a_forged_record_gets_nobody_killed(registry_home: Path) -> None:
    from pysandbox.launch.owner import owner_of

    victim = subprocess.Popen(["/bin/sleep", "600"])
    init = owner_of(victim.pid)
    assert init is not None
    registry.write(CageRecord("01FORGED", init, init, (), "", 0.0))
    for number in ("TERM", "KILL"):
        done = pysandbox("kill", "01FORGED", "--signal", number)
        assert (done.returncode, "no live cage" in done.stderr) == (125, True)
    assert victim.poll() is None
    victim.kill()
    victim.wait()
    registry.remove("01FORGED")


def test_orphans_lists_and_removes_only_when_asked(registry_home: Path) -> None:
    with host(HOST, "landlock") as killed:
        cage_id = said(killed)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    assert comes_true(lambda: {each["kind"] for each in json.loads(pysandbox("orphans", "--json").stdout)}
                      == {"record", "scratch"})  # fmt: skip
    scratches = list(registry_home.glob("pysandbox-*"))
    assert scratches
    listed = pysandbox("orphans").stdout
    assert pysandbox("audit", "--orphans").stdout == listed
    assert cage_id in listed and all(str(path) in listed for path in scratches)
    assert pysandbox("audit", "--orphans", "--remove").returncode == 0
    assert pysandbox("audit", "--remove").returncode == pysandbox("audit", "--orphans", "verify").returncode == 125
    assert (pysandbox("orphans").stdout, list(registry_home.glob("pysandbox-*"))) == ("", [])


def test_orphans_says_what_it_could_not_remove(registry_home: Path) -> None:
    folder = registry_home / "pysandbox"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    done = pysandbox("orphans")
    assert (done.returncode, "others may use it" in done.stderr) == (125, True)
