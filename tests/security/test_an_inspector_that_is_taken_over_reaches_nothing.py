"""Claim: code that runs in the inspector, or in the reader of the doors, opens no file, makes no socket, connection,
process or program, and reaches no other process, by any way that is tried here."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

TRIES = r"""
import ctypes, errno, fcntl, json, mmap, resource, os, signal, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
listener = socket.create_server(("127.0.0.1", 0))
other = socket.create_server(("127.0.0.1", 0))
reset = socket.create_connection(listener.getsockname())
accepted = listener.accept()[0]
accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
accepted.close()
victim = int(sys.argv[2])
confined = sys.argv[1] != "free"
if confined:
    from pysandbox._native import lib
    assert getattr(lib, "psb_confine_" + sys.argv[1])() == 0

def call(*arguments):
    if libc.syscall(*[ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]) < 0:
        raise OSError(ctypes.get_errno(), "refused")

def execute():
    call(NR["execve"], b"/bin/true", None, None) if confined else None

def fast_open():
    "A socket that was reset connects once more, to another address."
    try:
        reset.recv(1)
    except ConnectionResetError:
        pass
    reset.sendto(b"x", socket.MSG_FASTOPEN, other.getsockname())

def raw():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 17) if confined else None

def map_code():
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)

NR = json.loads(sys.argv[3])
TRIES = {
    "open": lambda: os.open("/etc/passwd", os.O_RDONLY), "open a path": lambda: os.open("/etc", os.O_PATH),
    "list": lambda: os.listdir("/"), "stat": lambda: os.stat("/etc/passwd"), "memfd": lambda: os.memfd_create("x"),
    "socket": lambda: socket.socket(), "pair": lambda: socket.socketpair(),
    "connect": lambda: reset.connect(other.getsockname()), "fast open": fast_open, "accept": lambda: listener.accept(),
    "listen": lambda: reset.listen(), "fork": lambda: os.fork() or os._exit(0), "execute": execute,
    "thread": lambda: call(NR["clone3"], 0, 0) if confined else None,
    "signal": lambda: os.kill(victim, 0), "trace": lambda: call(NR["ptrace"], 16, victim, 0, 0),
    "read memory": lambda: open(f"/proc/{victim}/mem", "rb"), "pidfd": lambda: os.pidfd_open(victim),
    "unshare": lambda: call(NR["unshare"], 0), "chmod": lambda: os.fchmod(listener.fileno(), 0o600),
    "executable memory": map_code, "io_uring": lambda: call(NR["io_uring_setup"], 0, 0),
    "prctl": lambda: call(NR["prctl"], 4, 1, 0, 0, 0), "duplicate": lambda: os.dup(1),
    "name an option": lambda: reset.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    "another option": lambda: reset.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 9),
    "an option of sockets": lambda: reset.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    "a unix socket": lambda: socket.socket(socket.AF_UNIX), "a raw socket": raw,
    "own a descriptor": lambda: fcntl.fcntl(listener, fcntl.F_SETOWN, os.getpid()),
    "bind": lambda: reset.bind(("127.0.0.1", 0)), "limits": lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
}
said = {}
for name, attempt in TRIES.items():
    try:
        attempt()
        said[name] = None
    except OSError as error:
        said[name] = errno.errorcode.get(error.errno, "?")
os.write(1, json.dumps(said).encode())
os._exit(0)
"""
OF_THE_KERNEL = (
    "read memory",
    "connect",
    "accept",
    "listen",
    "thread",
    "io_uring",
    "bind",
    "trace",
)  # may fail without any confinement


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> dict[str, str | None]:
    from .harness import syscall_numbers

    numbers = {name: syscall_numbers()[name] for name in
               ("execve", "clone3", "ptrace", "unshare", "io_uring_setup", "prctl")}  # fmt: skip
    with subprocess.Popen(["sleep", "60"]) as victim:
        try:
            script = TRIES.replace("listener.accept(),", "(listener.setblocking(False), listener.accept()),")
            done = subprocess.run(
                [sys.executable, "-c", script, request.param, str(victim.pid), json.dumps(numbers)],
                capture_output=True, text=True, timeout=30,
            )  # fmt: skip
        finally:
            victim.kill()
    assert done.returncode == 0, done.stderr
    said: dict[str, str | None] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize("tried", ["free"], indirect=True)
def test_a_program_that_is_not_confined_can_do_it(tried: dict[str, str | None]) -> None:
    """The control."""
    assert {name for name, refused in tried.items() if refused} <= set(OF_THE_KERNEL) | {"fast open"}, tried


@pytest.mark.parametrize("tried", ["inspector"], indirect=True)
def test_the_inspector_can_do_none_of_it(tried: dict[str, str | None]) -> None:
    assert len(tried) >= 30
    wrong = {name: refused for name, refused in tried.items() if refused not in ("EPERM", "EACCES")}
    assert wrong == {}


@pytest.mark.parametrize("tried", ["reader"], indirect=True)
def test_the_reader_can_only_accept_where_it_was_given_a_door(tried: dict[str, str | None]) -> None:
    """And what a stream of its needs: another descriptor of it, and to send small messages at once."""
    wrong = {name: refused for name, refused in tried.items() if refused not in ("EPERM", "EACCES")}
    assert wrong == {"accept": "EAGAIN", "duplicate": None, "name an option": None}
