"""What cutting says that it has cut, of the sockets of a process beside us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from pysandbox.supervise import cut
from pysandbox.supervise.cut import Cutting
from pysandbox.supervise.wire import get_fd

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


class Beside:
    """What is below this process, as what is below a cage's init."""

    def __init__(self, pid: int = os.getpid()) -> None:
        self.pid = pid

    def pin(self) -> int:
        return os.pidfd_open(self.pid)


@pytest.mark.parametrize("holding", [LOCKED, CONNECTED, TWICE], ids=["loose", "connected", "named twice"])
def test_a_socket_counts_once_however_often_its_process_is_looked_at(holding: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", holding + WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stdout.readline() == b"ready\n"
        cutting = Cutting((), Beside())

        assert cutting([process.pid]) == 1
        assert cutting([process.pid]) == 0

        process.stdin.write(b"\n")


def other_process(holding: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", holding + WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    return process


def test_a_number_that_is_no_process_s_of_the_cage_is_left_alone() -> None:
    """Neither its sockets nor, where these may not be read, itself; control: both are met below the init."""
    hidden = "import ctypes; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"
    with other_process(LOCKED) as init, other_process(LOCKED) as sockets, other_process(hidden) as kept_from_us:
        try:
            pids = [sockets.pid, kept_from_us.pid]
            assert Cutting((), Beside(init.pid))(pids) == 0
            assert kept_from_us.poll() is None

            assert Cutting((), Beside())(pids) == 2
            assert kept_from_us.wait(10) == -signal.SIGKILL
        finally:
            for each in (init, sockets, kept_from_us):
                each.kill()


def test_what_was_got_of_a_process_that_has_ended_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    with other_process(LOCKED) as process:

        def taken_late(pid: int, fd: int) -> int:
            taken = get_fd(pid, fd)
            process.kill()
            process.wait()
            return taken

        monkeypatch.setattr(cut, "get_fd", taken_late)
        assert Cutting((), Beside())([process.pid]) == 0
