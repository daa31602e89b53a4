"""A sign of life for what takes longer than a second: on a terminal only, on standard error, gone when it is done."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from pysandbox.shapes import Self, TextIO

PATIENCE = 1.0  # seconds before anything is shown
CLEAR = "\r\x1b[K"


class Progress:
    """Within the block, after PATIENCE seconds, one line that says what is being waited for, and for how long."""

    def __init__(self, what: str, stream: TextIO | None = None, patience: float = PATIENCE) -> None:
        self._what = what
        self._stream = stream if stream is not None else sys.stderr
        self._patience = patience
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._show, name="pysandbox-progress", daemon=True)

    def __enter__(self) -> Self:
        if self._stream is not None and self._stream.isatty():
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _show(self) -> None:
        began, shown = time.monotonic(), False
        while not self._done.wait(self._patience):
            self._write(f"{CLEAR}pysandbox: {self._what} ({time.monotonic() - began:.0f} s)")
            shown = True
        if shown:
            self._write(CLEAR)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
