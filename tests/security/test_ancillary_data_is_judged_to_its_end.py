"""Claim: what is sent beside a message is judged to its last byte, as the kernel reads it: a descriptor number in there
is never one of the supervisor's, which sends it, and no part of it chooses a source.

The last part is not padded, which the kernel takes and not every reader sees.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

from _support.outside import LISTED, outside

from .harness import Report, caged, policy, program, token, uncaged

ATTACK = """
    import socket, struct

    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    class Message(ctypes.Structure):
        _fields_ = [("name", ctypes.c_void_p), ("name_size", ctypes.c_uint), ("vectors", ctypes.c_void_p),
                    ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_size", ctypes.c_size_t),
                    ("flags", ctypes.c_int)]

    def part(level, kind, data):
        return struct.pack("=Qii", 16 + len(data), level, kind) + data

    def send(s, *parts):
        padded = [each + bytes(-len(each) % 8) for each in parts[:-1]]
        control = b"".join([*padded, parts[-1]])
        data, room = ctypes.create_string_buffer(b"ping"), ctypes.create_string_buffer(control, len(control))
        vector = Vector(ctypes.addressof(data), 4)
        message = Message(None, 0, ctypes.addressof(vector), 1, ctypes.addressof(room), len(control), 0)
        if libc.syscall(NR["sendmsg"], s.fileno(), ctypes.byref(message), 0) < 0:
            raise OSError(ctypes.get_errno(), "")

    def descriptor(number):
        return part(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("=i", number))

    def passed(number):
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        with open("/dev/null") as null:
            send(a, descriptor(null.fileno()), descriptor(number))
        fds = socket.recv_fds(b, 10, 10)[1]
        return [os.pread(fd, 100, 0).decode("latin-1") for fd in fds[1:]]

    def sent(kind, data):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect((LISTED, PORT))
            send(s, part(socket.SOL_IP, 2, struct.pack("=i", 9)), part(socket.SOL_IP, kind, data))

    own = os.open(os.environ.get("TMPDIR", "/tmp") + "/psb-own", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    os.unlink(os.environ.get("TMPDIR", "/tmp") + "/psb-own")
    os.write(own, b"my own")
    attempt("own", passed, own)
    attempt("the host's", passed, SECRET)
    attempt("source", sent, 8, struct.pack("=i4s4s", 0, socket.inet_aton(LISTED), bytes(4)))
"""


def attack(cage: bool, directory: str) -> dict[str, Any]:
    """What came over. The secret is open in the host, under a number that no program in the cage has a file at."""
    said = token()
    secret = Path(directory, "secret")
    secret.write_text(said)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server, secret.open() as file:
        server.bind((LISTED, 0))
        number = 700
        os.dup2(file.fileno(), number, inheritable=not cage)
        argv = program(ATTACK, LISTED=LISTED, PORT=server.getsockname()[1], SECRET=number)
        report: Report = caged(argv, policy(allow_ips=[LISTED])) if cage else uncaged(argv, pass_fds=[number])
        os.close(number)
    stolen = said in str(report.attempts.get("the host's"))
    return {"stolen": stolen, "stderr": report.stderr, "own": report["own"].value,
            "errnos": {name: each.errno for name, each in report.attempts.items()}}  # fmt: skip


def test_the_last_part_is_judged_as_the_first(tmp_path: Path) -> None:
    said = outside(attack, True, str(tmp_path))
    assert (said["stderr"], said["own"], said["stolen"]) == ("", ["my own"], False)
    assert said["errnos"] == {"own": None, "the host's": "EBADF", "source": "EPERM"}


def test_uncaged_the_kernel_takes_all_of_it(tmp_path: Path) -> None:
    said = outside(attack, False, str(tmp_path))
    assert (said["stderr"], said["own"], said["stolen"]) == ("", ["my own"], True)
    assert said["errnos"] == {"own": None, "the host's": None, "source": None}


LIES = """
    null = os.open("/dev/null", os.O_RDONLY)
    os.close(0)  # what lies behind the message is mostly zeros, and 0 is nobody's
    def lying(size):
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        send(a, struct.pack("=Qiii", size, socket.SOL_SOCKET, socket.SCM_RIGHTS, null))
    for size in (20, 0, 8, 15, 21, 24, 1000, 9000, 1 << 63):
        attempt(str(size), lying, size)
"""


def test_a_part_that_says_another_size_than_it_has_is_as_invalid_as_the_kernel_has_it() -> None:
    argv = program(ATTACK.partition("    def passed")[0], LIES)
    control, attacked = uncaged(argv), caged(argv, policy(scm_rights="deny"))
    expected = dict.fromkeys(control.attempts, "EINVAL") | {"20": None}
    assert control.differs(expected) == {}
    assert attacked.differs(dict.fromkeys(control.attempts, "EPERM")) == {}  # nothing of it is read
    assert caged(argv, policy(allow_ips=[LISTED])).differs(expected) == {}
