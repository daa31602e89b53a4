"""The host's callback: what it is given, what it may answer, and what any other answer leads to.

    def policy(event: CallEvent, ctx: Context):
        if event.category == "exec" and event.argv[0] == "pytest":
            ctx.restrict_network([])

A callback only ever tightens: what the policy refuses is refused before it is asked. None, False and 0 allow; True and
-1 refuse with EPERM, a positive number with that errno; "audit" allows and leaves an event. Whatever else it does (it
raises whatever there is to raise, SystemExit and KeyboardInterrupt among it; it answers something else; it takes too
long) refuses.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from errno import EPERM

from pysandbox.shapes import TYPE_CHECKING, Any, TypeAlias, dataclass

if TYPE_CHECKING:
    import asyncio

    from pysandbox.supervise.context import Context

LARGEST_ERRNO = 4095  # MAX_ERRNO of the kernel
AUDIT = "audit"
LONGEST_REASON = 500  # characters of what is told of a failure

Answer: TypeAlias = "bool | int | str | None"
PolicyFn: TypeAlias = "Callable[[CallEvent, Context], Answer | Awaitable[Answer]]"


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A call that is held until the callback answers. `pid` and `ppid` as the host numbers them; `time` in seconds
    since the epoch. `host`, `port` and `protocol` ("tcp", "udp") are of a network call, "" and 0 otherwise; `argv` of
    an exec, and `path` the program that it runs, links followed; `path` and `write` of a file. None of them is read
    again by the kernel.
    """

    syscall: str
    category: str
    pid: int
    ppid: int
    time: float
    host: str = ""
    port: int = 0
    protocol: str = ""
    argv: tuple[str, ...] = ()
    path: str = ""
    write: bool = False

    def argv_contains(self, word: str) -> bool:
        """Whether an argument of an exec holds these letters (document 002, Fig. 2). A signal and no wall: whoever
        writes the arguments can write others."""
        return any(word in each for each in self.argv)


class Nonsense(Exception):
    """A callback answered something that is no verdict."""


def read_answer(answer: object) -> tuple[int, bool]:
    """(the errno to refuse with, 0 to allow; whether to flag it). Raises Nonsense, and what the answer's methods raise.

    A subclass of int or str is read by the methods of its base class: its own ones are not called.
    """
    if answer is None or answer is False:
        return 0, False
    if answer is True:
        return EPERM, False
    if issubclass(type(answer), int):
        number = int.__index__(answer)  # type: ignore[arg-type]
        if -1 <= number <= LARGEST_ERRNO:
            return (EPERM if number == -1 else number), False
    elif issubclass(type(answer), str) and str.__eq__(answer, AUDIT) is True:  # type: ignore[operator]
        return 0, True
    raise Nonsense(f"the callback answered {answer!r}; it may answer None, a bool, an errno or {AUDIT!r}")


def words_of(error: BaseException) -> str:
    """The text of an exception; never raises, whatever the exception's own methods do."""
    try:
        return f"{type(error).__name__}: {error}"[:LONGEST_REASON]
    except BaseException:
        return "an exception that cannot be put into words"


class Caller:
    """Calls one callback, plain or async. An async one runs in `loop`, the host's; without one, or when that is closed,
    in a loop of the callback's own thread."""

    def __init__(self, function: PolicyFn, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._function = function
        self._loop = loop
        self._own: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def __call__(self, event: CallEvent, context: Context, seconds: float) -> object:
        """Calls it; returns its answer. Raises what it raises, TimeoutError."""
        answer = self._function(event, context)
        if not inspect.isawaitable(answer):
            return answer
        import asyncio

        running = asyncio.run_coroutine_threadsafe(_wait(answer), self._any_loop())
        try:
            value, error = running.result(seconds)
        finally:
            running.cancel()
        if error is not None:
            raise error
        return value

    def _any_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is not None and not self._loop.is_closed():
            return self._loop
        with self._lock:
            if self._own is None or self._own.is_closed():  # a callback may have stopped it
                import asyncio

                own = asyncio.new_event_loop()
                threading.Thread(target=_run, args=(own,), name="pysandbox-policy", daemon=True).start()
                self._own = own
            return self._own

    def close(self) -> None:
        with self._lock:
            own, self._own = self._own, None
        if own is not None:
            with suppress(RuntimeError):  # it was closed by a callback
                own.call_soon_threadsafe(own.stop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Runs the loop until it is stopped; the tasks that still wait in it are cancelled then."""
    import asyncio

    try:
        loop.run_forever()
        waiting = asyncio.all_tasks(loop)
        for task in waiting:
            task.cancel()
        if waiting:
            loop.run_until_complete(asyncio.wait(waiting))
    finally:
        loop.close()


async def _wait(answer: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """(the answer, None) or (None, what was raised): SystemExit and KeyboardInterrupt would end the loop, which may be
    the host's."""
    try:
        return await answer, None
    except BaseException as error:
        return None, error


__all__ = ["Answer", "CallEvent", "Caller", "Nonsense", "PolicyFn", "read_answer", "words_of"]
