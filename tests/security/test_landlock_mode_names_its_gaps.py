"""Claim: what landlock mode cannot promise is closed by another wall, refused at compile time, or named in the
run's notes.

One row a gap: the attack, and the word that a note must contain when the attack works.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import pysandbox

from .conftest import Ground
from .harness import caged, names_it, policy, program, victim

pytestmark = [pytest.mark.guest, pytest.mark.landlock(6)]


@dataclass(frozen=True, slots=True)
class Gap:
    body: str  # ends in attempt("it", ...) whose value is False when nothing was gained
    word: str


GAPS = {
    "the host's name": Gap('attempt("it", lambda: os.uname().nodename == HOSTNAME)', "host"),
    "the environment of a process": Gap(
        'attempt("it", lambda: WORD in content(f"/proc/{VICTIM}/environ").decode("latin-1"))', "process"
    ),
    "that a process exists": Gap('attempt("it", lambda: os.path.isdir(f"/proc/{VICTIM}"))', "which processes"),
    "stat of any path": Gap('attempt("it", lambda: os.stat(SECRET).st_size > 0)', "stat"),
    "chmod of a read-only file": Gap('attempt("it", os.chmod, PLAIN, 0o600)', "chmod"),
    "chmod of a file outside": Gap('attempt("it", os.chmod, SECRET, 0o600)', "chmod"),
    "utimes of a read-only file": Gap('attempt("it", os.utime, PLAIN, (0, 0))', "utime"),
    "chown of a read-only file": Gap('attempt("it", os.chown, PLAIN, os.getuid(), os.getgid())', "chown"),
    "attributes of a read-only file": Gap('attempt("it", os.setxattr, PLAIN, "user.x", b"1")', "xattr"),
    "system V segments": Gap('attempt("it", call, "shmget", 0x7073626C, 4096, 0o1600)', "ipc"),
    "message queues": Gap('attempt("it", call, "mq_open", "psb-gap", os.O_RDWR | os.O_CREAT, 0o600, 0)', "ipc"),
    "where a link leads": Gap('attempt("it", os.readlink, LINK)', "readlink"),
    "attributes of a file outside": Gap('attempt("it", os.listxattr, SECRET)', "getxattr"),
    "what happens in a directory": Gap(
        'attempt("it", call, "inotify_add_watch", ctypes.CDLL(None).inotify_init(), OUTSIDE, 0x100)', "inotify"
    ),
    "udp": Gap(
        "import socket\n"
        'attempt("it", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)))', "udp"
    ),
    "path sockets": Gap(
        "import socket\n"
        'attempt("it", lambda: socket.socket(socket.AF_UNIX).connect(SOCKET))', "unix"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GAPS)
def test_each_gap_is_closed_or_owned_up_to(name: str, ground: Ground, tmp_path: Path) -> None:
    gap, plain = GAPS[name], ground.inside / "plain"
    (ground.outside / "link").symlink_to("secret")
    with victim() as target, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(ground.inside / "listener"))
        listener.listen()
        attack = program(
            gap.body, HOSTNAME=socket.gethostname(), VICTIM=target.pid, WORD=target.secret, SECRET=str(ground.secret),
            PLAIN=str(plain), SOCKET=str(ground.inside / "listener"), LINK=str(ground.outside / "link"),
            OUTSIDE=str(ground.outside),
        )  # fmt: skip
        report = caged(attack, policy("landlock", allow=[str(ground.inside)]))

    gained = report["it"].errno is None and report["it"].value is not False
    assert report.result is not None
    assert not gained or names_it(report.result, gap.word), f"{name}: works and no note says {gap.word!r}"


PROMISES: dict[
    str, Callable[[str], dict[str, Any]]
] = {  # policy options that need a namespace: refused, with the reason, before anything starts
    "deny": lambda tree: {"allow": [tree], "deny": [tree + "/plain"]},
    "mask": lambda tree: {"allow": [tree], "mask": [tree + "/plain"]},
    "run_as": lambda tree: {"run_as": "root"},
    "io_uring": lambda tree: {"allow_syscalls": ("io_uring_setup",)},
    "leaves open": lambda tree: {"strict": True},
}


@pytest.mark.parametrize("option", PROMISES)
def test_a_promise_it_cannot_keep_is_refused(option: str, ground: Ground) -> None:
    rules = policy("landlock", **PROMISES[option](str(ground.inside)))

    with pytest.raises((pysandbox.UnsupportedError, pysandbox.PolicyError), match=option):
        pysandbox.run(["/bin/true"], policy=rules)


def test_landlock_mode_is_never_a_silent_fallback() -> None:
    attack = program('attempt("it", lambda: os.readlink("/proc/self/ns/user"))')
    report = caged(attack, policy("full"))

    assert report["it"].value not in (None, os.readlink("/proc/self/ns/user")), "full means namespaces of its own"
