"""bench.soak finds what it is there to find: each thing that is planted ends it with 1 and is named."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from _support.tree import REPOSITORY

NAMED = {
    "descriptor": "left behind: fds:",
    "directory": "left behind: paths:",
    "process": "stray: a process outlived its host: sleep",
    "hang": "hang: hang takes more than",
    "crash": "a host ended with 3",
    "error": "error: Traceback",
    "escape": "escape: the canary sings: its TCP socket was reached",
}


STEADY = ("--seed", "1", "--kill-every", "1000")


def soak(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.soak", "--seconds", "1", "--hosts", "1", "--threads", "1", *STEADY]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*command, *arguments], cwd=REPOSITORY, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=110,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("planted", NAMED)
def test_what_is_planted_is_found(planted: str) -> None:
    done = soak("--patience", "6", "--plant", planted)
    assert done.returncode == 1, done.stdout + done.stderr
    assert NAMED[planted] in done.stdout


@pytest.mark.slow
def test_where_nothing_is_planted_nothing_is_found() -> None:
    done = soak("--patience", "60")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert done.stdout.endswith("nothing leaked, hung or escaped\n") and "  one_shot\n" in done.stdout
