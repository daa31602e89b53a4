"""`ulimit -u` of whoever calls: a run works or says what is missing, and never waits for a thread that nobody gets."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOW = 'ulimit -u "$1"; exec "$2" -m pysandbox run -- echo ran'
SAID = ("temporarily unavailable", "the limit of processes is reached")


@pytest.mark.parametrize("most", [1, 4, 5, 6, 7, 8, 9, 10, 12, 16, 4096])
def test_a_run_works_or_says_what_is_missing(most: int) -> None:
    done = subprocess.run(
        ["/bin/bash", "-c", LOW, "bash", str(most), sys.executable], capture_output=True, text=True, timeout=60
    )
    if done.returncode == 0:
        assert done.stdout == "ran\n"
    else:
        assert done.returncode == 125, done
        assert done.stderr.startswith("pysandbox: error: ") and any(each in done.stderr for each in SAID), done
