"""How many cages wait: what was taken is replaced, what is kept stays, what follows demand goes up and down again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pysandbox.errors import StartError
from pysandbox.live.served import CageServices
from pysandbox.runtime.pool import MOST, MOST_FOLLOWING, MOST_OF_ALL, Pool


class Waiting:
    def __init__(self) -> None:
        self.closed = False
        self.services = CageServices()

    def is_dead(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abandon = close


class Tasks:
    """A worker that works when it is told to."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], object]] = []

    def submit(self, task: Callable[[], object]) -> None:
        self.tasks.append(task)

    def work(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()


class House:
    def __init__(self, size: Any) -> None:
        self.worker, self.opened = Tasks(), list[Waiting]()
        self.pool = Pool(self.worker, size)  # type: ignore[arg-type]

    def open(self) -> Any:
        self.opened.append(Waiting())
        return self.opened[-1]

    def take(self, key: str = "plan") -> Any:
        taken = self.pool.take(key, self.open)
        self.pool.replenish(key)
        return taken

    def burst(self, count: int) -> None:
        for _ in range(count):
            self.take().close()
        self.worker.work()

    def waiting(self) -> int:
        return sum(len(slot.idle) for slot in self.pool._slots.values())


def test_what_is_kept_waits_before_anybody_asks_and_is_replaced() -> None:
    house = House(4)
    house.pool.keep("plan", house.open, 10)
    assert house.waiting() == len(house.opened) == 10
    assert house.take() in house.opened[:10]
    house.worker.work()
    assert house.waiting() == 10


def test_what_is_kept_neither_expires_nor_gives_way() -> None:
    house = House(4)
    house.pool.keep("plan", house.open, 20)
    for number in range(2 * MOST_OF_ALL):
        house.take(f"other {number}").close()
        house.worker.work()
    house.pool.expire(older_than=-1.0)
    assert house.waiting() == 20 and not any(each.closed for each in house.opened[:20])


def test_what_is_let_go_is_closed_and_clear_closes_everything() -> None:
    house = House(0)
    house.pool.keep("plan", house.open, 3)
    house.pool.keep("plan", house.open, 1)
    assert house.waiting() == 1
    house.pool.keep("plan", house.open, 0)
    assert house.waiting() == 0 and all(each.closed for each in house.opened)
    house.take()
    house.worker.work()
    assert house.waiting() == 0, "a pool that was switched off keeps nothing"
    house.pool.keep("plan", house.open, 2)
    house.pool.clear()
    assert house.waiting() == 0 and house.pool.empty


def test_the_pool_has_its_old_size_unless_it_follows_demand() -> None:
    house = House(4)
    for _ in range(8):
        house.burst(40)
    assert house.waiting() == MOST


def test_a_pool_that_follows_demand_goes_up_with_bursts_and_down_again() -> None:
    house = House("auto")
    for _ in range(8):
        house.burst(40)
    assert house.waiting() == MOST_FOLLOWING
    house.pool.expire()
    for _ in range(3):  # two at a time are enough now
        house.burst(2)
        house.pool.expire()
    assert 2 <= house.waiting() <= 4
    house.burst(2)
    assert house.waiting() >= 1


def test_a_cage_that_cannot_be_opened_is_told_and_the_others_wait() -> None:
    house = House(4)

    def third_fails() -> Any:
        if len(house.opened) == 2:
            raise StartError("clone", 11)
        return house.open()

    with pytest.raises(StartError):
        house.pool.keep("plan", third_fails, 5)
    assert house.waiting() == 2
