"""The reference pages are generated; what is committed is what the declarations say today."""

from __future__ import annotations

import subprocess
import sys

from _support.tree import REPOSITORY


def test_the_reference_pages_are_up_to_date() -> None:
    command = [sys.executable, str(REPOSITORY / "tools" / "genref.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
