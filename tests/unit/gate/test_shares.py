"""What cages have in common: nobody takes all of it, and there is something left for the next."""

from __future__ import annotations

import asyncio
import resource

import pytest

from pysandbox.gate.shares import Account, Share, descriptors


def greedy(share: Share, step: int = 1) -> int:
    while share.take(step):
        pass
    return share.taken


def test_one_cage_has_half_each_of_two_a_third_and_there_is_always_something_left():
    account = Account(lambda: 600)
    assert [greedy(account.share()) for _ in range(4)] == [300, 150, 75, 37]
    assert account.free == 38


@pytest.mark.parametrize("hostile", [1, 8, 50])
def test_whoever_comes_last_finds_room(hostile):
    account = Account(lambda: 512)
    for _ in range(hostile):
        greedy(account.share(), 3)
    assert account.share().take(3 if hostile < 50 else 1)


def test_what_is_given_back_goes_to_who_waits():
    async def run() -> None:
        account = Account(lambda: 12)
        one, other = account.share(), account.share()
        greedy(one), greedy(other)
        waiting = asyncio.ensure_future(other.room(2))
        await asyncio.sleep(0)
        assert not waiting.done()
        one.give(4)
        await asyncio.wait_for(waiting, 5)

    asyncio.run(run())


def test_one_that_is_cancelled_while_it_waits_takes_nothing():
    async def run() -> None:
        account = Account(lambda: 8)
        share = account.share()
        greedy(share)
        waiting = asyncio.ensure_future(share.room(1))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        before = share.taken
        share.give(before)
        assert (share.taken, account.taken) == (0, 0)

    asyncio.run(run())


def test_who_goes_without_is_told_of():
    told: list[int] = []
    share = Account(lambda: 4).share(full=told.append)
    assert share.take_or_tell(2) and not share.take_or_tell(1) and told == [2]


def test_half_of_the_descriptors_stay_with_the_program():
    assert descriptors() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
