"""Claim: in landlock isolation no option that takes away, none that limits, and no callback gives a program anything
that it did not have: tried in cages, beside each option that grants something, alone and in pairs.

What the plans say is compared in tests/unit/compile/test_strict_is_never_weaker.py; here it is what a program gets.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pysandbox import Cage

from .conftest import Ground, ground_in
from .harness import PYTHON, in_cage, policy, program, victim

pytestmark = [pytest.mark.guest, pytest.mark.landlock(6)]

PROBES = """
    import fcntl, socket, struct
    def unix(path, kind=socket.SOCK_STREAM):
        mine = socket.socket(socket.AF_UNIX, kind)
        mine.connect(path)
        return mine
    def dial(port):
        socket.create_connection(("127.0.0.1", port), 10).close()
    def hand_over():
        a, b = socket.socketpair()
        socket.send_fds(a, [b"x"], [0])
        os.close(socket.recv_fds(b, 9, 1)[1][0])
    def run(path):
        child = os.fork()
        if not child:
            try:
                os.execv(path, [path])
            finally:
                os._exit(9)
        if os.waitpid(child, 0)[1]:
            raise OSError(13, "")
    def plain():
        return os.open(PLAIN, os.O_RDONLY)
    def segment():
        number = call("shmget", 0, 4096, 0o1600)
        try:
            call("shmctl", number, 0, 0)  # it would outlive us
        except OSError:
            pass
    TRIES = {
        "read": lambda: content(SECRET), "change": lambda: overwrite(PLAIN), "make": lambda: os.mkdir(INSIDE + "/d"),
        "remove": lambda: os.rmdir(INSIDE + "/d"), "owner": lambda: os.fchown(plain(), os.getuid(), -1),
        "attribute": lambda: os.setxattr(plain(), "user.x", b"1"), "list": lambda: os.listdir("/proc"),
        "flags": lambda: fcntl.ioctl(plain(), 0x40086602, struct.pack("l", 0)),
        "bind": lambda: socket.socket().bind(("127.0.0.1", 0)), "listen": lambda: socket.socket().listen(),
        "dial": lambda: dial(PORT), "dial another": lambda: dial(OTHER_PORT),
        "granted": lambda: unix(GRANTED), "other": lambda: unix(OTHER), "abstract": lambda: unix("\\0" + NAME),
        "datagram": lambda: unix(GRANTED, socket.SOCK_DGRAM), "name": lambda: socket.socket(1).bind(INSIDE + "/own"),
        "any name": lambda: socket.socket(1).bind(""), "listen there": lambda: socket.socket(1).listen(),
        "peer": lambda: unix(GRANTED).getsockopt(1, 77, 4), "udp": lambda: socket.socket(2, 2), "hand over": hand_over,
        "send": lambda: socket.socket(2, 2).sendto(b"x", ("127.0.0.1", PORT)),
        "generic": lambda: socket.socket(16, 3, 16), "multicast": lambda: socket.socket(16, 3, 0).bind((0, 1)),
        "route": lambda: socket.socket().setsockopt(0, 4, bytes([131, 7, 4, 127, 0, 0, 1, 0])),
        "segment": segment, "watch": lambda: call("inotify_add_watch",
        libc.inotify_init(), OUTSIDE, 0x100), "run": lambda: run("/bin/true"), "signal": lambda: os.kill(VICTIM, 0),
        "nice": lambda: os.setpriority(0, VICTIM, 19), "limit": lambda: call("prlimit64", VICTIM, 7, 0, bytes(16)),
        "trace": lambda: call("ptrace", 16, VICTIM, 0, 0), "ring": lambda: call("io_uring_setup", 1, bytes(128)),
        "user": lambda: call("unshare", 0x10000000), "mount": lambda: call("mount", "none", "/tmp", "tmpfs", 0, 0),
        "bpf": lambda: call("bpf", 0, 0, 0), "key": lambda: call("keyctl", 0, -3, 0),
    }
    for name, way in TRIES.items():
        attempt(name, way)
