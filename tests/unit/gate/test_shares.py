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


def test_a_crowd_that_waits_costs_the_others_no_more_than_one_who_does(monkeypatch):
    taken: list[Share] = []
    take = Share.take
    monkeypatch.setattr(Share, "take", lambda share, count=1: taken.append(share) or take(share, count))

    async def run() -> None:
        account = Account(lambda: 12)
        one, other, third = account.share(), account.share(), account.share()
        greedy(one), greedy(other)
        crowd = [asyncio.ensure_future(one.room()) for _ in range(1000)]
        few = asyncio.ensure_future(other.room())
        third.note(account.free)  # nothing is left
        late = asyncio.ensure_future(account.share().room())
        await asyncio.sleep(0)
        taken.clear()
        one.give(1)
        await asyncio.wait_for(late, 5)
        assert len(taken) < 10 and not few.done()
        for each in (few, *crowd):
            each.cancel()
        await asyncio.gather(few, *crowd, return_exceptions=True)
        taken.clear()
        one.give(1)
        assert not taken  # nobody waits any more

    asyncio.run(run())


def test_those_who_wait_are_served_in_turn():
    async def run() -> None:
        account = Account(lambda: 12)
        one, other, holder = account.share(), account.share(), account.share()
        holder.note(12)
        served: list[str] = []

        async def wait(share: Share, name: str) -> None:
            await share.room()
            served.append(name)

        tasks = [asyncio.ensure_future(wait(one, f"a{n}")) for n in range(3)]
        tasks += [asyncio.ensure_future(wait(other, f"b{n}")) for n in range(3)]
        await asyncio.sleep(0)
        holder.give(12)
        await asyncio.wait_for(asyncio.gather(*tasks), 5)
        assert served == ["a0", "b0", "a1", "b1", "a2", "b2"]

    asyncio.run(run())


def test_who_goes_without_is_told_of():
    told: list[int] = []
    share = Account(lambda: 4).share(full=told.append)
    assert share.take_or_tell(2) and not share.take_or_tell(1) and told == [2]


def test_half_of_the_descriptors_stay_with_the_program():
    assert descriptors() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
