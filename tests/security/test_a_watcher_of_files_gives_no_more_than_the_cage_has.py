"""Claim: what the supervisor opens for a program under watch=["file"] is what the kernel would open for it without: no
file is made or written that the cage may not, nothing shows what is the host's, and nothing that is found keeps the
supervisor waiting.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from pysandbox import Cage, Event
from pysandbox.runtime.runtime import Runtime

from .harness import Report, caged, in_cage, policy, program

W, C, X, T = os.O_WRONLY, os.O_CREAT, os.O_EXCL, os.O_TRUNC
WRITES = {
    "make in the root": ("/x", W | C), "make in etc": ("/etc/x", W | C), "make in dev": ("/dev/x", W | C),
    "make exclusively": ("/etc/y", W | C | X), "make to read": ("/etc/z", C), "make in proc": ("/proc/x", W | C),
    "through a link": ("/tmp/to-etc", W | C), "through a link beside": ("/tmp/aside", W | C),
    "through a directory": ("/tmp/etc/new", W | C), "unnamed in etc": ("/etc", W | os.O_TMPFILE),
    "write a file of the host": ("/etc/passwd", W), "empty a file of the host": ("/etc/passwd", W | T),
    "empty it by reading": ("/etc/passwd", os.O_RDONLY | T), "write what was granted to read": ("GRANT/file", W),
    "empty it": ("GRANT/file", W | T), "make beside it": ("GRANT/new", W | C),
    "an own sysctl": ("/proc/sys/vm/swappiness", W),
    "read": ("GRANT/file", os.O_RDONLY), "list": ("/etc", os.O_RDONLY | os.O_DIRECTORY), "list all": ("/", os.O_RDONLY),
    "make in tmp": ("/tmp/new", W | C), "again": ("/tmp/new", W | C | X), "again, empty": ("/tmp/new", W | C | T),
    "a new file through a link": ("/tmp/dangling", W | C), "a link to itself": ("/tmp/loop", W | C),
    "a directory": ("/tmp/d", W | C), "below a file": ("/tmp/new/x", W | C), "ends in a slash": ("/tmp/none/", W | C),
    "exclusively a link": ("/tmp/dangling2", W | C | X), "unnamed in tmp": ("/tmp", os.O_RDWR | os.O_TMPFILE),
    "a device": ("/dev/zero", os.O_RDONLY), "absent": ("/tmp/absent", W),
}  # fmt: skip
MAKE = """
    import stat
    os.umask(0)
    os.mkdir("/tmp/d")
    for link, target in {"to-etc": "/etc/passwd2", "aside": "../etc/aside", "etc": "/etc", "dangling": "made",
                         "dangling2": "made2", "loop": "loop"}.items():
        os.symlink(target, "/tmp/" + link)
    for name, (path, flags) in CASES.items():
        attempt(name, lambda: os.close(os.open(path, flags, 0o666)))
"""


def allow(event: object, context: object) -> None:
    """Everything."""


def both_ways(argv: list[str], **options: object) -> tuple[Report, Report]:
    return caged(argv, policy(**options)), in_cage_watched(argv, **options)


def in_cage_watched(argv: list[str], **options: object) -> Report:
    with Cage(policy(**options), policy_fn=allow, watch=["file"]) as cage:
        return in_cage(cage, argv)


def test_what_is_opened_is_what_the_kernel_opens(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    cases = {name: (path.replace("GRANT", str(tmp_path)), flags) for name, (path, flags) in WRITES.items()}
    without, watched = both_ways(program(MAKE, CASES=cases), allow=[str(tmp_path)])

    differing = {name: (each.errno, watched[name].errno) for name, each in without.attempts.items()
                 if (each.errno is None) != (watched[name].errno is None)}  # fmt: skip
    assert differing == {}
    assert {"make in tmp", "read", "list"} <= {name for name, each in watched.attempts.items() if each.errno is None}
    assert {"make in the root", "make in etc", "empty it"}.isdisjoint(
        name for name, each in watched.attempts.items() if each.errno is None
    )
    assert (tmp_path / "file").read_text() == "kept" and os.listdir(tmp_path) == ["file"]


HOST = """
    def read(path):
        with open(path) as file: return file.read()
    for name, path in PATHS.items():
        attempt(name, lambda: read(path))
