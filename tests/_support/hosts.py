"""Programs that use the library, run as processes of their own so that a test can end them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 10.0  # seconds for what takes milliseconds on an idle machine


@contextmanager
def host(body: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Runs `body` in an interpreter; killed at the end, if it has not ended by then."""
    command = [sys.executable, "-c", textwrap.dedent(body), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    """The next line of its output."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def comes_true(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True
