"""Progress: what takes long says so, on a terminal, and leaves nothing behind."""

from __future__ import annotations

import io
import threading

from pysandbox.cli.progress import CLEAR, Progress


class Screen(io.StringIO):
    """A stream that may be a terminal, and tells when something was written to it."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        size = super().write(text)
        self.written.set()
        return size


def test_what_takes_long_is_named_and_the_line_is_cleared() -> None:
    screen = Screen(terminal=True)
    with Progress("fetching", screen, patience=0.001):
        assert screen.written.wait(10)
    text = screen.getvalue()
    assert text.startswith(f"{CLEAR}pysandbox: fetching (0 s)") and text.endswith(CLEAR)


def test_what_is_quick_says_nothing() -> None:
    screen = Screen(terminal=True)
    with Progress("fetching", screen, patience=60):
        pass
    assert screen.getvalue() == ""


def test_nothing_is_written_where_nobody_looks() -> None:
    screen = Screen(terminal=False)
    with Progress("fetching", screen, patience=0.001):
        assert not screen.written.wait(0.02)
    assert screen.getvalue() == ""