"""
OF_THE_HOST = {
    "segments": "/proc/sysvipc/shm", "queues": "/proc/sysvipc/msg",
    "interfaces": "/proc/sys/net/ipv4/conf/all/forwarding",
    "backlog": "/proc/sys/net/core/somaxconn", "largest segment": "/proc/sys/kernel/shmmax",
    "users": "/proc/sys/user/max_user_namespaces", "message queues": "/proc/sys/fs/mqueue/queues_max",
    "dotted": "/proc/sys/vm/../net/core/somaxconn", "doubled": "/proc//sys//net/core/somaxconn",
}  # fmt: skip
SAME = {"memory": "/proc/meminfo", "processors": "/proc/cpuinfo", "overcommit": "/proc/sys/vm/overcommit_memory",
        "name": "/proc/sys/kernel/hostname", "own sockets": "/proc/net/unix",
        "status": "/proc/self/status"}  # fmt: skip


def test_what_depends_on_who_looks_is_not_shown_as_the_host_sees_it() -> None:
    libc = ctypes.CDLL(None)
    segment = libc.shmget(0, 4096, 0o1600)
    try:
        report = in_cage_watched(program(HOST, PATHS={**OF_THE_HOST, **SAME}))
    finally:
        libc.shmctl(segment, 0, None)
    refused = {name for name, each in report.attempts.items() if each.errno in ("EACCES", "ENOENT")}
    assert refused == set(OF_THE_HOST)
    assert report["name"].value != os.uname().nodename


NAMES = """
    os.symlink("/proc/sys/net/ipv4/conf", "/tmp/conf")
    for name in ("lo", "none0"):
        for number, path in enumerate(("/proc/sys/net/ipv4/conf/%s", "/proc/sys/net/ipv4/conf/%s/forwarding",
                                       "/tmp/conf/%s/forwarding", "/proc/sys/net/ipv4/neigh/%s/mcast_solicit")):
            attempt(f"{name} {number}", lambda: os.close(os.open(path % name, os.O_RDONLY)))
            attempt(f"{name} {number} as it is", lambda: os.close(os.open(path % name, os.O_RDONLY | os.O_NOFOLLOW)))
    attempt("elsewhere", lambda: open("/proc/none"))
"""


def test_whether_the_host_has_an_interface_is_not_told_by_the_error() -> None:
    report = in_cage_watched(program(NAMES))
    errors = {name: each.errno for name, each in report.attempts.items()}
    assert errors.pop("elsewhere") == "ENOENT"
    assert set(errors.values()) == {"EACCES"}, errors


SHADY = """
    import socket, threading
    os.chdir("/tmp")
    os.mkfifo("fifo")
    listener = socket.socket(socket.AF_UNIX); listener.bind("socket"); listener.listen()
    sealed = os.open("/etc/passwd", os.O_RDONLY)
    for name, path, flags in [
        ("fifo", "fifo", os.O_RDONLY), ("fifo to write", "fifo", os.O_WRONLY), ("socket", "socket", os.O_RDWR),
        ("terminal", "/dev/tty", os.O_RDWR), ("init's memory", "/proc/1/mem", os.O_RDWR),
        ("own memory", "/proc/self/mem", os.O_RDWR), ("own memory by number", f"/proc/{os.getpid()}/mem", os.O_RDONLY),
        ("a thread's memory", "/proc/thread-self/mem", os.O_RDONLY),
        ("more of a descriptor", f"/proc/self/fd/{sealed}", os.O_RDWR),
        ("another root", "/proc/1/root/etc/passwd", os.O_RDONLY),
        ("own root", "/proc/self/root/etc/shadow", os.O_RDONLY),
        ("kernel memory", "/proc/kcore", os.O_RDONLY), ("disk", "/dev/sda", os.O_RDONLY),
    ]:
        attempt(name, lambda: os.close(os.open(path, flags)))
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 1, 64))
    def fill():
        held = []
        while True: held.append(os.open("/dev/null", os.O_RDONLY))
    attempt("descriptors", fill)
"""


def test_nothing_that_is_found_holds_the_supervisor_up_or_gives_more() -> None:
    events: list[Event] = []
    runtime = Runtime(sink=events.append, warm=0)
    with Cage(policy(), runtime=runtime, policy_fn=allow, watch=["file"]) as cage:
        report = in_cage(cage, program(SHADY))
    assert report.differs({
        "fifo": "EACCES", "fifo to write": "EACCES", "socket": "ENXIO", "terminal": "ENXIO", "init's memory": "EACCES",
        "own memory": "EACCES", "own memory by number": "EACCES", "a thread's memory": "EACCES",
        "more of a descriptor": "EACCES", "another root": ("EXDEV", "EACCES", "ELOOP"),
        "own root": ("EXDEV", "EACCES", "ELOOP", "ENOENT"), "kernel memory": ("EACCES", "ENOENT"), "disk": "ENOENT",
        "descriptors": "EMFILE",
    }) == {}  # fmt: skip
    assert not [event for event in events if event.type in ("cage.callback_failed", "cage.supervisor_failed")]
    runtime.drain()
