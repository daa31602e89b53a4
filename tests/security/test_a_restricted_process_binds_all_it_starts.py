"""Claim: restrict_pid_network binds a process and all it ever starts, however it hides whose child that is; its
siblings go on.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess

import pytest

import pysandbox
from pysandbox import Cage

from .harness import PYTHON, policy

HEAD = '''
import ctypes, os, socket, sys
port = int(sys.argv[1])
def dial():
    try:
        with socket.create_connection(("127.0.0.1", port)): return "open"
    except OSError as error: return str(error.errno)
libc = ctypes.CDLL(None)
AGAIN = """import os, socket, sys
try: socket.create_connection(("127.0.0.1", int(sys.argv[1]))); said = b"open"
except OSError as error: said = str(error.errno).encode()
os.write(9, said)"""
print("ready", flush=True); sys.stdin.readline()
r, w = os.pipe()
def child(): os.write(w, dial().encode()); os._exit(0)
'''
WAYS = {
    "itself": "os.write(w, dial().encode())",
    "a child": "\nif os.fork() == 0: child()",
    "an orphan": "\nif os.fork() == 0:\n  if os.fork() == 0: child()\n  os._exit(0)\nos.wait()",
    "a session of its own": "\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0: child()\n  os._exit(0)",
    "a child of the parent": "\nif libc.syscall(56, 0x8000 | 17, 0, 0, 0, 0) == 0: child()",
    "below a subreaper": "\nlibc.prctl(36, 1, 0, 0, 0)\nif os.fork() == 0:\n  os.fork() or child()\n  os._exit(0)",
    "with a lower limit": "\nimport resource\nresource.setrlimit(10, (5, 5))\nif os.fork() == 0: child()",
    "after an exec": """
if os.fork() == 0:
    os.dup2(w, 9)
    os.execv(sys.executable, [sys.executable, "-c", AGAIN, str(port)])
""",
}
TAIL = "\nprint(os.read(r, 9).decode(), flush=True)"


def inner(process: pysandbox.Process, cage: Cage) -> int:
    """The host's number of a command: the only process of the cage that has its argument."""
    (pid,) = [
        int(name)
        for name in os.listdir("/proc")
        if name.isdigit() and f"PPid:\t{cage.init_pid}\n" in _status(name) and _reads(name, process)
    ]
    return pid


def _status(name: str) -> str:
    try:
        with open(f"/proc/{name}/status", encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _reads(name: str, process: pysandbox.Process) -> bool:
    with open(f"/proc/{name}/cmdline", "rb") as file:
        return os.fsencode(process.argv[-1]) == file.read().split(b"\0")[-2]


@pytest.mark.parametrize("way", WAYS)
def test_no_descendant_connects(way: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        source = HEAD + WAYS[way] + TAIL
        rules = policy("landlock", allow_ips=[f"127.0.0.1:{port}/tcp"])
        pipes = {"stdin": pysandbox.PIPE, "stdout": pysandbox.PIPE}
        with Cage(rules) as cage:
            argv = [PYTHON, "-I", "-S", "-c", source, str(port)]
            with cage.spawn([*argv, "bound"], **pipes) as bound, cage.spawn([*argv, "free"], **pipes) as free:
                assert bound.stdout is not None and free.stdout is not None
                assert bound.stdout.readline() == free.stdout.readline() == b"ready\n"
                cage.context.restrict_pid_network(inner(bound, cage), [])
                assert bound.communicate(b"\n", timeout=30)[0] == str(errno.EPERM).encode() + b"\n"
                expected = b"open\n" if way != "with a lower limit" else str(errno.EPERM).encode() + b"\n"
                assert free.communicate(b"\n", timeout=30)[0] == expected


@pytest.mark.parametrize("way", WAYS)
def test_uncaged_each_way_connects(way: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        argv = [PYTHON, "-I", "-S", "-c", HEAD + WAYS[way] + TAIL, str(server.getsockname()[1]), "x"]
        shell = ["sh", "-c", '"$@"; true', "sh"]  # so that a child of the parent is not this process's
        done = subprocess.run([*shell, *argv], input="\n", capture_output=True, text=True, timeout=30)
        assert done.stdout == "ready\nopen\n", done.stderr
