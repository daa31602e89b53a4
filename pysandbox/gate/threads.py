"""Between the gatekeeper's loop and the threads of others: calls that are made in the loop, looks that need none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future

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
    try:
        return answer.result(WAKE_PATIENCE)
    except TimeoutError:
        if answer.done():  # it is what the call itself raised
            raise
    wake_again(loop)
    return answer.result(LOOP_PATIENCE - WAKE_PATIENCE)


def wake_again(loop: asyncio.AbstractEventLoop) -> None:
    """Wakes the loop once more, for who has called into it and waits: asyncio passes over a wake-up that the kernel
    refused for want of memory, and the call would come with whatever happens next. Raises RuntimeError as above."""
    loop.call_soon_threadsafe(lambda: None)
