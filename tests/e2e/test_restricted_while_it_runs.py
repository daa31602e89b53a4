"""A cage is tightened while it runs: what it holds already, and what it starts next, is bound at once."""

from __future__ import annotations

import os

import pytest

from pysandbox import PIPE, Cage, Policy, UnsupportedError
from pysandbox.errors import PolicyError
from pysandbox.probe.kernel import id_swap

HOG = """
import sys, time
held = bytearray(96 << 20)
held[::4096] = b"x" * len(held[::4096])
print("ready", flush=True)
time.sleep(60)
"""
BOMB = """
import os, sys, time
print("ready", flush=True)
sys.stdin.readline()
made = 0
while made < 200:
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    except BlockingIOError:
        break
    made += 1
print(made, flush=True)
"""


def test_a_cage_that_holds_more_than_its_new_memory_is_ended() -> None:
    with Cage(Policy(), watch=["network"]) as cage:
        process = cage.spawn(["python3", "-c", HOG], stdout=PIPE)
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        cage.context.restrict_max_memory(64)
        process.wait(10)
        assert process.result().reason == "oom"


def test_a_cage_that_holds_less_goes_on() -> None:
    with Cage(Policy(), watch=["network"]) as cage:
        cage.context.restrict_max_memory(512)
        assert cage.run(["true"]).ok


def test_a_running_program_forks_no_further_than_its_new_limit() -> None:
    if os.geteuid() == 0 and id_swap():
        with Cage(Policy(), watch=["network"]) as cage, pytest.raises(UnsupportedError, match="root"):
            cage.context.restrict_max_processes(10)
        return
    with Cage(Policy(), watch=["network"]) as cage:
        process = cage.spawn(["python3", "-c", BOMB], stdin=PIPE, stdout=PIPE)
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        cage.context.restrict_max_processes(10)
        process.stdin.write(b"\n")
        made = int(process.stdout.readline())
        assert 0 < made <= 10
        process.kill()


def test_a_callback_tightens_from_the_command_that_it_sees() -> None:
    def smaller(event, context):  # type: ignore[no-untyped-def]
        if event.category == "exec" and event.argv[-1:] == (HOG,):
            context.restrict_max_memory(64)

    result = Cage(Policy(walltime_sec=30), policy_fn=smaller).run(["sh", "-c", 'exec python3 -c "$0"', HOG])
    assert result.reason == "oom"


@pytest.mark.parametrize("most", [0, -1])
def test_a_limit_of_nothing_is_refused(most: int) -> None:
    with Cage(Policy(), watch=["network"]) as cage:
        with pytest.raises(PolicyError):
            cage.context.restrict_max_processes(most)
        with pytest.raises(PolicyError):
            cage.context.restrict_max_memory(most)
