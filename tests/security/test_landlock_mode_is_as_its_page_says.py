"""Claim: docs/landlock-mode.md is true to the letter: what a row of it calls closed is refused, in every way that is
known, and what it calls open is all that works.

One table a row; its name is a phrase of the page. A new way is one more line.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from _support.tree import REPOSITORY

from .conftest import Ground, ground_in
from .harness import Report, Victim, caged, policy, program, uncaged, victim

pytestmark = [pytest.mark.guest, pytest.mark.landlock(6)]

PAGE = " ".join((REPOSITORY / "docs" / "landlock-mode.md").read_text(encoding="utf-8").split())

TOOLS = """
    import fcntl, socket, struct, time
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    room, sched = (ctypes.c_uint64 * 64)(24), (ctypes.c_uint32 * 14)(48)
    def raw(number, *given):
        if libc.syscall(ctypes.c_long(number), *given) < 0:
            raise OSError(ctypes.get_errno(), "")
    def plain(flags=os.O_RDONLY):
        return os.open(PLAIN, flags)
    def signal_by_file(kind):
        r, w = os.pipe()
        if kind == "pipe":
            fcntl.fcntl(r, fcntl.F_SETOWN, VICTIM)
        else:
            fcntl.fcntl(r, 15, struct.pack("ii", 1, VICTIM))  # F_SETOWN_EX
        fcntl.fcntl(r, 10, int(signal.SIGURG))  # F_SETSIG
        fcntl.fcntl(r, fcntl.F_SETFL, fcntl.fcntl(r, fcntl.F_GETFL) | os.O_ASYNC)
        os.write(w, b"x")
    def netlink(kind, body, flags=0x301):
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as asks:
            asks.settimeout(10)
            asks.send(struct.pack("=IHHII", 16 + len(body), kind, flags, 1, 0) + body)
            said = asks.recv(1 << 16)
        if struct.unpack_from("=H", said, 4)[0] == 2 and struct.unpack_from("=i", said, 16)[0]:
            raise OSError(-struct.unpack_from("=i", said, 16)[0], "")
    def leased():
        held = plain()  # kept, it would hold up the next who opens the file for writing (fs.lease-break-time)
        fcntl.fcntl(held, 1024, fcntl.F_RDLCK)
        os.close(held)
    def pidfd():
        return call("pidfd_open", VICTIM, 0)
    def tried(ways):
        for name, way in ways.items():
            attempt(name, way)
