"""Claim: whatever ends the host (SIGTERM, SIGINT, SIGHUP, even SIGKILL) ends everything in its cages within a
second.
"""

from __future__ import annotations

import os
import signal

import pytest

from pysandbox.records.orphans import find_orphans, remove

from .conftest import Ground
from .harness import SLOWNESS, alive_with, first_line, host_script, token, wait_until

pytestmark = pytest.mark.guest

HOST = """
    import sys
    from pysandbox import DEVNULL, Cage, Policy
    mode, directory, mark = sys.argv[1:]
    with Cage(Policy(isolation=mode, run_as="self", allow_write=[directory], grace_sec=0.2)) as cage:
        quiet = {"stdin": DEVNULL, "stdout": DEVNULL, "stderr": DEVNULL}
        loop = "trap '' TERM INT HUP; (while :; do sleep 0.05; done) & while :; do sleep 0.05; done"
        running = cage.spawn(["/bin/sh", "-c", loop, "sh", mark], **quiet)
        cage.run(["/bin/sh", "-c", "setsid -f /bin/sh -c 'while :; do sleep 0.05; done' sh " + mark], **quiet)
        print("ready", flush=True)
        running.wait()
"""

STOPPER = """
    import sys, threading, time
    from pysandbox import PIPE, Cage
    with Cage() as cage:
        stop = "import os\\nprint('ready', flush=True)\\nwhile True:\\n try: os.kill(-1, 19)\\n except OSError: pass"
        stopper = cage.spawn(["/usr/bin/python3", "-c", stop, sys.argv[1]], stdout=PIPE)
        stopper.stdout.readline()
        def spawn():
            while True: cage.spawn(["/bin/true"])
        threading.Thread(target=spawn, daemon=True).start()
        time.sleep(0.5)
        print("ready", flush=True)
        time.sleep(60)
"""

UNCAGED = """
    import subprocess, sys
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    running = subprocess.Popen(["/bin/sh", "-c", "while :; do sleep 0.05; done", "sh", sys.argv[1]],
                               start_new_session=True, **quiet)
    print("ready", flush=True)
    running.wait()
"""


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL], ids=lambda each: each.name
)
def test_nothing_outlives_the_host(ground: Ground, isolation: str, number: signal.Signals) -> None:
    mark = token()
    with host_script(HOST, isolation, str(ground.inside), mark) as host:
        assert first_line(host) == b"ready\n"
        running = wait_until(lambda: len([pid for pid in alive_with(mark) if pid != host.pid]) >= 3, within=10)
        assert running, "the control: the command, its child and the orphan run"

        host.send_signal(number)

        ended = wait_until(lambda: not alive_with(mark), within=1 * SLOWNESS)
        assert ended, f"still running: {alive_with(mark)}"

    if isolation == "landlock":
        remove_abandoned_scratch()


def remove_abandoned_scratch() -> None:
    """A host that is killed cannot remove the scratch directory of a cage without namespaces; nobody else does unless
    asked to."""
    for orphan in find_orphans():
        if orphan.kind == "scratch":
            remove(orphan)


def test_a_command_that_stops_every_other_does_not_keep_its_cage_alive() -> None:
    mark = token()
    with host_script(STOPPER, mark) as host:
        assert first_line(host) == b"ready\n"
        assert len(alive_with(mark)) >= 2, "the control: the host and the command run"

        host.kill()

        assert wait_until(lambda: not [pid for pid in alive_with(mark) if pid != host.pid], within=1 * SLOWNESS)


def test_uncaged_the_child_lives_on() -> None:
    mark = token()
    with host_script(UNCAGED, mark) as host:
        assert first_line(host) == b"ready\n"

    left = alive_with(mark)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left
