"""Claim: a call that is done on behalf reads, writes and follows what is its caller's, and nothing of a process that
has the caller's number next, at whatever moment the caller dies and its number is given out again. One moment is left:
before the lengths of `sendmmsg` are written for a program whose memory cannot be opened (`PR_SET_DUMPABLE`).

All of it happens in a PID namespace of the tests' own, where the next number can be chosen; the host's thread is
stopped before each of the system calls that it makes for the call, one after the other.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from .harness import PYTHON, SLOWNESS

ATTACK = Path(__file__).with_name("attacks") / "numbers.py"
OTHER_S = "of another"  # the beginning of what the other process has in its memory, and in its descriptor
IN_A_NAMESPACE = ("unshare", "--user", "--map-current-user", "--keep-caps", "--pid", "--fork", "--mount-proc")
HOST = """
import sys
from pysandbox import Cage, Policy
with Cage(Policy(allow_ips=["192.0.2.1"])) as cage:
    cage.run(["/usr/bin/python3", "-I", "-S", "-c", *sys.argv[1:]], stdin=0, stdout=1, stderr=2)
"""
CAGED = """
import ctypes, json, os, socket, sys
ADDRESS = 0x200000000000
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.syscall.argtypes = [ctypes.c_long] * 7
NR = {"x86_64": {"sendto": 44, "sendmsg": 46, "sendmmsg": 307},
      "aarch64": {"sendto": 206, "sendmsg": 211, "sendmmsg": 269}}[os.uname().machine]
kind = sys.argv[1]
inet = kind in ("sendto", "sendmmsg")
server, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
if inet:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 0))
os.chdir("/tmp")
server.settimeout(0.2)
null = os.open("/dev/null", os.O_RDONLY)
os.dup2(null, 9)

def put(offset, *words):
    raw = b"".join(each if isinstance(each, bytes) else each.to_bytes(8, "little") for each in words)
    ctypes.memmove(ADDRESS + offset, raw, len(raw))

def calls():
    assert libc.mmap(ADDRESS, 4096, 3, 0x22 | 0x10, -1, 0) == ADDRESS
    s = there if kind == "rights" else socket.socket(server.family, socket.SOCK_DGRAM)
    if inet:
        name = socket.AF_INET.to_bytes(2, "little") + server.getsockname()[1].to_bytes(2, "big") + bytes([127, 0, 0, 1])
        name += bytes(8)
    else:
        name = socket.AF_UNIX.to_bytes(2, "little") + b"s" + bytes(1)
    # from 0: what is sent; 1024: its name; 2048: mmsghdr; 3072: iovec; 3584: control
    put(0, b"of the caller")
    put(1024, name)
    put(3072, ADDRESS, 13)
    put(2048, ADDRESS + 1024, len(name), ADDRESS + 3072, 1, 0, 0, 0, 0)
    if kind == "rights":
        put(3584, 20, (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + (9).to_bytes(8, "little"))
        put(2048, 0, 0, ADDRESS + 3072, 1, ADDRESS + 3584, 24)
    if kind in ("sendto", "path"):
        libc.syscall(NR["sendto"], s.fileno(), ADDRESS, 13, 0, ADDRESS + 1024, len(name))
    elif kind == "sendmmsg":
        libc.syscall(NR["sendmmsg"], s.fileno(), ADDRESS + 2048, 1, 0, 0, 0)
    else:
        libc.syscall(NR["sendmsg"], s.fileno(), ADDRESS + 2048, 0, 0, 0, 0)

for line in sys.stdin.buffer:
    pid = os.fork()
    if not pid:
        calls()
        os._exit(0)
    os.waitpid(pid, 0)
    try:
        data, fds, _, _ = socket.recv_fds(server, 100, 1)
        got = [data.decode("latin-1"), *(os.read(fd, 100).decode("latin-1") for fd in fds)]
        for fd in fds:
            os.close(fd)
    except TimeoutError:
        got = None
    print(json.dumps(got), flush=True)
"""
PLAIN = {"sendto": ["of the caller"], "sendmmsg": ["of the caller"], "path": None, "rights": ["of the caller", ""]}
FEWEST = 5  # system calls for one call on behalf


def attacked(kind: str) -> dict[str, Any]:
    directory = tempfile.mkdtemp()
    try:
        done = subprocess.run(
            [*IN_A_NAMESPACE, sys.executable, str(ATTACK), HOST, CAGED, kind, directory],
            capture_output=True, text=True, timeout=120 * SLOWNESS,
        )  # fmt: skip
    finally:
        shutil.rmtree(directory)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.skipif(not os.path.exists("/proc/sys/kernel/ns_last_pid"), reason="no number can be chosen")
@pytest.mark.skipif(not os.path.exists(PYTHON), reason="no system Python")
@pytest.mark.parametrize("kind", PLAIN)
def test_nothing_of_the_next_process_with_the_number_is_met(kind: str) -> None:
    """Control: nobody is replaced, and what was sent arrives; and whoever goes by the number meets the other process.
    Evidence: it was not written to, nothing of it was received in the cage, and its socket has received nothing."""
    found = attacked(kind)
    rounds = found["rounds"]
    assert found["got"] == PLAIN[kind]
    assert len(rounds) >= FEWEST and all(each["by_number"] for each in rounds)
    assert [each["at"] for each in rounds if not each["untouched"]] == []
    assert [each["at"] for each in rounds if each["received"] is not None] == []
    assert [each["at"] for each in rounds if OTHER_S in "".join(each["got"] or [])] == []
