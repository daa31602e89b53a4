"""The coroutines that serve one cage: each runs for as long as the cage lives, at most."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from pysandbox.shapes import Any, TypeVar

T = TypeVar("T")


class CageTasks:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, serving: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = self._loop.create_task(serving)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def cancel(self) -> list[asyncio.Task[Any]]:
        """Cancels what runs; returns it, to be waited for."""
        running = list(self._running)
        for task in running:
            task.cancel()
        return running