"""

# phrase of the page: (what is tried, how it fails)
CLOSED: dict[str, tuple[str, dict[str, Any]]] = {
    "no signal": ("""
        "kill": lambda: os.kill(VICTIM, signal.SIGURG), "probe": lambda: os.kill(VICTIM, 0),
        "group": lambda: os.killpg(os.getpgid(VICTIM), signal.SIGURG),
        "tkill": lambda: call("tkill", VICTIM, 23), "tgkill": lambda: call("tgkill", VICTIM, VICTIM, 23),
        "queue": lambda: call("rt_sigqueueinfo", VICTIM, 23, (ctypes.c_int * 32)(23, 0, -1)),
        "pidfd": lambda: call("pidfd_send_signal", pidfd(), 23, 0, 0),
    """, {}),
    "no tracing, no memory": ("""
        "ptrace": lambda: call("ptrace", 16, VICTIM, 0, 0), "seize": lambda: call("ptrace", 0x4206, VICTIM, 0, 0),
        "read": lambda: call("process_vm_readv", VICTIM, room, 1, room, 1, 0),
        "write": lambda: call("process_vm_writev", VICTIM, room, 1, room, 1, 0),
        "mem": lambda: content(f"/proc/{VICTIM}/mem"), "environ": lambda: content(f"/proc/{VICTIM}/environ"),
        "maps": lambda: content(f"/proc/{VICTIM}/maps"), "cwd": lambda: os.readlink(f"/proc/{VICTIM}/cwd"),
        "exe": lambda: os.readlink(f"/proc/{VICTIM}/exe"), "ns": lambda: os.readlink(f"/proc/{VICTIM}/ns/net"),
        "root": lambda: os.stat(f"/proc/{VICTIM}/root/etc"), "fds": lambda: os.listdir(f"/proc/{VICTIM}/fd"),
        "kcmp": lambda: call("kcmp", VICTIM, os.getpid(), 0, 0, 0),
        "getfd": lambda: call("pidfd_getfd", pidfd(), 0, 0),
        "robust": lambda: call("get_robust_list", VICTIM, room, room),
        "advise": lambda: call("process_madvise", pidfd(), room, 1, 20, 0),
        "release": lambda: call("process_mrelease", pidfd(), 0),
        "pages": lambda: call("move_pages", VICTIM, 0, 0, 0, 0, 0),
        "nodes": lambda: call("migrate_pages", VICTIM, 1, room, room),
        "perf": lambda: call("perf_event_open", (ctypes.c_uint32 * 32)(1, 128), VICTIM, -1, -1, 0),
    """, {"mem": "EACCES", "environ": "EACCES", "maps": "EACCES", "cwd": "EACCES", "exe": "EACCES", "ns": "EACCES",
          "root": "EACCES", "fds": "EACCES", "advise": ("EPERM", "EACCES")}),
    "no scheduling, no resource limits": ("""
        "nice": lambda: os.setpriority(os.PRIO_PROCESS, VICTIM, 19),
        "nice group": lambda: os.setpriority(os.PRIO_PGRP, os.getpgid(VICTIM), 19),
        "nice user": lambda: os.setpriority(os.PRIO_USER, 0, 19),
        "affinity": lambda: os.sched_setaffinity(VICTIM, {0}),
        "policy": lambda: os.sched_setscheduler(VICTIM, os.SCHED_BATCH, os.sched_param(0)),
        "attributes": lambda: call("sched_setattr", VICTIM, sched, 0),
        "disk": lambda: call("ioprio_set", 1, VICTIM, 3 << 13),
        "limit": lambda: call("prlimit64", VICTIM, 7, 0, room), "group of": lambda: os.setpgid(VICTIM, 0),
        "autogroup": lambda: overwrite(f"/proc/{VICTIM}/autogroup"),
        "oom": lambda: overwrite(f"/proc/{VICTIM}/oom_score_adj"),
    """, {"group of": "ESRCH", "autogroup": "EACCES", "oom": "EACCES"}),
    "no UDP, no other protocol": ("""
        **{str(each): lambda each=each: call("socket", *each) for each in (
            (2, 2, 0), (10, 2, 0), (2, 2, 1), (10, 2, 58), (2, 3, 1), (10, 3, 58), (17, 3, 3), (17, 2, 3), (2, 1, 262),
            (2, 1, 132), (2, 2, 136), (40, 1, 0), (40, 2, 0), (38, 5, 0), (31, 3, 1), (29, 3, 1), (30, 2, 0),
            (44, 3, 0), (43, 1, 0), (41, 2, 0), (15, 3, 2), (21, 5, 0), (9, 5, 0), (26, 2, 0), (39, 5, 0), (42, 2, 0),
            (45, 2, 0), (1, 2, 0), (1, 5, 0), (1, 3, 0), (16, 3, 2), (16, 3, 4), (16, 3, 6), (16, 3, 9), (16, 3, 10),
            (16, 3, 11), (16, 3, 12), (16, 3, 15), (16, 3, 16))}
    """, {}),
    "nothing can be bound, nothing listens": ("""
        "bind": lambda: socket.socket().bind(("127.0.0.1", 0)), "listen": lambda: socket.socket().listen(),
        "bind 6": lambda: socket.socket(socket.AF_INET6).bind(("::1", 0)),
        "connect": lambda: socket.create_connection(("127.0.0.1", PORT), 10),
        "fast": lambda: socket.socket().sendto(b"x", 0x20000000, ("127.0.0.1", PORT)),
        "address": lambda: netlink(20, struct.pack("=BBBBi", 2, 8, 0, 0, 1), 5),
        "link": lambda: netlink(16, struct.pack("=BxHiII", 0, 0, 1, 1, 1), 5),
    """, {"bind": "EACCES", "bind 6": "EACCES", "connect": "EACCES"}),
    "(System V, POSIX): none": ("""
        "segment": lambda: call("shmget", KEY, 4096, 0o1600),
        "semaphore": lambda: call("semget", KEY, 1, 0o1600),
        "queue": lambda: call("msgget", KEY, 0o1600), "attach": lambda: call("shmat", 0, 0, 0),
        "named": lambda: call("mq_open", OWN, os.O_RDWR | os.O_CREAT, 0o600, 0),
        "file": lambda: os.open("/dev/shm/" + OWN, os.O_RDWR | os.O_CREAT),
        "key": lambda: call("add_key", "user", "psb", b"x", 1, -4),
        "ask": lambda: call("request_key", "user", "psb", 0, 0),
        "control": lambda: call("keyctl", 0, -3, 0),
    """, {**dict.fromkeys(("segment", "semaphore", "queue", "attach", "named"), "ENOSYS"), "file": "EACCES"}),
    "(inotify, fanotify): not told": ("""
        "watch": lambda: call("inotify_add_watch", libc.inotify_init(), OUTSIDE, 0x100),
        "fanotify": lambda: call("fanotify_init", 0x200, 0),
        "signal": lambda: fcntl.fcntl(os.open(OUTSIDE, os.O_RDONLY), 1026, 1),
        "lease": leased,
    """, {"watch": "ENOSYS", "fanotify": "ENOSYS", "signal": "EACCES"}),
    "of a file, by its name or an open descriptor: not changed": ("""
        "owner": lambda: os.chown(SECRET, os.getuid(), -1), "held owner": lambda: os.fchown(plain(), os.getuid(), -1),
        "group": lambda: os.lchown(PLAIN, -1, os.getgid()),
        "attribute": lambda: os.setxattr(SECRET, "user.x", b"1"), "held": lambda: os.setxattr(plain(), "user.x", b"1"),
        "away": lambda: os.removexattr(plain(), "user.x"),
        "flags": lambda: fcntl.ioctl(plain(), 0x40086602, struct.pack("l", 0x80)),
        "project": lambda: fcntl.ioctl(plain(), 0x401C5820, bytes(28)),
        "seal": lambda: fcntl.ioctl(plain(), 0x40806685, bytes(128)),
        "encryption": lambda: fcntl.ioctl(os.open(INSIDE, os.O_RDONLY), 0x800C6613, bytes(12)),
        "subvolume": lambda: call("ioctl", os.open(INSIDE, os.O_RDONLY), 0x5000940E, bytes(4096)),
    """, {**dict.fromkeys(("attribute", "held", "away"), "ENOSYS"),
          **dict.fromkeys(("flags", "project", "seal", "encryption", "subvolume"), "ENOTSUP")}),
    "files: only what is granted": ("""
        "again": lambda: os.open(f"/proc/self/fd/{plain()}", os.O_RDWR),
        "read": lambda: content(SECRET), "list": lambda: os.listdir(OUTSIDE), "write": lambda: overwrite(PLAIN),
        "cut": lambda: os.truncate(PLAIN, 0), "cut outside": lambda: os.truncate(SECRET, 0),
        "link": lambda: os.link(SECRET, INSIDE + "/l"), "rename": lambda: os.rename(PLAIN, PLAIN + "2"),
        "remove": lambda: os.unlink(PLAIN), "pipe": lambda: os.mkfifo(INSIDE + "/f"),
        "symlink": lambda: os.symlink("x", INSIDE + "/s"), "make": lambda: os.mkdir(INSIDE + "/d"),
        "place": lambda: os.open(f"/proc/self/fd/{os.open(SECRET, os.O_PATH)}", os.O_RDONLY),
        "lock": lambda: fcntl.lockf(plain(), fcntl.LOCK_EX | fcntl.LOCK_NB),
        "lock a place": lambda: fcntl.flock(os.open(SECRET, os.O_PATH), fcntl.LOCK_EX | fcntl.LOCK_NB),
        "handle": lambda: call("name_to_handle_at", -100, SECRET, (ctypes.c_uint32 * 34)(128), room, 0),
        "by handle": lambda: call("open_by_handle_at", -100, (ctypes.c_uint32 * 34)(128), 0),
        "tty": lambda: os.open("/dev/tty", os.O_RDWR), "kvm": lambda: os.open("/dev/kvm", os.O_RDWR),
        "fuse": lambda: os.open("/dev/fuse", os.O_RDWR), "ptmx": lambda: os.open("/dev/ptmx", os.O_RDWR),
        "device": lambda: fcntl.ioctl(os.open("/dev/null", os.O_RDONLY), 0x1234),
    """, {**dict.fromkeys(("read", "list", "write", "cut", "cut outside", "link", "rename", "remove", "pipe", "symlink",
                           "make", "again", "place", "device"), "EACCES"),
          "lock": "EBADF", "lock a place": "EBADF", "tty": ("ENXIO", "EACCES"),
          **dict.fromkeys(("kvm", "fuse", "ptmx"), ("EACCES", "ENOENT"))}),
    "everything else that the filter closes": ("""
        "type": lambda: call("ioctl", 0, 0x5412, ctypes.create_string_buffer(b"x")),
        "bpf": lambda: call("bpf", 0, 0, 0),
        "mount": lambda: call("mount", "none", "/tmp", "tmpfs", 0, 0), "tree": lambda: call("open_tree", -100, "/", 0),
        "user": lambda: call("unshare", 0x10000000), "net": lambda: call("unshare", 0x40000000),
        "join": lambda: call("setns", 0, 0), "faults": lambda: call("userfaultfd", 1),
        "quota": lambda: call("quotactl", 0x80000100, "/dev/vda", 0, room),
        "quota of": lambda: call("quotactl_fd", 0, 0x80000100, 0, room), "mounts": lambda: raw(458, room, room, 64, 0),
        "one mount": lambda: raw(457, room, room, 512, 0), "ring": lambda: call("io_uring_setup", 1, room),
        "log": lambda: call("syslog", 3, 0, 0), "name": lambda: call("sethostname", "x", 1),
    """, {}),
}  # fmt: skip

# phrase of the page: what works
OPEN: dict[str, str] = {
    "show the metadata of any path of the host": """
        "stat": lambda: os.stat(SECRET), "access": lambda: os.access(SECRET, 4), "names": lambda: os.listxattr(SECRET),
        "link": lambda: os.readlink(LINK), "place": lambda: os.open(SECRET, os.O_PATH), "go": lambda: os.chdir(OUTSIDE),
        "space": lambda: os.statvfs(OUTSIDE),
    """,
    "chmod and utimes work on any file": """
        "mode": lambda: os.chmod(SECRET, 0o600), "times": lambda: os.utime(SECRET),
        "held": lambda: os.fchmod(plain(), 0o600), "held times": lambda: os.utime(plain()),
        "place": lambda: os.chmod(f"/proc/self/fd/{os.open(SECRET, os.O_PATH)}", 0o600),
    """,
    "the host's name is shared": '"name": lambda: os.uname().nodename,',
    "which processes of the host exist": """
        "exists": lambda: os.stat(f"/proc/{VICTIM}"), "hold": pidfd, "group": lambda: os.getpgid(VICTIM),
        "session": lambda: os.getsid(VICTIM), "nice": lambda: os.getpriority(os.PRIO_PROCESS, VICTIM),
        "affinity": lambda: os.sched_getaffinity(VICTIM), "policy": lambda: os.sched_getscheduler(VICTIM),
        "disk": lambda: call("ioprio_get", 1, VICTIM), "time": lambda: time.clock_gettime(((~VICTIM) << 3) | 2),
    """,
    "interfaces, addresses, routes and neighbours": """
        "links": lambda: netlink(18, bytes(16)), "addresses": lambda: netlink(22, bytes(8)),
        "routes": lambda: netlink(26, bytes(12)), "neighbours": lambda: netlink(30, bytes(12)),
        "changes": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).bind((0, 1)),
    """,
    "can take an abstract name": """
        "name": lambda: socket.socketpair()[0].bind(f"\\0psb-{os.getpid()}"),
    """,
    "locks of files that are granted": """
        "lock": lambda: fcntl.flock(plain(), fcntl.LOCK_EX | fcntl.LOCK_NB),
        "shared": lambda: fcntl.lockf(plain(), fcntl.LOCK_SH | fcntl.LOCK_NB),
    """,
}
NOTED = {"locks of files that are granted": False}  # the page's: a full cage has it too


@contextmanager
def attacks(ground: Ground) -> Iterator[tuple[Victim, dict[str, Any]]]:
    (ground.outside / "link").symlink_to("secret")
    with victim() as target, socket.create_server(("127.0.0.1", 0)) as server:
        yield target, {
            "VICTIM": target.pid, "SECRET": str(ground.secret), "LINK": str(ground.outside / "link"),
            "OUTSIDE": str(ground.outside), "INSIDE": str(ground.inside), "PLAIN": str(ground.inside / "plain"),
            "PORT": server.getsockname()[1], "KEY": 0x70730000 | os.getpid() & 0xFFFF, "OWN": f"psb-page-{os.getpid()}",
        }  # fmt: skip
    (ground.outside / "link").unlink()


def body(row: str, ways: str, only: frozenset[str] = frozenset()) -> str:
    """`only`: uncaged, "all processes of my user" would be those of whoever runs the suite."""
    chosen = f" if name in {set(only)!r}" if only else ""
    return f"tried({{f'{{row}}: {{name}}': way for row in ({row!r},) for name, way in {{{ways}}}.items(){chosen}}})"


def of(report: Report, row: str) -> dict[str, str | None]:
    return {name.removeprefix(f"{row}: "): each.errno for name, each in report.attempts.items() if name.startswith(row)}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """All of it, in one cage."""
    ground = ground_in(tmp_path_factory)
    with attacks(ground) as (target, names):
        attack = program(TOOLS, *(body(row, ways) for row, (ways, _) in CLOSED.items()),
                         *(body(row, ways) for row, ways in OPEN.items()), **names)  # fmt: skip
        report = caged(attack, policy("landlock", allow=[str(ground.inside)]))
        assert target.untouched
    assert ground.unharmed and report.exit_code == 0, report.stderr
    return report


@pytest.mark.parametrize("row", CLOSED)
def test_what_is_called_closed_is_refused(row: str, everything: Report) -> None:
    expected = CLOSED[row][1]
    said = of(everything, row)
    wanted = {name: expected.get(name, "EPERM") for name in said}
    wrong = {name: (said[name], want) for name, want in wanted.items()
             if said[name] != want and str(said[name]) not in want}  # fmt: skip
    assert row in PAGE and len(said) >= max(4, len(expected))
    assert wrong == {}


# What an ordinary user does of each row, uncaged, on any machine.
CONTROLS = {
    "no signal": {"kill", "probe", "tkill", "tgkill", "queue", "pidfd"},
    "no tracing, no memory": {"environ", "cwd", "ns", "fds", "maps", "exe"},
    "no scheduling, no resource limits": {"nice", "affinity", "policy", "disk", "limit"},
    "no UDP, no other protocol": {"(2, 2, 0)", "(10, 2, 0)", "(1, 2, 0)", "(1, 5, 0)"},
    "nothing can be bound, nothing listens": {"bind", "listen", "connect"},
    "(System V, POSIX): none": {"segment", "semaphore", "queue", "named", "file"},
    "(inotify, fanotify): not told": {"watch", "signal", "lease"},
    "of a file, by its name or an open descriptor: not changed": {"owner", "held owner", "group"},
    "files: only what is granted": {"read", "list", "write", "cut", "cut outside", "again", "place"},
}
LEFT = """
    for name, again in (("shmget", "shmctl"), ("msgget", "msgctl"), ("semget", "semctl")):
        try:
            call(again, call(name, KEY, *((0,) if name == "msgget" else (0, 0))), 0, 0, 0)
        except OSError:
            pass
    for leave in (lambda: call("mq_unlink", OWN), lambda: os.unlink("/dev/shm/" + OWN)):
        try:
            leave()
        except OSError:
            pass
