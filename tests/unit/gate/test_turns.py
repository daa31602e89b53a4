"""A cage's share of the loop: bounded in each round, first come first served, whatever another cage does."""

from __future__ import annotations

import asyncio
from itertools import count

from pysandbox.gate.turns import SLICE, TURNS, WOKEN, LoopTurns


def rounds_of(work) -> list[int]:
    """What `work(turns, heard)` has heard after each round of the loop."""

    async def run() -> list[int]:
        loop, heard, seen = asyncio.get_running_loop(), [], []
        tasks = [loop.create_task(each) for each in work(LoopTurns(loop, clock=lambda: 0.0), heard)]
        while not all(each.done() for each in tasks):
            await asyncio.sleep(0)
            seen.append(len(heard))
        return seen

    return asyncio.run(run())


async def hungry(turns: LoopTurns, heard: list[int], times: int) -> None:
    for _ in range(times):
        await turns.take()
        heard.append(1)


def test_who_never_runs_dry_gives_way_after_so_many_turns():
    seen = rounds_of(lambda turns, heard: [hungry(turns, heard, 100)])
    steps = [after - before for before, after in zip([0, *seen], seen, strict=False)]
    assert max(steps) <= TURNS + WOKEN and seen[-1] == 100


def test_a_crowd_has_no_more_than_one_that_never_runs_dry():
    seen = rounds_of(lambda turns, heard: [hungry(turns, heard, 1) for _ in range(500)])
    steps = [after - before for before, after in zip([0, *seen], seen, strict=False)]
    assert max(steps) <= TURNS + WOKEN and seen[-1] == 500


def test_another_cage_has_its_turn_at_once():
    async def run() -> int:
        loop, heard = asyncio.get_running_loop(), []
        tasks = [loop.create_task(hungry(crowd, heard, 50)) for crowd in [LoopTurns(loop)] for _ in range(100)]
        await asyncio.sleep(0)
        before = len(heard)
        await LoopTurns(loop).take()
        waited = len(heard) - before
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return waited

    assert asyncio.run(run()) == 0


def test_those_who_wait_come_in_their_order():
    async def run() -> list[int]:
        turns, order = LoopTurns(asyncio.get_running_loop()), []

        async def one(number: int) -> None:
            await turns.take()
            order.append(number)

        await asyncio.gather(*(one(number) for number in range(40)))
        return order

    assert asyncio.run(run()) == list(range(40))


def test_a_turn_that_takes_long_ends_the_round():
    async def run() -> list[bool]:
        ticks = count(step=SLICE * 2)
        turns = LoopTurns(asyncio.get_running_loop(), clock=lambda: next(ticks))
        return [turns.now() for _ in range(3)]

    assert asyncio.run(run()) == [True, False, False]


def test_one_that_is_cancelled_while_it_waits_holds_up_nobody():
    async def run() -> bool:
        turns = LoopTurns(asyncio.get_running_loop())
        while turns.now():
            pass
        waiting = [asyncio.ensure_future(turns.take()) for _ in range(10)]
        await asyncio.sleep(0)
        for each in waiting[:9]:
            each.cancel()
        await asyncio.wait_for(waiting[9], 5)
        return True

    assert asyncio.run(run())
