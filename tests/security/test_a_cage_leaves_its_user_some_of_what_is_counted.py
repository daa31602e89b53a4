"""Claim: what the kernel counts per user is not all taken by one cage: the user's own programs still get inotify
instances.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from pysandbox import PIPE, Cage

from .harness import policy, program, uncaged

MOST = 16
USERS = Path("/proc/sys/user/max_inotify_instances")

TAKE = """
    kept = []
    def take():
        for _ in range(200):
            fd = libc.inotify_init1(0)
            if fd < 0:
                raise OSError(ctypes.get_errno(), "inotify_init1")
            kept.append(fd)
    attempt("instances", take)
    say("taken", len(kept))
    sys.stdout.flush()
    sys.stdin.read(1)
"""

pytestmark = pytest.mark.skipif(not os.access(USERS, os.R_OK), reason="inotify is not counted per namespace here")


def test_the_user_still_watches_files_while_a_cage_takes_all_it_can() -> None:
    with Cage(policy()) as cage, cage.spawn(program(TAKE), stdin=PIPE, stdout=PIPE) as taker:
        assert taker.stdout is not None
        said = taker.stdout.readline() + taker.stdout.readline()
        assert b"EMFILE" in said and f'"value": {MOST}'.encode() in said, said

        own = ctypes.CDLL(None).inotify_init1(0)
        assert own >= 0, "the user's own"
        os.close(own)
        taker.kill()


def test_the_control_takes_more() -> None:
    assert uncaged(program(TAKE))["taken"].value > MOST


def test_a_program_cannot_give_itself_more() -> None:
    raising = 'attempt("raise", lambda: open("/proc/sys/user/max_inotify_instances", "w").write("128") and None)'
    with Cage(policy()) as cage:
        said = str(cage.run(program(raising)).stdout)
    assert any(errno in said for errno in ("EROFS", "EACCES", "EPERM")), said