"""


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Report:
    with attacks(ground_in(tmp_path_factory)) as (_, names):
        return uncaged(
            program(TOOLS, *(body(row, CLOSED[row][0], frozenset(CONTROLS[row])) for row in CONTROLS), LEFT, **names)
        )


@pytest.mark.parametrize("row", CONTROLS)
def test_uncaged_the_same_works(row: str, control: Report) -> None:
    said = of(control, row)
    assert {name: said.get(name, control.stderr) for name in CONTROLS[row]} == dict.fromkeys(CONTROLS[row])


@pytest.mark.parametrize("row", OPEN)
def test_what_is_called_open_works_and_is_named(row: str, everything: Report) -> None:
    said = of(everything, row)
    assert row in PAGE and said == dict.fromkeys(said) != {}
    assert everything.result is not None
    assert any(row in note.message for note in everything.result.notes) == NOTED.get(row, True)


@pytest.mark.parametrize("kind", ["pipe", "extended"])
def test_no_descriptor_signals_for_a_cage(kind: str, ground: Ground) -> None:
    """Who a descriptor's signals are for is not refused; the kernel asks when there is one to send."""
    attack = f"attempt('it', signal_by_file, {kind!r})"
    with attacks(ground) as (target, names):
        uncaged(program(TOOLS, attack, **names))
        assert target.is_touched()
    with attacks(ground) as (target, names):
        report = caged(
            program(TOOLS, attack, "attempt('all', os.kill, -1, signal.SIGURG)", **names), policy("landlock")
        )
        assert report["it"].errno is None and target.untouched
