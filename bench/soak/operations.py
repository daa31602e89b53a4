"""What a host does to its cages: one function for each way of using, misusing or losing one.

An operation takes the World and leaves nothing behind; whatever it raises, and any `Wrong`, is a finding. All of them
run at once, in the threads of several hosts. OPERATIONS says how often each is picked, relative to the others.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from bench.soak.canary import BASH, TRY, Whereabouts
from pysandbox import DEVNULL, AsyncCage, Cage, CageClosedError, CageTimeout, Policy, Runtime, Session, run
from pysandbox.testing import drain

PATIENCE = 30.0  # seconds a child of our own may take
FOREVER = ["/bin/sleep", "1000"]
LANDLOCK = Policy(isolation="landlock", run_as="self")
KILLED = -signal.SIGKILL
LITTER = "for i in 1 2 3; do sleep 1000 & (setsid sleep 1000 &); done; echo littered"


class Wrong(Exception):
    """A cage did something other than it should."""


@dataclass(frozen=True)
class World:
    """What the operations of one thread share."""

    rng: random.Random
    canary: Whereabouts
    secret: str


Operation = Callable[[World], object]


def demand(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Wrong(otherwise)


# ---- one command ---------------------------------------------------------------------------------------------------


def one_shot(world: World) -> None:
    demand(run(["/bin/true"]).ok, "/bin/true failed")


def smaller_isolation(world: World) -> None:
    demand(run(["/bin/true"], LANDLOCK).ok, "/bin/true failed in landlock isolation")


def much_output(world: World) -> None:
    size = world.rng.randrange(1, 1 << 20)
    result = run(["/usr/bin/head", "-c", str(size), "/dev/zero"], text=False)
    demand(result.stdout == bytes(size), f"{size} bytes became {len(result.stdout)}")


def caller_s_timeout(world: World) -> None:
    with suppress(CageTimeout):
        run([BASH, "-c", f"{LITTER}; sleep 1000"], timeout=world.rng.uniform(0.001, 0.2))
        raise Wrong("a command ended that sleeps")


def wall_time(world: World) -> None:
    result = run(FOREVER, Policy(walltime_sec=1, grace_sec=0.1))
    demand(result.reason == "timeout", f"the wall time ended in {result.reason}")


def terminal(world: World) -> None:
    with Cage().spawn(["/bin/echo", "hello"], pty=True) as process:
        demand(process.wait(PATIENCE) == 0, "echo failed at a terminal")


def kill_command(world: World) -> None:
    with Cage().spawn([BASH, "-c", f"{LITTER}; sleep 1000"], stdout=DEVNULL) as process:
        process.kill()
        demand(process.wait(PATIENCE) == KILLED, "a killed command ended otherwise")


def lose_process(world: World) -> None:
    """Nobody closes it: its last reference does."""
    Cage().spawn(FOREVER)


# ---- sessions ------------------------------------------------------------------------------------------------------


def session(world: World) -> None:
    with Cage() as cage:
        cage.run([BASH, "-c", LITTER]).check()
        cage.files.write("/tmp/note", b"note")
        demand(cage.run(["/bin/cat", "/tmp/note"]).stdout == "note", "a session has lost its file")


def lose_session(world: World) -> None:
    cage = Cage(Policy(grace_sec=0)).open()
    cage.spawn(FOREVER)


def kill_init(world: World) -> None:
    with Cage() as cage:
        process = cage.spawn(FOREVER)
        os.kill(cage.init_pid or 0, signal.SIGKILL)
        demand(process.wait(PATIENCE) == KILLED, "a command outlived its init")
        process.close()
        with suppress(CageClosedError):  # or a Result that says "cancelled", while the kernel takes the init down
            demand(not cage.run(["/bin/true"]).ok, "a command ran in a cage without an init")


def close_under_commands(world: World) -> None:
    """Threads wait for commands of a cage that another thread closes: each hears of an end."""
    heard: list[str] = []
    cage = Cage(Policy(grace_sec=0)).open()

    def wait_for_it() -> None:
        try:
            heard.append(cage.run(FOREVER).reason)
        except CageClosedError:
            heard.append("closed")

    waiting = [threading.Thread(target=wait_for_it) for _ in range(3)]
    for thread in waiting:
        thread.start()
    cage.close()
    for thread in waiting:
        thread.join()
    demand(len(heard) == 3, f"of three threads only {heard} heard of the end")


def shared_scratch(world: World) -> None:
    policy = Policy(state="scratch")
    with Session() as shared:
        Cage(policy, session=shared).run([BASH, "-c", "echo kept >/scratch/file"]).check()
        said = Cage(policy, session=shared).run(["/bin/cat", "/scratch/file"]).stdout
    demand(said == "kept\n", f"the second cage found {said!r}")


def many_at_once_in_asyncio(world: World) -> None:
    async def main() -> list[bool]:
        async with AsyncCage() as cage:
            ended = await asyncio.gather(*(cage.run(["/bin/true"]) for _ in range(4)))
            with suppress(TimeoutError):
                await asyncio.wait_for(cage.run(FOREVER), world.rng.uniform(0.001, 0.1))
            return [result.ok for result in ended]

    demand(asyncio.run(main()) == [True] * 4, "a command failed in asyncio")


# ---- the pool and the host -----------------------------------------------------------------------------------------


def pool_churn(world: World) -> None:
    """Policies never seen before push the waiting cages of others out."""
    for _ in range(world.rng.randrange(1, 6)):
        run(["/bin/true"], Policy(env=(("N", str(world.rng.random())),)))


def own_runtime(world: World) -> None:
    runtime = Runtime(warm=world.rng.randrange(3))
    for _ in range(3):
        Cage(runtime=runtime).run(["/bin/true"])
    drain(runtime)


def empty_the_pool(world: World) -> None:
    drain()


def fork_host(world: World) -> None:
    """A forked copy of a host with cages and threads has cages of its own; the original keeps its."""
    with Cage() as cage:
        child = os.fork()
        if child == 0:
            _end_as_a_copy()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        demand(status == 0, f"the forked copy ended with {status} (-14: it hung)")
        demand(cage.run(["/bin/true"]).ok, "the original has lost its cage to its copy")


def _end_as_a_copy() -> NoReturn:
    """Whatever happens, this process does not go on as a second host."""
    code = 1
    try:
        signal.alarm(int(PATIENCE))
        code = 0 if run(["/bin/true"]).ok else 2
    finally:
        os._exit(code)


# ---- escapes -------------------------------------------------------------------------------------------------------


def attack(world: World) -> None:
    _attack(world, Policy(), own_pids=True)


def attack_smaller_isolation(world: World) -> None:
    _attack(world, LANDLOCK, own_pids=False)


def _attack(world: World, policy: Policy, *, own_pids: bool) -> None:
    result = run([BASH, "-c", TRY], policy, env=world.canary.environment(own_pids=own_pids))
    demand(world.secret not in result.stdout, "escape: a cage has read the canary's secret")


OPERATIONS: dict[Operation, int] = {
    one_shot: 20,
    smaller_isolation: 8,
    much_output: 6,
    caller_s_timeout: 6,
    wall_time: 1,
    terminal: 4,
    kill_command: 6,
    lose_process: 4,
    session: 8,
    lose_session: 4,
    kill_init: 6,
    close_under_commands: 4,
    shared_scratch: 4,
    many_at_once_in_asyncio: 4,
    pool_churn: 4,
    own_runtime: 2,
    empty_the_pool: 1,
    fork_host: 4,
    attack: 4,
    attack_smaller_isolation: 4,
}
NEED_LANDLOCK: tuple[Operation, ...] = (smaller_isolation, attack_smaller_isolation)