"""


@dataclass(frozen=True, slots=True)
class Scene:
    attack: list[str]
    grants: dict[str, dict[str, Any]]  # what each gives is in the probes


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    ground = ground_in(tmp_path_factory)
    top, name = ground.inside.parent, f"psb-{os.getpid()}"
    granted, other = str(top / "granted"), str(top / "other")
    with (
        victim() as target,
        socket.create_server(("127.0.0.1", 0)) as listed,
        socket.create_server(("127.0.0.1", 0)) as another,
        socket.socket(socket.AF_UNIX) as one,
        socket.socket(socket.AF_UNIX) as two,
        socket.socket(socket.AF_UNIX) as three,
    ):
        for each, address in ((one, granted), (two, other), (three, "\0" + name)):
            each.bind(address)
            each.listen(256)
        for each in (listed, another):
            each.listen(256)
        port = listed.getsockname()[1]
        yield Scene(_attack(ground, target.pid, port, another.getsockname()[1], granted, other, name), {
            "write": {"allow_write": [str(ground.inside)]},
            "addresses": {"allow_ips": [f"127.0.0.1:{port}/tcp"]},
            "sockets": {"unix_sockets": [granted]},
            "direct": {"egress": "direct", "unsafe_direct": True},
            "calls": {"allow_syscalls": ("shmget", "shmctl", "inotify_add_watch")},
        })  # fmt: skip
        assert target.untouched


def _attack(ground: Ground, pid: int, port: int, other_port: int, granted: str, other: str, name: str) -> list[str]:
    return program(
        PROBES, SECRET=str(ground.secret), PLAIN=str(ground.inside / "plain"), INSIDE=str(ground.inside), NAME=name,
        OUTSIDE=str(ground.outside), VICTIM=pid, PORT=port, OTHER_PORT=other_port, GRANTED=granted, OTHER=other,
    )  # fmt: skip


def gained(scene: Scene, rules: dict[str, Any], **options: Any) -> set[str]:
    with Cage(policy("landlock", allow=[str(Path(PYTHON).parent)], **rules), **options) as cage:
        report = in_cage(cage, scene.attack)
    assert report.exit_code == 0 and len(report.attempts) > 35, report.stderr
    return {name for name, each in report.attempts.items() if each.errno is None}


# (options, what decides besides)
WORDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no descriptors": ({"scm_rights": "deny"}, {}),
    "limits": ({"max_pids": 64, "memory_mb": 512, "walltime_sec": 60}, {}),
    "calls": ({"deny_syscalls": ("getpriority", "symlink")}, {}),
    "told": ({"notifier": True}, {}),
    "callback": ({}, {"policy_fn": lambda event, context: None, "watch": ["network", "exec"]}),
}
PAIRS = (("sockets", "write"), ("sockets", "addresses"), ("sockets", "direct"), ("calls", "direct"))


def test_each_grant_gives_what_it_says_and_no_more(scene: Scene) -> None:
    plain = gained(scene, {})
    assert plain == {"multicast", "hand over", "run"}
    gives = {
        "write": {"change", "make", "remove"},
        "addresses": {"dial"},
        "sockets": {"granted"},
        "direct": {"bind", "listen", "dial", "dial another", "udp", "send"},
        "calls": {"segment", "watch"},
    }
    assert {name: gained(scene, options) - plain for name, options in scene.grants.items()} == gives


@pytest.mark.parametrize("names", [*((name,) for name in ("sockets", "addresses", "direct")), *PAIRS], ids="+".join)
def test_a_stricter_word_gives_nothing(names: tuple[str, ...], scene: Scene) -> None:
    asked: dict[str, Any] = dict(itertools.chain.from_iterable(scene.grants[name].items() for name in names))
    plain = gained(scene, asked)
    more = {word: gained(scene, {**asked, **rules}, **options) - plain for word, (rules, options) in WORDS.items()}
    assert {word: found for word, found in more.items() if found} == {}


def test_two_stricter_words_give_nothing(scene: Scene) -> None:
    asked = {**scene.grants["sockets"], **scene.grants["addresses"]}
    plain = gained(scene, asked)
    for (rules, options), (others, more) in itertools.combinations(WORDS.values(), 2):
        assert gained(scene, {**asked, **rules, **others}, **options, **more) <= plain


def test_what_is_compared_sees_what_is_opened(scene: Scene) -> None:
    assert gained(scene, scene.grants["direct"]) - gained(scene, {})
