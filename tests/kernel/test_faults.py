"""Every system call of a start fails once: the result is an error, or a cage like any other, and nothing is left.

`faults.c` traces a host (`faulted_host.py`) and makes the n-th call of a part of it fail: of the host's own thread, of
what it clones until that is cage-init, of cage-init, of a command until its exec. What runs then says what holds it
(`walls.c`), and that must be, line by line, what it says in a cage in whose start nothing failed.

A sample by default, the same one each time; PSB_FAULTS=all tries each call with each errno, for some minutes. The
host's other threads, which watch over its cages, are in test_faults_of_watchers.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from _support.ccode import compile_c

HERE = Path(__file__).parent
PATIENCE = 900 if os.environ.get("PSB_FAULTS") == "all" else 110

pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE + 10)]
ERRNOS = ("ENOMEM", "EPERM", "EMFILE", "EINTR")
# How many calls a sample leaves out between two, at the least: {part: stride}; a start makes some 320 calls (born).
STRIDES = {"born": 41, "init": 7, "command": 7, "host": 31}
FEWEST = {"born": 100, "init": 15, "command": 12, "host": 60}  # calls of any start: fewer, and the count is wrong
# What a policy adds to a start is in the calls of these parts.
SHAPES = {
    "full": ("born", "init", "command", "host"),
    "denies": ("born",),
    "landlock": ("born", "init", "command"),
    "ips": ("init", "host"),
    "hosts": ("born", "host"),
    "pty": ("command", "host"),
}


def trials(directory: Path, shape: str, part: str, errnos: str, first: int, stride: int) -> list[dict[str, Any]]:
    """What the host says: a line for each thing that was wrong, and at last the sum."""
    tracer, walls = (str(compile_c((HERE / name).read_text())) for name in ("faults.c", "walls.c"))
    script = str(HERE / "faulted_host.py")
    done = subprocess.run(
        [tracer, sys.executable, script, walls, str(directory), shape, part, errnos, str(first), str(stride)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("shape", "part"), [(shape, part) for shape, parts in SHAPES.items() for part in parts])
def test_a_call_that_fails_is_an_error_or_a_cage_like_any_other(tmp_path: Path, shape: str, part: str) -> None:
    stride = 1 if os.environ.get("PSB_FAULTS") == "all" else STRIDES[part]
    *wrong, total = trials(tmp_path, shape, part, ",".join(ERRNOS), len(shape), stride)
    assert total["calls"] >= FEWEST[part], "the control: the calls of this part were seen"
    assert total["tried"] >= len(ERRNOS)
    assert not wrong, "\n".join(json.dumps(each) for each in wrong)


def test_a_wall_that_is_missing_shows(tmp_path: Path) -> None:
    """The control of all: a landlock cage does not say what a full one says, and the tracer does make calls fail."""
    *_, total = trials(tmp_path, "full", "born", "EPERM", 1, 40)
    assert any(kind.startswith("SandboxSpawnError") for kind in total["kinds"])
    assert total["other"], "a policy with less says less"
