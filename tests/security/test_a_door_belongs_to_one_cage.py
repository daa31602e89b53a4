"""Claim: a door is reached from its own cage and from nowhere else: no other cage, not the host, no other user."""

from __future__ import annotations

import os
import socket
import subprocess

import pytest

from pysandbox import Cage, Policy
from pysandbox.netfilter.netlink import DOORS
from pysandbox.runtime.runtime import Runtime

from .harness import in_cage, program

OUT = Policy(egress="proxy-only", hosts=[{"domain": "a.example"}])
KNOCK = """
    import socket
    def knock(port):
        with socket.socket() as mine:
            mine.settimeout(10)
            mine.connect((ADDRESS, port))
    for port in (1080, 3128, 3129):
        attempt(str(port), knock, port)
"""
PORTS = ("1080", "3128", "3129")
TRIES = 50


def test_neither_the_host_nor_another_cage_reaches_it() -> None:
    """The evidence is what the doors hear: another network may well have something at that address."""
    runtime = Runtime(warm=0)
    mine, other = (runtime.take(runtime.prepare(OUT, "/")) for _ in range(2))
    doors = {door: socket.socket(fileno=fd) for door, fd in mine.take_doors().items()}
    try:
        for port in map(int, PORTS):
            with socket.socket() as host:
                host.settimeout(0.2)
                host.connect_ex((DOORS, port))
        with Cage(Policy()) as third:
            attack = in_cage(third, program(KNOCK, ADDRESS=DOORS))
        assert {attack[port].errno for port in PORTS} == {"ENETUNREACH"}
        for (_, protocol), door in doors.items():
            with pytest.raises(BlockingIOError):
                door.accept() if protocol == "tcp" else door.recv(1)
    finally:
        for door in doors.values():
            door.close()
        mine.close()
        other.close()


def test_its_own_cage_reaches_it() -> None:
    """The control. The TCP door refuses whoever comes without a redirect, by a reset that may be there before the
    connect has returned: it is tried until the connect is the faster one."""
    with Cage(OUT) as cage:
        for _ in range(TRIES):
            report = in_cage(cage, program(KNOCK, ADDRESS=DOORS))
            if report["3129"].errno != "ECONNRESET":
                break
        assert {report[port].errno for port in PORTS} == {None}


@pytest.mark.root
def test_another_user_of_the_host_cannot_enter_the_namespace_that_holds_it() -> None:
    with Cage(OUT) as cage:
        assert cage.run(["/bin/true"]).exit_code == 0
        live = cage._live
        assert live is not None
        enter = [
            "/usr/bin/python3", "-I", "-S", "-c",
            "import ctypes, os, sys; fd = os.open(f'/proc/{sys.argv[1]}/ns/net', os.O_RDONLY); "
            "sys.exit(0 if ctypes.CDLL(None).setns(fd, 0x40000000) == 0 else 1)",
            str(live.pid),
        ]  # fmt: skip
        assert subprocess.run(enter, stderr=subprocess.DEVNULL).returncode == 0  # control: root may
        stranger = subprocess.run(enter, stderr=subprocess.DEVNULL, user=65533, group=65533, extra_groups=[])
        assert stranger.returncode != 0


def test_a_program_of_the_host_inherits_none() -> None:
    runtime = Runtime(warm=0)
    live = runtime.take(runtime.prepare(OUT, "/"))
    try:
        doors = {os.readlink(f"/proc/self/fd/{fd}") for fd in live.doors.values()}
        seen = subprocess.run(["/bin/ls", "-l", "/proc/self/fd"], capture_output=True, text=True, close_fds=False)
        assert len(doors) == len(live.doors) == 7
        assert not [door for door in doors if door in seen.stdout]
    finally:
        live.close()
