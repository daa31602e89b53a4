"""Claim: whatever ends the host (SIGTERM, SIGINT, SIGHUP, even SIGKILL) ends everything in its cages within a second."""

from __future__ import annotations

import signal
import subprocess

import pytest

from .conftest import Ground
from .harness import alive_with, host_script, token, wait_until

HOST = """
    import sys
    from pysandbox import Cage, Policy
    mode, directory, mark = sys.argv[1:]
    with Cage(Policy(isolation=mode, allow_write=[directory])) as cage:
        loop = "trap '' TERM INT HUP; (trap '' TERM INT HUP; : $1; while :; do sleep 0.05; done) & while :; do sleep 0.05; done"
        running = cage.spawn(["/bin/sh", "-c", loop, "sh", mark])
        orphan = cage.run(["/bin/sh", "-c", "setsid -f /bin/sh -c 'while :; do sleep 0.05; done' sh " + mark])
        print("ready", flush=True)
        running.wait()
"""

STOPPER = """
    import sys, threading, time
    from pysandbox import PIPE, Cage
    with Cage() as cage:
        stop = "import os, sys\\nprint('ready', flush=True)\\nwhile True:\\n try: os.kill(-1, 19)\\n except OSError: pass"
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
    running = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; while :; do sleep 0.05; done", "sh", sys.argv[1]],
                               start_new_session=True)
    print("ready", flush=True)
    running.wait()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL], ids=lambda each: each.name)
def test_nothing_outlives_the_host(ground: Ground, isolation: str, number: signal.Signals) -> None:
    mark = token()
    host = host_script(HOST, isolation, str(ground.inside), mark, stderr=subprocess.PIPE)
    try:
        assert host.stdout is not None and host.stdout.readline() == "ready\n", host.communicate()[1]
        assert len(alive_with(mark)) >= 3, "the control: the command, its child and the orphan run"

        host.send_signal(number)

        ended = wait_until(lambda: not [pid for pid in alive_with(mark) if pid != host.pid], within=1)
        assert ended, f"still running: {alive_with(mark)}"
    finally:
        host.kill()
        host.communicate()


def test_a_command_that_stops_every_other_does_not_keep_its_cage_alive() -> None:
    mark = token()
    host = host_script(STOPPER, mark, stderr=subprocess.PIPE)
    try:
        assert host.stdout is not None and host.stdout.readline() == "ready\n", host.communicate()[1]
        assert len(alive_with(mark)) >= 2, "the control: the host and the command run"

        host.kill()

        ended = wait_until(lambda: not [pid for pid in alive_with(mark) if pid != host.pid], within=1)
        assert ended, f"still running: {alive_with(mark)}"
    finally:
        host.kill()
        host.communicate()


def test_uncaged_the_child_lives_on() -> None:
    mark = token()
    host = host_script(UNCAGED, mark)
    assert host.stdout is not None and host.stdout.readline() == "ready\n"

    host.kill()
    host.wait()

    left = alive_with(mark)
    try:
        assert left
    finally:
        for pid in left:
            subprocess.run(["kill", "-9", str(pid)], check=False)
        host.communicate()
