"""Claim: however many descriptors a cage passes along at once, in one call or in several, the host program has some
left to open its own files with.

A message that is sent on behalf has its descriptors borrowed for as long as it takes. The host is a program of its own
with the usual soft limit of 1024.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from .harness import PATIENCE, program

ATTACK = """
    import array, socket, threading, time

    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    class Message(ctypes.Structure):
        _fields_ = [("name", ctypes.c_void_p), ("name_size", ctypes.c_uint), ("vectors", ctypes.c_void_p),
                    ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_size", ctypes.c_size_t),
                    ("flags", ctypes.c_size_t), ("sent", ctypes.c_size_t)]

    MANY = 253  # SCM_MAX_FD
    data = ctypes.create_string_buffer(b"x")
    vector = Vector(ctypes.addressof(data), 1)
    control = ctypes.create_string_buffer(
        (16 + 4 * MANY).to_bytes(8, "little") + (1).to_bytes(4, "little") * 2
        + array.array("i", [os.open("/dev/null", os.O_RDONLY)] * MANY).tobytes() + bytes(4)
    )
    one = Message(None, 0, ctypes.addressof(vector), 1, ctypes.addressof(control), 16 + 4 * MANY, 0, 0)
    messages = (Message * 64)(*[one] * 64)
    most, whole = 0, 0
    until = time.monotonic() + 4

    def drain(there):  # without room for them: the kernel closes what has arrived
        while there.recv(1):
            pass

    def send():
        global most, whole
        here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        threading.Thread(target=drain, args=(there,)).start()
        while time.monotonic() < until:
            sent = libc.syscall(NR["sendmmsg"], here.fileno(), messages, 64, 0)
            most, whole = max(most, sent), whole + (sent > 0)
        here.close()

    threads = [threading.Thread(target=send) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    say("at once", most)
    say("sent", whole)
"""
HOST = """
import json, os, resource, sys, threading
from pysandbox import Cage, Policy
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
found = {"opened": 0, "refused": 0, "most": 0, "said": []}
over = threading.Event()
def opens():
    while not over.wait(0.0005):
        try:
            os.close(os.open("/dev/null", os.O_RDONLY))
            found["opened"] += 1
        except OSError:
            found["refused"] += 1
        try:
            found["most"] = max(found["most"], len(os.listdir("/proc/self/fd")))
        except OSError:
            pass
with Cage(Policy(allow_ips=["192.0.2.1"])) as one, Cage(Policy(allow_ips=["192.0.2.1"])) as two:
    looker = threading.Thread(target=opens)
    looker.start()
    running = [each.spawn(json.loads(sys.argv[1]), stdout=-1, text=True) for each in (one, two)]
    found["said"] = [each.communicate()[0] for each in running]
    over.set()
    looker.join()
print(json.dumps(found))
"""


def test_a_host_opens_its_files_while_messages_carry_descriptors() -> None:
    """Control: messages with 253 descriptors arrive. Evidence: not one open of the host's was refused, and it never had
    more than half of what it may have."""
    argv = [sys.executable, "-c", HOST, json.dumps(program(ATTACK))]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    said = [json.loads(line) for text in found["said"] for line in text.splitlines()]
    assert all(each["value"] >= 1 for each in said), said
    assert max(each["value"] for each in said if each["try"] == "at once") == 1
    assert found["opened"] > 100 and found["refused"] == 0
    assert found["most"] <= 1024 // 2 + 64
