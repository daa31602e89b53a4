"""What a confined process says when it fails, and what is told of it: the places, one line, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from pysandbox.gate.last_words import MOST, MOST_PLACES, PIPE, LastWords

OURS = "from pysandbox.gate.last_words import say_last_words; say_last_words()\n"


def said_by(script: str) -> str:
    words = LastWords()
    try:
        program = [sys.executable, "-c", script]
        subprocess.run(program, stdin=subprocess.DEVNULL, stderr=words.other, timeout=60, check=False)
        words.begun()
        return words.said()
    finally:
        words.close()


def test_it_says_where_it_failed_and_not_with_what() -> None:
    script = "def look(secret):\n    raise KeyError(secret)\nlook('swordfish')"
    assert "swordfish" in said_by(script), "the control"
    said = said_by(OURS + script)
    assert said == ": <string>:4 in <module>; <string>:3 in look; KeyError"


@pytest.mark.parametrize("script", [
    "import warnings; warnings.warn('swordfish')",
    "import sys; print('swordfish', file=sys.stderr)",
    "import logging; logging.warning('swordfish')",
    "class Ends:\n    def __del__(self): raise KeyError('swordfish')\nEnds()",
])  # fmt: skip
def test_it_says_nothing_else(script: str) -> None:
    assert "swordfish" in said_by(script), "the control"
    assert said_by(OURS + script) == ""


def test_of_a_long_way_it_says_the_end() -> None:
    said = said_by(OURS + "def again(): again()\nagain()")
    assert said.endswith("; RecursionError") and said.count(" in again") == MOST_PLACES


@pytest.mark.parametrize("shown", ["\\x1b[2J\\x07\\r\\0\\x7f\\xff", "\\n"])
def test_whoever_has_taken_it_over_says_one_line_of_bounded_length(shown: str) -> None:
    """And waits for nobody who would read it."""
    flood = f"import os\ntry:\n    while True: os.write(2, b'{shown}' * 1000)\nexcept BlockingIOError: pass"
    said = said_by(flood)
    assert said.isascii() and said.isprintable() and len(said) <= 4 * MOST + 2
    assert said == "" if shown == "\\n" else "\\x1b[2J\\x07\\x0d\\x00\\x7f\\xff" in said


def test_no_more_is_read_than_a_pipe_holds() -> None:
    """Somebody writes on while it is read."""
    words = LastWords()
    try:
        os.set_blocking(words.other, False)
        reads = 0
        read = os.read

        def refilled(fd: int, size: int) -> bytes:
            nonlocal reads
            reads += 1
            os.write(words.other, b"x" * 4096)
            return read(fd, min(size, 4096))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "read", refilled)
            assert len(words.said()) == MOST + 2
        assert reads <= PIPE // 4096
    finally:
        words.close()


def test_it_closes_both_ends_once() -> None:
    before = len(os.listdir("/proc/self/fd"))
    words = LastWords()
    assert len(os.listdir("/proc/self/fd")) == before + 2
    words.close()
    words.close()
    assert len(os.listdir("/proc/self/fd")) == before
