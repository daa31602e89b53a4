"""Programs whose memory nobody may open (prctl PR_SET_DUMPABLE, a file that may be executed and not read): what they
send is sent on their behalf as anybody's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from _support.cage import PRELUDE, PYTHON, cage_python, reported, uncaged_python
from _support.nameserver import A, NameServer
from pysandbox import Cage, Policy
from pysandbox.policy.host import HostRule
from pysandbox.runtime.runtime import Runtime

SENDS = """
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)

class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_char_p), ("size", ctypes.c_size_t)]

class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_size", ctypes.c_uint), ("vectors", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_size", ctypes.c_size_t),
                ("flags", ctypes.c_size_t), ("sent", ctypes.c_uint)]

def send_two():
    server, client = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    server.bind(("127.0.0.1", 0))
    server.settimeout(10)
    client.connect(server.getsockname())
    vectors = [Vector(b"one", 3), Vector(b"three", 5)]
    messages = (Message * 2)(*[Message(None, 0, ctypes.addressof(each), 1, None, 0, 0, 99) for each in vectors])
    sent = libc.sendmmsg(client.fileno(), messages, 2, 0)
    error = ctypes.get_errno() if sent < 0 else 0
    return [sent, error, [each.sent for each in messages], [server.recv(9).decode() for _ in range(max(sent, 0))]]

def is_open_to_itself():  # one that may not be dumped has its files in /proc owned by root
    return os.stat("/proc/self/mem").st_uid == os.getuid()
"""
OF_ONE_THAT_SAYS_SO = SENDS + "\nlibc.prctl(4, 0, 0, 0, 0)\nreport([is_open_to_itself(), send_two()])"
WHOLE = [2, 0, [3, 5], ["one", "three"]]
RESOLVES = """
import ctypes, socket
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
found = socket.getaddrinfo("a.test", 80, type=socket.SOCK_STREAM)  # both families: two questions by one sendmmsg
report([each[4][0] for each in found])
"""
GRANTED = Policy(allow_ips=["192.0.2.1"], run_as="self")


def test_what_they_send_is_sent_and_its_lengths_are_told() -> None:
    assert uncaged_python(OF_ONE_THAT_SAYS_SO) == [False, WHOLE]
    assert cage_python(GRANTED, OF_ONE_THAT_SAYS_SO) == [False, WHOLE]


def test_so_is_what_a_program_sends_that_may_be_executed_and_not_read(tmp_path: Path) -> None:
    program = tmp_path / "python"
    shutil.copy(PYTHON, program)
    program.chmod(0o111)
    source = PRELUDE + SENDS + "\nreport([is_open_to_itself(), send_two()])"
    policy = Policy(allow_ips=["192.0.2.1"], run_as="self", allow=[str(tmp_path)])
    with Cage(policy) as cage:
        result = cage.run([str(program), "-S", "-c", source], env={"PYTHONHOME": "/usr"}, timeout=30)
    assert reported(result.stdout, result.stderr) == [False, WHOLE]


@pytest.mark.guest
def test_a_name_resolves_for_them() -> None:
    with NameServer({("a.test", A): ["127.0.0.1"]}) as server:
        runtime = Runtime(nameservers=[server.place])
        policy = Policy(egress="proxy-only", hosts=[HostRule(domain="a.test")], allow_ips=["192.0.2.1"])
        (found,) = cage_python(Cage(policy, runtime=runtime), RESOLVES)
        runtime.drain()
    assert found.startswith("198.18.1.")
