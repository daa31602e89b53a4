"""How a process of ours begins that is to confine itself: an interpreter of its own, with this package and a few
descriptors, nothing of the host program's environment, and nothing that a user types at the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

STARTER = "import sys; sys.path[:0] = sys.argv[COUNT:]; from MODULE import main; main(*map(int, sys.argv[1:COUNT]))"


def start(
    module: str, fds: Sequence[int], *numbers: int, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Calls `main` of the module with the descriptors and the numbers. Raises OSError."""
    words = [str(each) for each in (*fds, *numbers)]
    places = [each for each in sys.path if each and os.path.isabs(each)]
    starter = STARTER.replace("MODULE", module).replace("COUNT", str(len(words) + 1))
    return subprocess.Popen(
        [sys.executable, "-I", "-c", starter, *words, *places], env=dict(environment or {}), cwd="/",
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=tuple(fds),
        process_group=0,  # what a user types at the terminal is for the host program
    )  # fmt: skip
