"""A host of its own: a function run in a fresh interpreter, in a network namespace whose loopback bears addresses that
are nobody's (RFC 5737, RFC 3849), so that a cage there can be granted what is neither its own loopback nor a network.

Unprivileged, the namespace's owner is a user namespace, and the function runs as an ordinary user below it; as root it
stays root. What the function returns travels as JSON.
"""

from __future__ import annotations

import ctypes
import fcntl
import importlib
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

LISTED, OTHER, SIX = "203.0.113.10", "203.0.113.11", "2001:db8::10"
NEWUSER, NEWNET = 0x10000000, 0x40000000
SIOCSIFADDR, SIOCSIFFLAGS, SIOCGIFINDEX = 0x8916, 0x8914, 0x8933
IFF_UP = 1
PATIENCE = 120.0
BODY = "import sys; sys.path[:] = {path!r}; from _support.outside import inside; inside({module!r}, {name!r})"


def outside(function: Callable[..., Any], *arguments: object) -> Any:
    """What the function, one of a module's own, returns there; AssertionError with its traceback when it raises."""
    body = BODY.format(path=sys.path, module=function.__module__, name=function.__name__)
    done = subprocess.run(
        [sys.executable, "-c", body], input=json.dumps(arguments), capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def inside(module: str, name: str) -> None:
    """The other end: enters the namespaces, becomes an ordinary user there, and calls the function."""
    if "PSB_OUTSIDE" not in os.environ:
        root = os.geteuid() == 0
        _unshare(NEWNET if root else NEWUSER | NEWNET, 0)
        _bear_addresses()
        if not root:
            _unshare(NEWUSER, 1000)
        os.environ["PSB_OUTSIDE"] = "1"
        os.execv(sys.executable, sys.orig_argv)  # an ordinary user's capabilities end here
    arguments = json.load(sys.stdin)
    said = getattr(importlib.import_module(module), name)(*arguments)
    print("\n" + json.dumps(said), flush=True)


def _unshare(flags: int, uid: int) -> None:
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    if flags & NEWUSER:
        for file, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {outer_uid} 1"),
            ("gid_map", f"{uid} {outer_gid} 1"),
        ):
            with open(f"/proc/self/{file}", "w", encoding="ascii") as to:
                to.write(text)


def _bear_addresses() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as four,
        socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as six,
    ):
        fcntl.ioctl(four, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
        for label, address in ((b"lo:1", LISTED), (b"lo:2", OTHER)):
            name = struct.pack("=HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(four, SIOCSIFADDR, struct.pack("16s16s", label, name))
        index = struct.unpack_from("i", fcntl.ioctl(four, SIOCGIFINDEX, struct.pack("16s16x", b"lo")), 16)[0]
        fcntl.ioctl(six, SIOCSIFADDR, struct.pack("16sIi", socket.inet_pton(socket.AF_INET6, SIX), 128, index))
