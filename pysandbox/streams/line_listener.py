"""A function of the caller's that hears each line of an output as the command writes it: `run(on_stdout=...)`.

While it is busy nothing more is read of that output, so a command that writes faster fills its pipe, and waits. What it
raises ends the command, and is raised to the caller; then, and when the time is up, it is not called again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from pysandbox.command import TextCoding
from pysandbox.shapes import Any
from pysandbox.streams.text_streams import Unread

LONGEST_LINE = 1 << 16  # bytes; what is longer comes in pieces
LONGEST_TURN = 0.01  # seconds that the loop of asyncio is kept from others

LineFunction = Callable[[Any], object]


class LineListener:
    """Who is called with the lines of one output."""

    def __init__(self, function: LineFunction, coding: TextCoding | None) -> None:
        self._function = function
        self._unread = Unread(coding)
        self.add = self._unread.add  # what was read; nothing is the end

    def tell(self, deadline: float | None = None) -> None:
        """Calls it with each line that is whole. Raises TimeoutError, and what it raises."""
        for line in self._lines(deadline):
            self._function(line)

    async def tell_and_wait(self) -> None:
        """`tell`, under asyncio: for a function that is async, too. The loop has its turn in between, and so has the
        time that the caller waits for."""
        from asyncio import sleep

        began = time.monotonic()
        for line in self._lines(None):
            answer = self._function(line)
            if hasattr(answer, "__await__"):
                await answer
            elif time.monotonic() - began > LONGEST_TURN:
                await sleep(0)
                began = time.monotonic()

    def _lines(self, deadline: float | None) -> Iterator[bytes | str]:
        while line := self._unread.line(LONGEST_LINE):
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError("what the command wrote was not told in time")
            yield line


def check_listeners(
    listeners: dict[str, LineFunction | None], files: tuple[object, object, object], *, waited_for: bool = False
) -> None:  # fmt: skip
    """Before anything is started. `waited_for`: an async function is. Raises TypeError, ValueError."""
    streams = {"stdout": files[1], "stderr": files[2]}
    for name, function in listeners.items():
        if function is None:
            continue
        if not callable(function):
            raise TypeError(f"on_{name} must be a function of one line, not {type(function).__name__}")
        if streams[name] != -1:
            raise ValueError(f"on_{name} hears what is captured: leave {name} out, or {name}=PIPE")
        import inspect

        called = getattr(function, "__call__", None)  # noqa: B004 - of an object that is called
        if not waited_for and (inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)):
            raise TypeError(f"on_{name} is async, and nobody would await it here: use AsyncCage, or a plain function")
