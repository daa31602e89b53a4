"""Every system call of the threads that watch over cages fails once: what was refused stays refused, other cages go on
or are told to have ended, nothing hangs, and nothing is left.

`faults.c` traces a host (`faulted_watchers.py`) and makes the n-th call fail that its other threads make: supervisor
and notifier, gatekeeper, relay, watchdog, what passes output on. One call with one errno by default, another one each
day (PSB_SEED); PSB_FAULTS=all tries each call with each errno, PSB_FAULTS=10 ten of them with each.
"""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from _support.ccode import compile_c

HERE = Path(__file__).parent
MANY = os.environ.get("PSB_FAULTS", "")
SAMPLE = {"": "1", "all": "0"}.get(MANY, MANY)
PATIENCE = 3600 if MANY else 110
ERRNOS = ("ENOMEM", "EMFILE", "EINTR", "ENFILE", "EAGAIN")
SEED = os.environ.get("PSB_SEED") or str(int(time.time()) // 86400)
# What a cage does while its watchers fail, and how many calls of theirs that takes, at the least.
SHAPES = {"doors": 60, "calls": 60, "limits": 40, "published": 50, "passed_on": 30, "piped": 20}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(PATIENCE + 10)]


@contextmanager
def saying_hello() -> Iterator[tuple[str, list[object]]]:
    """A port of the host at which whoever comes is greeted, and is written down."""
    came: list[object] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def greet() -> None:
        while True:
            try:
                one, peer = listener.accept()
            except OSError:  # it was shut
                return
            came.append(peer)
            with one, suppress(ConnectionError):  # a door that met an error may hang up first
                one.send(b"hello\n")

    thread = threading.Thread(target=greet)
    thread.start()
    try:
        yield str(listener.getsockname()[1]), came
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_watcher_that_meets_an_error_never_lets_more_through(tmp_path: Path, shape: str) -> None:
    chance = random.Random(f"{SEED} {shape}")
    errnos = ",".join(ERRNOS) if MANY else chance.choice(ERRNOS)
    tracer = str(compile_c((HERE / "faults.c").read_text()))
    with saying_hello() as (granted, welcome), saying_hello() as (forbidden, came):
        done = subprocess.run(
            [tracer, sys.executable, str(HERE / "faulted_watchers.py"), str(tmp_path), granted, forbidden, shape,
             errnos, SEED, SAMPLE],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *wrong, total = map(json.loads, done.stdout.splitlines())
    assert total["calls"] >= SHAPES[shape], "the control: the calls of watchers were seen"
    assert total["tried"] >= 1
    assert bool(welcome) == (shape == "doors"), "the control: what is granted is reached"
    assert not came, f"what is refused was reached; seed {SEED}"
    assert not wrong, f"seed {SEED}\n" + "\n".join(json.dumps(each) for each in wrong)
