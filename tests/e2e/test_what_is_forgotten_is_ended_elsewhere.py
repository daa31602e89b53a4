"""A garbage collection may come at any line of the host program's, also inside the audit's own lock: what it finds is
ended, and recorded, in another thread."""

from __future__ import annotations

import gc
import os
import select
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pysandbox import Cage, Runtime

PROGRAM = textwrap.dedent("""
    import faulthandler, gc, sys, time
    faulthandler.dump_traceback_later(25, exit=True)
    from pysandbox import AuditLog, Cage, Runtime
    from pysandbox.audit import stream

    class Knot: pass

    def forget(cage):
        knot = Knot()
        knot.itself, knot.process = knot, cage.spawn(["sleep", "60"])

    append = stream.AuditStream.append
    def collecting(self, type, data):  # the moment at which the lock is held
        gc.collect()
        return append(self, type, data)
    stream.AuditStream.append = collecting

    gc.disable()
    log = AuditLog(sys.argv[1])
    runtime = Runtime(audit=log)
    cage = Cage(runtime=runtime)
    forget(cage)
    log.append("test.record", {})
    print("recorded")
    print(cage.run(["echo", "goes on"]).stdout.strip())
    runtime.drain()
    while "cancelled" not in open(sys.argv[1]).read():
        time.sleep(0.01)
""")


def test_a_forgotten_command_is_ended_while_the_audit_is_written(tmp_path: Path) -> None:
    log = tmp_path / "audit" / "events.jsonl"
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(log)], capture_output=True, text=True, timeout=50)
    assert (done.stdout, done.returncode) == ("recorded\ngoes on\n", 0), done.stderr
    assert "cancelled" in log.read_text()


FORGETS = """
import gc, sys
from pysandbox import AuditLog, Cage, Policy, Runtime
log = AuditLog(sys.argv[1])
cage = Cage(Policy(), runtime=Runtime(audit=log))
process = cage.spawn(["/bin/sleep", "30"])
process.await_start()
del process
if sys.argv[2:]:
    log.close()
"""


@pytest.mark.parametrize("closes", [False, True], ids=["the program ends", "the log is closed"])
def test_its_end_is_on_record_before(tmp_path: Path, closes: bool) -> None:
    log = tmp_path / "audit" / "events.jsonl"
    argv = [sys.executable, "-c", FORGETS, str(log), *(["close"] if closes else [])]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
    assert log.read_text().count('"subagent.exit"') == 1, log.read_text()


def test_it_is_ended_soon_all_the_same() -> None:
    runtime = Runtime()
    process = Cage(runtime=runtime).spawn(["sleep", "60"])
    end = os.pidfd_open(process.init_pid)
    try:
        del process
        gc.collect()
        assert select.select([end], [], [], 20)[0]
    finally:
        os.close(end)
        runtime.drain()


IN_A_CIRCLE = """
import gc
from pysandbox import PIPE, Cage
gc.disable()
for text in (False, True):
    for ends in (False, True):
        process = Cage().spawn(["/bin/cat"], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=text)
        circle = [process, process.stdin, process.stdout, process.stderr]
        circle.append(circle)
        if ends:
            process.stdin.close()
            process.wait()
        del process, circle
        gc.collect()
"""


def test_in_a_circle_its_pipes_are_closed_with_it_without_a_word() -> None:
    argv = [sys.executable, "-X", "dev", "-W", "error", "-c", IN_A_CIRCLE]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")
