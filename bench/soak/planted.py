"""Operations that break the rules: each is what the soak must find, and is only there when --plant asks for it."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading

from bench.soak.canary import uncaged
from bench.soak.operations import Operation, World, Wrong

kept: list[int] = []


def descriptor(world: World) -> None:
    kept.append(os.open("/dev/zero", os.O_RDONLY))


def process(world: World) -> None:
    """An orphan: its parent is gone before anybody has noticed it."""
    subprocess.run(["/bin/sh", "-c", "sleep 1000 >/dev/null 2>&1 &"], check=True)


def directory(world: World) -> None:
    tempfile.mkdtemp(prefix="pysandbox-")


def hang(world: World) -> None:
    threading.Event().wait()


def crash(world: World) -> None:
    os._exit(3)


def error(world: World) -> None:
    raise Wrong("planted")


def escape(world: World) -> None:
    uncaged(world.canary)


PLANTED: dict[str, Operation] = {
    each.__name__: each for each in (descriptor, process, directory, hang, crash, error, escape)
}
