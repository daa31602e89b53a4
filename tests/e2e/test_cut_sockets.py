"""What cutting says that it has cut, of the sockets of a process beside us."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pysandbox.supervise.cut import Cutting

# A socket as the host makes it for a granted address of UDP: its filter is locked, so that it shows no peer once cut.
LOCKED = """
import ctypes, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("127.0.0.1", 0))
code = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0xFFFFFFFF))
s.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HL", 1, ctypes.addressof(code)))  # SO_ATTACH_FILTER
s.setsockopt(socket.SOL_SOCKET, 44, 1)  # SO_LOCK_FILTER
"""
CONNECTED = LOCKED + "s.connect(s.getsockname())\n"
TWICE = LOCKED + "import os; again = os.dup(s.fileno())\n"
WAITS = "print('ready', flush=True); input()\n"


@pytest.mark.parametrize("holding", [LOCKED, CONNECTED, TWICE], ids=["loose", "connected", "named twice"])
def test_a_socket_counts_once_however_often_its_process_is_looked_at(holding: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", holding + WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stdout.readline() == b"ready\n"
        cutting = Cutting(())

        assert cutting([process.pid]) == 1
        assert cutting([process.pid]) == 0

        process.stdin.write(b"\n")
