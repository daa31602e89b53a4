"""Claim: keyrings, System V and POSIX IPC and shared memory of the host are out of a cage's reach.

Landlock mode has no IPC namespace: test_landlock_mode_names_its_gaps has these.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .harness import caged, policy, program, token, uncaged

pytestmark = pytest.mark.guest

MAKE = """
    segment = call("shmget", KEY, 4096, 0o1600)
    semaphore = call("semget", KEY, 1, 0o1600)
    messages = call("msgget", KEY, 0o1600)
    queue = call("mq_open", NAME, os.O_RDWR | os.O_CREAT, 0o600, 0)
    say("made", [segment, semaphore, messages])
    sys.stdin.read()
"""

REMOVE = """
    for name, request in (("shm", "shmctl"), ("sem", "semctl"), ("msg", "msgctl")):
        identity = call(name + "get", KEY, *((0,) if name == "msg" else (0, 0)))
        call(request, identity, 0, 0) if name != "sem" else call(request, identity, 0, 0, 0)
    call("mq_unlink", NAME)
"""

ATTACK = """
    attempt("shm by key", call, "shmget", KEY, 0, 0)
    attempt("sem by key", call, "semget", KEY, 0, 0)
    attempt("msg by key", call, "msgget", KEY, 0)
    for number in range(4):
        attempt(f"shm by number {number}", call, "shmat", IDS[0] + number, 0, 0o10000)
    attempt("queue by name", call, "mq_open", NAME, os.O_RDWR, 0, 0)
    attempt("shared memory file", content, "/dev/shm/" + NAME)
    attempt("segment table", lambda: str(KEY) in open("/proc/sysvipc/shm").read())
"""

KEYS = """
    attempt("keyctl session", call, "keyctl", 0, -3, 0)
    attempt("keyctl join", call, "keyctl", 1, "mine")
    attempt("keyctl search", call, "keyctl", 10, -4, "user", NAME, 0)
    attempt("add_key", call, "add_key", "user", NAME, b"x", 1, -4)
    attempt("request_key", call, "request_key", "user", NAME, 0, -4)
"""

PLAIN_KEYS = """
    key = call("add_key", "user", NAME, b"x", 1, -1)
    attempt("search", call, "keyctl", 10, -1, "user", NAME, 0)
"""


@pytest.fixture
def objects() -> Iterator[dict[str, object]]:
    """One of each, made by this user on the host."""
    names: dict[str, object] = {"KEY": int.from_bytes(os.urandom(3), "big") + 1, "NAME": token()}
    with ExitStack() as stack:
        made = uncaged(program(MAKE, **names))
        stack.callback(uncaged, program(REMOVE, **names))
        shared = Path("/dev/shm") / str(names["NAME"])
        shared.write_text("shared")
        stack.callback(shared.unlink)
        yield {**names, "IDS": made["made"].value}


def test_none_of_them_is_reached(objects: dict[str, object]) -> None:
    report = caged(program(ATTACK, **objects), policy())

    absent = dict.fromkeys(("shm by key", "sem by key", "msg by key", "queue by name", "shared memory file"), "ENOENT")
    numbers = dict.fromkeys([f"shm by number {number}" for number in range(4)], "EINVAL")
    assert report.differs({**absent, **numbers, "segment table": (None, "ENOENT", "EACCES")}) == {}
    assert report["segment table"].value in (False, None)


def test_uncaged_every_one_of_them_is_there(objects: dict[str, object]) -> None:
    report = uncaged(program(ATTACK, **objects))

    names = ("shm by key", "sem by key", "msg by key", "shm by number 0", "queue by name", "shared memory file")
    assert {name: report[name].errno for name in names} == dict.fromkeys(names)
    assert report["segment table"].value is True


def test_the_cage_has_ipc_of_its_own() -> None:
    report = caged(program('attempt("shm", call, "shmget", 7, 4096, 0o1600)'), policy())

    assert report["shm"].errno is None


def test_keyrings_are_closed(isolation: str) -> None:
    names = {"NAME": token()}
    report = caged(program(KEYS, **names), policy(isolation))

    assert report.differs(dict.fromkeys(report.attempts, "EPERM")) == {}
    assert len(report.attempts) == 5
    assert uncaged(program(PLAIN_KEYS, **names))["search"].errno is None
