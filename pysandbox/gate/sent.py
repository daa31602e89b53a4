"""The host's callback for what is sent: what it is given, what it may answer, and what any other answer leads to.

    def no_customers(part: SentPart):
        return b"customer-" in part.data

It is asked once the detectors have let something pass, and can only refuse: None and False let it go on, True refuses.
Whatever else it does (it raises whatever there is to raise, SystemExit among it; it answers something else; it takes
too long) refuses. It runs in a thread of this program, one question of a cage after the other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from pysandbox.errors import PolicyError
from pysandbox.shapes import TYPE_CHECKING, TypeAlias, dataclass

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan

MOST_RUNNING = 4  # calls of one cage that have not come back: those that are late go on
LATE = "it took too long"


@dataclass(frozen=True, slots=True)
class SentPart:
    """A piece of what a cage is about to send to `host`. `place` is "the head" (method, target and fields, a line
    each), "the body", "the trailer" or "a message"; `data` begins `offset` bytes after its beginning. What is longer
    than 64 KiB comes in pieces, each with the last 4 KiB of the one before. A body is undone from its Content-Encoding;
    the value of no secret is in it, and zeros are where its placeholder stood."""

    host: str
    place: str
    data: bytes
    offset: int = 0


LeakFn: TypeAlias = "Callable[[SentPart], bool | None]"


class LeakCaller:
    """Calls one callback for the questions of a cage. `seconds`: how long an answer may take."""

    def __init__(self, function: LeakFn, seconds: float) -> None:
        self.seconds = seconds
        self._function = function
        self._room = threading.BoundedSemaphore(MOST_RUNNING)

    @classmethod
    def of(cls, function: LeakFn, seconds: float) -> LeakCaller:
        """Raises TypeError for what cannot be called, or only answers in an event loop."""
        import inspect

        called = getattr(function, "__call__", None)  # noqa: B004 - of an object that is called
        if not callable(function) or inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called):
            raise TypeError(f"leak_fn must be a plain function of one part, not {type(function).__name__}")
        return cls(function, seconds)

    def require_scan(self, net: NetPlan | None) -> None:
        """Raises PolicyError where nobody would ask it."""
        if net is None or net.inspection is None or net.inspection.scan is None:
            message = "leak_fn is asked of what is scanned, and nothing of this cage is"
            suggestion = "set dlp_enabled=True and name hosts, or leave leak_fn out"
            raise PolicyError(message, key="network.dlp.enabled", suggestion=suggestion)

    def ask(self, part: SentPart, answer: Callable[[str], object]) -> None:
        """Returns at once; `answer` is called with why it is refused, or "". One that is late is nobody's any more."""
        if not self._room.acquire(blocking=False):
            answer(LATE)
            return
        threading.Thread(target=self._call, args=(part, answer), name="pysandbox-leak-fn", daemon=True).start()

    def _call(self, part: SentPart, answer: Callable[[str], object]) -> None:
        why = "it ended without an answer"
        try:
            why = _read(self._function(part))
        except BaseException as error:
            why = f"it raised {type(error).__name__}"  # and its words may have in them what it was given
        finally:
            self._room.release()
            answer(why)


def _read(said: object) -> str:
    if said is None or said is False:
        return ""
    return "it refused" if said is True else f"it answered {type(said).__name__}, and may answer None or a bool"
