"""A wake-up of the loop that the kernel refuses is made once more, and what a call raises is the caller's."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Iterator

import pytest

from pysandbox.gate.threads import LOOP_PATIENCE, in_loop


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


class Refusing:
    """The loop's own socket, whose first send finds no memory."""

    def __init__(self, real: object) -> None:
        self.real, self.refused = real, 0

    def send(self, data: bytes) -> int:
        if not self.refused:
            self.refused = 1
            raise OSError(errno.ENOMEM, "no memory")
        return self.real.send(data)  # type: ignore[attr-defined, no-any-return]

    def close(self) -> None:
        self.real.close()  # type: ignore[attr-defined]


def test_a_call_is_made_although_its_wake_up_was_refused(loop: asyncio.AbstractEventLoop) -> None:
    in_loop(loop, lambda: None)
    waking = loop._csock = Refusing(loop._csock)  # type: ignore[attr-defined]
    assert in_loop(loop, lambda: "made") == "made", f"it came within {LOOP_PATIENCE} s"
    assert waking.refused, "the control: one was refused"


def test_what_the_call_raises_is_the_caller_s(loop: asyncio.AbstractEventLoop) -> None:
    def late() -> None:
        raise TimeoutError("of the call itself")

    with pytest.raises(TimeoutError, match="of the call itself"):
        in_loop(loop, late)
