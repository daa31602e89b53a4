"""The seeds in corpus/, made by the encoder that the launcher uses: python csrc/fuzz/seeds.py DIRECTORY

One folder for each harness. tests/kernel/test_fuzz_seeds.py sees to it that the files that are kept are these.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pysandbox._native import ffi, lib

from pysandbox.compile.plan import LandlockPlan, Limit, Plan
from pysandbox.gate.inspection import channel
from pysandbox.gate.inspection.channel import ChannelRecord
from pysandbox.gate.reading.kinds import Verb
from pysandbox.launch import orders
from pysandbox.launch.kept import KeptFile
from pysandbox.launch.structs import encode_limits, encode_plan

PLAN = Plan(
    isolation="full", namespaces=("USER", "PID"), inside_uid=1, inside_gid=1, hostname_prefix="", staging="/mnt",
    mounts=(), loopback=False, landlock=None, seccomp=b"", seccomp_late=b"", notify=None, cwd="/", env=(),
    walltime=None, limits=(Limit("NOFILE", 64), Limit("CPU", None)), grace=5.0, output_cap=0, notes=(),
)  # fmt: skip
ALLOW = struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000)
SCOPED = LandlockPlan(("EXECUTE",), (), ("SIGNAL",), ())

PLAIN: dict[str, Any] = {
    "argv": ["true"], "env": [], "paths": ["/bin/true"], "cwd": "/", "targets": [], "limits": b"", "n_limits": 0,
    "walltime": None, "grace": 5.0, "command_id": 1, "oneshot": False, "terminal": False, "quiet": False,
}  # fmt: skip
ORDERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stdio": {"targets": [0, 1, 2]},
    "many-descriptors": {"targets": list(range(250))},
    "limits": {"targets": [0, 1], "limits": encode_limits(PLAN), "n_limits": len(PLAN.limits)},
    "texts": {"argv": ["sh", "-c", "", "\udcff"], "env": ["A=1", "B="], "paths": ["/bin/sh", "/usr/bin/sh"]},
    "one-shot": {"oneshot": True, "terminal": True, "quiet": True, "walltime": 1.5},
}
SETUPS: dict[str, dict[str, Any]] = {
    "plain": {},
    "filter": {"seccomp": ALLOW * 3, "seccomp_late": ALLOW},
    "flat": {"namespaces": (), "landlock": SCOPED},
}

KEPT_TABLES = [f"PSB_KEPT_{name}" for name in (
    "VARIABLES", "STAMPS", "PROGRAMS", "PLACES", "SEEN", "SEARCHED", "NAMES", "ABSENT", "PLANTED", "PATHS", "ENV",
    "PASSED", "GIVEN", "WEAKER", "RECORDS", "LIMITS", "ROUTES", "REDIRECT", "DOORS", "WATCHED", "GROUP",
    "HANDED", "SETTINGS",
)]  # fmt: skip


def exec_seeds() -> Iterator[tuple[str, bytes]]:
    for name, fields in ORDERS.items():
        order = orders.encode_exec(**{**PLAIN, **fields})
        yield name, order.header + order.body
    order = orders.encode_exec(**{**PLAIN, **ORDERS["texts"]})
    header = ffi.new("struct psb_exec *")
    ffi.memmove(header, order.header, len(order.header))
    header.flags |= lib.PSB_EXEC_BODY_FD  # set by the encoder beyond PSB_MAX_INLINE, which is long for a seed
    yield "body-elsewhere", bytes(ffi.buffer(header)) + order.body


def setup_seeds() -> Iterator[tuple[str, bytes]]:
    for name, fields in SETUPS.items():
        yield name, encode_plan(replace(PLAN, **fields), 1, 1).setup
    yield "signal", received(lambda control: orders.send_signal(control, 7, 15, "session"))
    yield "nudge", received(orders.wake_hint)


def control_seeds() -> Iterator[tuple[str, bytes]]:
    for count in (0, 1, 3, 253):
        control = struct.pack("=QII", 16 + 4 * count, socket.SOL_SOCKET, socket.SCM_RIGHTS) + bytes(4 * count)
        yield f"descriptors-{count}", struct.pack("=Q", len(control)) + control
    yield "credentials", struct.pack("=QQIIIII", 32, 28, socket.SOL_SOCKET, 2, 1, 1, 1)  # SCM_CREDENTIALS


def kept_seeds() -> Iterator[tuple[str, bytes]]:
    yield "empty", kept()
    yield (
        "full",
        kept(
            PSB_KEPT_VARIABLES=lambda file: (
                "psb_kept_pair",
                [(file.text("A"), file.text("1")), (file.text("B"), file.text(None))],
            ),
            PSB_KEPT_STAMPS=lambda file: ("psb_kept_stamp", [(file.text("/etc/passwd"), 1, 2, 3, 4, 5, 6)]),
            PSB_KEPT_PROGRAMS=lambda file: ("psb_kept_pair", [(file.text("/bin/sh"), file.text("/usr/bin/dash"))]),
            PSB_KEPT_PLACES=lambda file: (
                "psb_kept_place",
                [(file.text("/run"), file.text("/run"), 1, 0o755, 1, 2, 0)],
            ),
            PSB_KEPT_SEEN=lambda file: ("psb_seen", [(file.pointer("/usr"), 1, 2, 0, 0, 1)]),
            PSB_KEPT_SEARCHED=lambda file: ("psb_kept_searched", [(file.text("/p"), 1, 0, 1, 7)]),
            PSB_KEPT_NAMES=lambda file: (".git",),
            PSB_KEPT_ABSENT=lambda file: ("psb_absent", [(file.pointer("/p"), file.pointer(".git"), 0)]),
            PSB_KEPT_PLANTED=lambda file: ("psb_kept_planted", [(file.text('"/p/.git"'),) * 3]),
            PSB_KEPT_ENV=lambda file: ("A=1",),
            PSB_KEPT_GIVEN=lambda file: ("psb_kept_given", [(1, 0)]),
            PSB_KEPT_RECORDS=lambda file: ("psb_kept_record", [(file.text("a.b"), file.text("{\1\2\3}"), 1)]),
            PSB_KEPT_DOORS=lambda file: (
                "psb_kept_door",
                [(file.text("dns/udp"), file.text("198.18.0.1:53/udp"), 2, 2, 53, 0, bytes(16))],
            ),
            PSB_KEPT_WATCHED=lambda file: ("/", "/tmp"),
            PSB_KEPT_GROUP=lambda file: (
                "psb_kept_place",
                [(file.text("/sys/fs/cgroup"), file.text("/sys/fs/cgroup"), 1, 0o755, 1, 2, 0)],
            ),
            PSB_KEPT_HANDED=lambda file: ("memory",),
            PSB_KEPT_SETTINGS=lambda file: (
                "psb_kept_setting",
                [(file.text("memory.max"), file.text("1"), 0)],
            ),
        ),
    )


def scan_seeds() -> Iterator[tuple[str, bytes]]:
    yield "escapes", rb"%25%34%31 %u0041 \\u0041\u{0041}\x41\101\/\n &#65;&#x0041; &amp;quot;&lowbar;"
    yield "quoted", b"=41=42=43=\r\nBEGIN+Bearer+x"
    yield "base64", b"Z2hwXyBnaHBfIGdocF8gZ2hwXyBnaHBf" * 3 + b"\n" + bytes(range(64)) + b"aabbccddeeffgg"
    yield "hex", b"0x67, 0x68 " * 9 + b"\\x67\\X68" * 9
    yield "letters", "\u200bg\u0440h\uff50_\u0301 \u0410\u0440\u0435 \u00e9".encode() + b"\0a\0b\xff\xed\xa0\x80"
    yield (
        "compressed",
        b"text, sixteen letters\0" + zlib.compress(b"a" * 40) + b"\x1f\x8b\x08\x28\xb5\x2f\xfd" + b"aaaabcghp_" * 9,
    )


def dial_seeds() -> Iterator[tuple[str, bytes]]:
    for kind, fields in {
        Verb.DIAL: (b"1", b"name.example", b"443", b""), Verb.PASS: (b"16777215", b"198.18.1.0", b"65535", b"said"),
        Verb.SPLICE: (b"1", b""), Verb.SAY: (b"x",), Verb.LET_GO: (), Verb.GIVE_UP: (),
        Verb.OFFER: (b"1", b"name.example", b"25", b"\5\0"), Verb.GO: (b"EHLO x",), Verb.FETCH: (),
    }.items():  # fmt: skip
        yield kind.name.lower(), channel.encode(ChannelRecord(kind, 1 << 63 | 7, fields))


def kept(**tables: Callable[[KeptFile], Any]) -> bytes:
    """A kept plan without a signature, of a build by hand."""
    file = KeptFile(b"key\0")
    file.plan(encode_plan(PLAN, 1, 1))
    for name in KEPT_TABLES:
        given = tables[name](file) if name in tables else ()
        section = getattr(lib, name)
        if len(given) == 2 and isinstance(given[1], list):
            file.rows(section, *given)
        else:
            file.texts(section, given)
    content = file.content()
    return bytes(32) + b"unknown".ljust(64, b"\0") + content[64:]


def received(send: Callable[[int], None]) -> bytes:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        send(ours.fileno())
        return theirs.recv(1 << 16)


def seeds() -> dict[str, bytes]:
    """By harness and name: {"exec/plain": ...}."""
    made = {"exec": exec_seeds, "setup": setup_seeds, "control": control_seeds, "kept": kept_seeds, "scan": scan_seeds,
            "dial": dial_seeds}  # fmt: skip
    return {f"{harness}/{name}": seed for harness, make in made.items() for name, seed in make()}


def main(directory: str) -> None:
    for name, seed in seeds().items():
        path = Path(directory, name)
        os.makedirs(path.parent, exist_ok=True)
        path.write_bytes(seed)


if __name__ == "__main__":
    main(sys.argv[1])
