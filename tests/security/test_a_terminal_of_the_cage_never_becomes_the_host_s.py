"""Claim: a host that has no controlling terminal does not get one from a cage, which could then signal it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.guest

HOST = """if True:
    import os, sys
    from pysandbox import PIPE, Cage
    plant = "import os; m, s = os.openpty(); os.symlink(os.ttyname(s), '/tmp/result.json'); print(flush=True); input()"
    with Cage() as cage:
        planter = cage.spawn(["/usr/bin/python3", "-c", plant], stdin=PIPE, stdout=PIPE)
        planter.stdout.readline()
        assert os.readlink(f"/proc/{cage.init_pid}/root/tmp/result.json").startswith("/dev/pts/")
        for touch in (cage.files.read, lambda path: cage.files.write(path, b"x")):
            try:
                touch("/tmp/result.json")
            except OSError as error:
                print(error.strerror)
    print("terminal", open("/proc/self/stat").read().rpartition(")")[2].split()[4])
"""

CONTROL = """if True:
    import os
    m, s = os.openpty()
    os.close(os.open(os.ttyname(s), os.O_RDONLY))
    print("terminal", open("/proc/self/stat").read().rpartition(")")[2].split()[4])
"""


def test_the_host_that_reads_a_planted_terminal_has_none_afterwards() -> None:
    host = subprocess.run([sys.executable, "-c", HOST], start_new_session=True, capture_output=True, text=True)

    assert host.stdout == "Invalid argument: not a regular file\n" * 2 + "terminal 0\n", host.stderr


def test_without_care_it_would_have_one() -> None:
    host = subprocess.run([sys.executable, "-c", CONTROL], start_new_session=True, capture_output=True, text=True)

    assert host.stdout.startswith("terminal ") and host.stdout != "terminal 0\n"
