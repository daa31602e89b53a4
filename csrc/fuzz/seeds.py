"""The seeds in corpus/, made by the encoder that the launcher uses: python csrc/fuzz/seeds.py DIRECTORY

One folder for each harness. tests/kernel/test_fuzz_seeds.py sees to it that the files that are kept are these.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pysandbox._native import ffi, lib

from pysandbox.compile.plan import LandlockPlan, Limit, Plan
from pysandbox.launch import orders
from pysandbox.launch.structs import encode_limits, encode_plan

PLAN = Plan(
    isolation="full", namespaces=("USER", "PID"), inside_uid=1, inside_gid=1, hostname_prefix="", staging="/mnt",
    mounts=(), loopback=False, landlock=None, seccomp=b"", seccomp_late=b"", notify=None, cwd="/", env=(),
    walltime=None, limits=(Limit("NOFILE", 64), Limit("CPU", None)), grace=5.0, output_cap=0, notes=(),
)  # fmt: skip
ALLOW = struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000)
SCOPED = LandlockPlan(("EXECUTE",), (), ("SIGNAL",), ())

PLAIN: dict[str, Any] = {
    "argv": [b"true"], "env": [], "paths": [b"/bin/true"], "cwd": b"/", "targets": [], "limits": b"", "n_limits": 0,
    "walltime": None, "grace": 5.0, "command_id": 1, "oneshot": False, "terminal": False, "quiet": False,
}  # fmt: skip
ORDERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stdio": {"targets": [0, 1, 2]},
    "many-descriptors": {"targets": list(range(250))},
    "limits": {"targets": [0, 1], "limits": encode_limits(PLAN), "n_limits": len(PLAN.limits)},
    "texts": {"argv": [b"sh", b"-c", b"", b"\xff"], "env": [b"A=1", b"B="], "paths": [b"/bin/sh", b"/usr/bin/sh"]},
    "one-shot": {"oneshot": True, "terminal": True, "quiet": True, "walltime": 1.5},
}
SETUPS: dict[str, dict[str, Any]] = {
    "plain": {},
    "filter": {"seccomp": ALLOW * 3, "seccomp_late": ALLOW},
    "flat": {"namespaces": (), "landlock": SCOPED},
}


def exec_seeds() -> Iterator[tuple[str, bytes]]:
    for name, fields in ORDERS.items():
        order = orders.encode_order(**{**PLAIN, **fields})
        yield name, order.header + order.body
    order = orders.encode_order(**{**PLAIN, **ORDERS["texts"]})
    header = ffi.new("struct psb_exec *")
    ffi.memmove(header, order.header, len(order.header))
    header.flags |= lib.PSB_EXEC_BODY_FD  # set by the encoder beyond PSB_MAX_INLINE, which is long for a seed
    yield "body-elsewhere", bytes(ffi.buffer(header)) + order.body


def setup_seeds() -> Iterator[tuple[str, bytes]]:
    for name, fields in SETUPS.items():
        yield name, encode_plan(replace(PLAN, **fields), 1, 1)._setup
    yield "signal", received(lambda control: orders.send_signal(control, 7, 15, "session"))
    yield "nudge", received(orders.nudge)


def control_seeds() -> Iterator[tuple[str, bytes]]:
    for count in (0, 1, 3, 253):
        control = struct.pack("=QII", 16 + 4 * count, socket.SOL_SOCKET, socket.SCM_RIGHTS) + bytes(4 * count)
        yield f"descriptors-{count}", struct.pack("=Q", len(control)) + control
    yield "credentials", struct.pack("=QQIIIII", 32, 28, socket.SOL_SOCKET, 2, 1, 1, 1)  # SCM_CREDENTIALS


def received(send: Callable[[int], None]) -> bytes:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        send(ours.fileno())
        return theirs.recv(1 << 16)


def seeds() -> dict[str, bytes]:
    """By harness and name: {"exec/plain": ...}."""
    made = {"exec": exec_seeds, "setup": setup_seeds, "control": control_seeds}
    return {f"{harness}/{name}": seed for harness, make in made.items() for name, seed in make()}


def main(directory: str) -> None:
    for name, seed in seeds().items():
        path = Path(directory, name)
        os.makedirs(path.parent, exist_ok=True)
        path.write_bytes(seed)


if __name__ == "__main__":
    main(sys.argv[1])
