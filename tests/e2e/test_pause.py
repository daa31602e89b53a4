"""Pause, resume, stats: nothing of a paused cage runs, whatever its processes do to one another."""

from __future__ import annotations

import asyncio

import pytest

from _support.hosts import comes_true
from pysandbox import PIPE, AsyncCage, Cage, CageClosedError, CagePausedError, Policy
from pysandbox.live import processes

POLICIES = pytest.mark.parametrize(
    "policy", [Policy(), Policy(isolation="landlock", run_as="self", allow=["/proc"])], ids=["full", "landlock"]
)
BUSY = "echo on; while :; do :; done"
FORKS = "echo on; while :; do (:); done"
WALKER = "import os\nprint('on', flush=True)\nwhile True:\n if os.fork(): os._exit(0)"  # never the same process twice
WAKER = """
import os, signal
print("on", flush=True)
def wake():
    while True:
        try: os.kill(-1, signal.SIGCONT)
        except OSError: pass
for _ in range(3):
    if os.fork() == 0: wake()
wake()
"""
HOLDS = """
import threading
blob = bytearray(64 << 20)
threading.Thread(target=input).start()
print("on", flush=True)
"""
TROUBLE = {
    "busy": ["/bin/sh", "-c", BUSY],
    "forks": ["/bin/sh", "-c", FORKS],
    "walks": ["/usr/bin/python3", "-c", WALKER],
    "wakes": ["/usr/bin/python3", "-c", WAKER],
    "threads": ["/usr/bin/python3", "-c", "import threading\nprint('on', flush=True)\ndef f():\n while True: pass\n"
                "for _ in range(3): threading.Thread(target=f).start()"],
}  # fmt: skip


def states(cage: Cage) -> list[processes.Task]:
    """Its tasks, but for the dead: cage-init, which is not paused, may be reaping one just now."""
    return [task for task in processes.tasks(processes.descendants(cage.init_pid or -1)) if task.state != "Z"]


def ticks(cage: Cage) -> float:
    return cage.stats().cpu_seconds


@POLICIES
@pytest.mark.parametrize("kind", TROUBLE)
def test_nothing_runs_in_a_paused_cage(policy: Policy, kind: str) -> None:
    with Cage(policy) as cage, cage.spawn(TROUBLE[kind], stdout=PIPE) as running:
        assert running.stdout is not None and running.stdout.read(3) == b"on\n"

        cage.pause()

        before, used = states(cage), ticks(cage)
        assert before and not processes.moving(before)
        assert (states(cage), ticks(cage)) == (before, used), "what stands still forks nothing and uses nothing"
        cage.resume()
        if kind != "walks":  # it may be seen between two of its processes
            assert comes_true(lambda: ticks(cage) > used)


def test_a_paused_cage_closes_and_its_commands_see_the_signal_first() -> None:
    told = "trap 'echo told; exit 7' TERM; echo on; while :; do sleep 0.01; done"
    with Cage(Policy(grace_sec=30)) as cage:
        running = cage.spawn(["/bin/sh", "-c", told], stdout=PIPE)
        assert running.stdout is not None and running.stdout.read(3) == b"on\n"
        cage.pause()

        cage.close()

        assert running.wait() == 7
        assert running.stdout.read() == b"told\n"
        running.close()


def test_a_paused_cage_starts_nothing() -> None:
    with Cage() as cage:
        cage.pause()
        with pytest.raises(CagePausedError, match="resume"):
            cage.run(["/bin/true"])
        cage.resume()
        assert cage.run(["/bin/true"]).ok


def test_pausing_and_resuming_twice_changes_nothing() -> None:
    with Cage() as cage, cage.spawn(["/bin/cat"], stdin=PIPE, stdout=PIPE) as cat:
        cage.pause()
        cage.pause()
        cage.resume()
        cage.resume()
        assert cat.communicate(b"alive\n") == (b"alive\n", b"")


def test_the_wall_time_of_a_paused_cage_runs_on() -> None:
    with Cage(Policy(walltime_sec=1, grace_sec=0.1)) as cage:
        running = cage.spawn(["/bin/sleep", "600"])
        cage.pause()
        assert running.result().reason == "timeout"
        running.close()


def test_a_cage_that_is_not_open_has_nothing_to_pause() -> None:
    cage = Cage()
    for act in (cage.pause, cage.resume, cage.stats):
        with pytest.raises(CageClosedError, match="open"):
            act()


def test_stats_count_what_is_there() -> None:
    with Cage() as cage:
        assert cage.stats().processes == 0
        with cage.spawn(["/usr/bin/python3", "-c", HOLDS], stdin=PIPE, stdout=PIPE) as running:
            assert running.stdout is not None and running.stdout.read(3) == b"on\n"
            seen = cage.stats()
            assert (seen.processes, seen.threads) == (1, 2)
            assert seen.memory_bytes > 64 << 20
        ended = cage.run(["/bin/sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
        assert cage.stats().cpu_seconds >= 0.5 * (ended.usage.user_time + ended.usage.system_time) > 0


def test_an_async_cage_pauses_and_counts_too() -> None:
    async def main() -> None:
        async with AsyncCage() as cage:
            process = await cage.spawn(["/bin/sleep", "600"])
            await cage.pause()
            assert not processes.moving(states(cage.cage))
            assert (await cage.stats()).processes == 1
            await cage.resume()
            await process.close()

    asyncio.run(main())
