"""Between the gatekeeper's loop and the threads of others: calls that are made in the loop, looks that need none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, wait

from pysandbox.shapes import TypeVar

WAKE_PATIENCE = 1.0  # seconds after which it is woken once more
LOOP_PATIENCE = 10.0  # seconds for the loop to come round

T = TypeVar("T")


def in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], T]) -> T:
    """Makes a call in the loop of another thread; returns or raises what it does. Raises RuntimeError when the loop has
    ended."""
    answer: Future[T] = Future()

    def make() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:
            answer.set_exception(error)

    loop.call_soon_threadsafe(make)
    wait_for_loop(loop, lambda seconds: not wait([answer], seconds).not_done, LOOP_PATIENCE)
    return answer.result(0)


def wait_for_loop(loop: asyncio.AbstractEventLoop, came: Callable[[float], bool], patience: float) -> bool:
    """For who has called into the loop: whether what it is to do has come in time. `came` waits for that. The loop is
    woken once more meanwhile: asyncio passes over a wake-up that the kernel refused for want of memory, and the call
    would come with whatever happens next. Raises RuntimeError as above."""
    if came(WAKE_PATIENCE):
        return True
    loop.call_soon_threadsafe(lambda: None)
    return came(patience - WAKE_PATIENCE)
