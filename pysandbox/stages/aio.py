"""A pipeline in an event loop of asyncio: its commands start in the loop's executor, and its loop waits for them.

A cancelled task kills every stage at once; what then remains to be closed is closed by a task of its own, which nobody
cancels (an anyio scope cancels every await of its task again).
"""

from __future__ import annotations

import asyncio

from pysandbox.aio_exchange import exchange
from pysandbox.aio_files import in_background
from pysandbox.shapes import TYPE_CHECKING, Any
from pysandbox.stages.waiting import Times
from pysandbox.streams.aio_streams import set_ready

if TYPE_CHECKING:
    from pysandbox.process_state import ProcessState
    from pysandbox.stages.joined import Joined
    from pysandbox.stages.outcome import PipelineResult


class Reports:
    """Waits for the reports of one command (`aio_exchange.Reporting`)."""

    def __init__(self, state: ProcessState) -> None:
        self._fd = state.report_fd

    async def next_report(self) -> None:
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._fd, set_ready, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._fd)


async def run(
    joined: Joined, data: bytes | None, deadline: float | None, grace: float, timeout: float | None
) -> PipelineResult[Any]:
    """Starts it, waits for all its ends, and closes it. Raises as Pipeline.run."""
    loop = asyncio.get_running_loop()
    for each in joined.placed:
        each.cage.use_loop(loop)
    begun = in_background(joined.start)
    tasks: list[asyncio.Task[None]] = []
    try:
        await asyncio.shield(begun)
        for index, process in enumerate(joined.processes):
            given = data if data and index == joined.head else b""
            tasks.append(loop.create_task(exchange(Reports(process.state), process.state, given)))
        return joined.result(await _ended(joined, tasks, Times(joined, deadline, grace)), timeout)
    finally:
        joined.abandon()
        await asyncio.shield(loop.create_task(_close(joined, begun, tasks)))


async def _ended(joined: Joined, tasks: list[asyncio.Task[None]], times: Times) -> bool:
    """Returns when all have ended: whether they were killed at the deadline."""
    waiting = set(tasks)
    while waiting and not times.over():
        done, waiting = await asyncio.wait(waiting, timeout=times.patience(), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        joined.raise_failure()
    return times.late


async def _close(joined: Joined, begun: asyncio.Future[None], tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(begun, *tasks, return_exceptions=True)  # no descriptor is watched any more
    await in_background(joined.close)
