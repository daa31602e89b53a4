"""Claim: what the kernel counts per user is not all taken by one cage: the user's own programs still get inotify
and fanotify instances.
"""

from __future__ import annotations

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
            kept.append(call(*CALL))
    attempt("instances", take)
    say("taken", len(kept))
    sys.stdout.flush()
    sys.stdin.read(1)
"""

INOTIFY = ("inotify_init1", 0)
FANOTIFY = ("fanotify_init", 0x200, 0)  # FAN_REPORT_FID, without which it is the administrator's alone; Linux 5.13

pytestmark = pytest.mark.skipif(not os.access(USERS, os.R_OK), reason="inotify is not counted per namespace here")


@pytest.mark.parametrize("kind", [INOTIFY, FANOTIFY], ids=["inotify", "fanotify"])
def test_the_user_still_watches_files_while_a_cage_takes_all_it_can(kind: tuple[str, int]) -> None:
    rules = policy(seccomp="default")  # which has fanotify, too
    with Cage(rules) as cage, cage.spawn(program(TAKE, CALL=kind), stdin=PIPE, stdout=PIPE) as taker:
        assert taker.stdout is not None
        said = taker.stdout.readline() + taker.stdout.readline()
        assert b"EMFILE" in said and f'"value": {MOST}'.encode() in said, said

        assert uncaged(program('attempt("one", call, *CALL)', CALL=kind))["one"].errno is None, "the user's own"
        taker.kill()


@pytest.mark.parametrize("kind", [INOTIFY, FANOTIFY], ids=["inotify", "fanotify"])
def test_the_control_takes_more(kind: tuple[str, int]) -> None:
    assert uncaged(program(TAKE, CALL=kind))["taken"].value > MOST


def test_a_program_cannot_give_itself_more() -> None:
    raising = 'attempt("raise", lambda: open("/proc/sys/user/max_inotify_instances", "w").write("128") and None)'
    with Cage(policy()) as cage:
        said = str(cage.run(program(raising)).stdout)
    assert any(errno in said for errno in ("EROFS", "EACCES", "EPERM")), said
