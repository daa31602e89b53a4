"""Tests in tests/unit are pure: they start no process. An audit hook refuses it while one of them runs.

The hook cannot be taken away again, so it is installed once and looks at `forbidden`.
"""

from __future__ import annotations

import sys
from typing import Any

STARTS = frozenset(
    ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.spawn", "os.system", "pty.spawn")
)


class Stillness:
    """Refuses to start a process while `forbidden` holds the name of a running test."""

    def __init__(self) -> None:
        self.forbidden: str | None = None
        sys.addaudithook(self._audit)

    def _audit(self, event: str, _arguments: tuple[Any, ...]) -> None:
        if self.forbidden is not None and event in STARTS:
            raise RuntimeError(f"{self.forbidden} is a unit test and may not start a process ({event}); move it to e2e")
