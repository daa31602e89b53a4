"""Claim: a worker of a template cannot signal, trace or read another worker, the template or cage-init, finds no file
of another one, and leaves no process behind; what it answers for another call, or without sense, is its own failure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pysandbox import Policy, Template

pytestmark = pytest.mark.landlock(6)


@pytest.fixture
def template() -> Iterator[Template]:
    with Template(Policy(), init="ctypes, subprocess", parked=2) as made:
        yield made


def attack(role):
    """A victim waits, with a file and a secret; an attacker tries all processes that it sees."""
    import ctypes
    import os
    import time

    if role == "victim":
        with open("secret", "w") as file:
            file.write("the secret")
        time.sleep(6)
        return [os.listdir("."), open("secret").read()]
    time.sleep(2)
    libc, worked = ctypes.CDLL(None, use_errno=True), []
    others = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]

    def attempt(name, act):
        try:
            act()
            worked.append(name)
        except OSError as error:
            assert error.errno, error  # the kernel's

    for pid in others:
        for number in (0, 19, 9):
            attempt(f"signal {number} to {pid}", lambda pid=pid, number=number: os.kill(pid, number))
        for name in ("mem", "environ", "maps", "fd/0", "cwd/secret", "root/tmp"):
            attempt(f"{name} of {pid}", lambda pid=pid, name=name: os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
        attempt(f"write to {pid}", lambda pid=pid: os.open(f"/proc/{pid}/mem", os.O_RDWR))
        if libc.ptrace(16, pid, 0, 0) == 0:
            worked.append(f"trace {pid}")
    attempt("kill all", lambda: os.kill(-1, 9) if not others else os.killpg(0, 0) or os.kill(others[0], 9))
    for number in range(1, 60):
        if f"/tmp/{number}" != os.getcwd():
            attempt(f"list {number}", lambda number=number: os.listdir(f"/tmp/{number}"))
            attempt(f"read {number}", lambda number=number: os.open(f"/tmp/{number}/secret", os.O_RDONLY))
            attempt(f"plant {number}", lambda number=number: os.open(f"/tmp/{number}/x", os.O_CREAT | os.O_WRONLY))
    for place in ("/tmp/x", "/dev/shm/x", "/scratch/x"):
        attempt(f"write {place}", lambda place=place: os.open(place, os.O_CREAT | os.O_WRONLY))
    return [len(others), worked]


def test_siblings_and_template_are_out_of_reach(template: Template) -> None:
    victim, attacker = template.map(attack, ["victim", "attacker"], workers=2, timeout=60)
    assert attacker.ok and victim.ok, (attacker, victim)
    seen, worked = attacker.value
    assert seen >= 3, "init, the template and the victim are seen"
    assert worked == []
    assert victim.value == [["secret"], "the secret"]


def leaving(_):
    """A grandchild in a session of its own, which holds every descriptor."""
    import os
    import time

    child = os.fork()
    if not child:
        os.setsid()
        if os.fork():
            os._exit(0)
        time.sleep(600)
        os._exit(0)
    os.waitpid(child, 0)
    return "left one"


def processes(_):
    import os
    import time

    for _ in range(100):  # the template ends what has outlived its worker as soon as it sees that
        found = [name for name in os.listdir("/proc") if name.isdigit()]
        if len(found) <= 6:
            break
        time.sleep(0.1)
    return len(found)


def test_what_outlives_its_worker_is_ended(template: Template) -> None:
    assert [each.value for each in template.map(leaving, range(5), workers=2, timeout=30)] == ["left one"] * 5
    count = template.map(processes, [0], timeout=60)[0].value
    assert count <= 6, "init, the template, two that wait, this one and one that is going"


def lying(kind):
    import os
    import socket
    import struct
    import time

    fds = [int(name) for name in os.listdir("/proc/self/fd")]
    for fd in fds:
        try:
            sock = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        head = struct.Struct("<4sHHQ")
        body = {
            "another call": head.pack(b"psb1", 5, 1, 10**6) + struct.pack("<Q", 1) + b"1",
            "garbage": os.urandom(200),
            "half": head.pack(b"psb1", 5, 1, 0)[:9],
            "endless": head.pack(b"psb1", 3, 1, 1) + struct.pack("<Q", 1 << 62),
            "bomb": head.pack(b"psb1", 5, 1, 1) + struct.pack("<Q", 36_000) + b"l\1\0\0\0\0\0\0\0" * 4_000,
        }[kind]
        try:
            sock.send(body, socket.MSG_DONTWAIT)
        except OSError:
            break
    time.sleep(0.2)
    return kind


def answering(kind):
    """Answers its own call, the first, before it returns."""
    import os
    import socket
    import struct

    if kind == "honest":
        return kind
    for fd in range(3, 64):
        try:
            sock = socket.socket(fileno=os.dup(fd))
        except OSError:
            continue
        for _ in range(1 if kind == "twice" else 6):
            sock.send(struct.pack("<4sHHQQ", b"psb1", 5, 1, 1, 1) + b"N")
    return "the second"


KINDS = ("another call", "garbage", "half", "endless", "bomb")


@pytest.mark.parametrize("kind", KINDS)
def test_a_lie_is_the_liar_s_own_failure(template: Template, kind: str) -> None:
    liar, honest = template.map(lying, [kind], timeout=20)[0], template.map(len, [[1, 2]], timeout=20)[0]
    assert not liar.ok and honest.value == 2
    assert any(word in str(liar.error) for word in ("no sense", "without an answer", "are the most", "too deep"))


@pytest.mark.parametrize("kind", ["twice", "seven times"])
def test_what_is_said_twice_is_one_answer_of_this_call(template: Template, kind: str) -> None:
    results = template.map(answering, [kind, *["honest"] * 7], workers=3, timeout=60)
    assert [each.value for each in results] == [None] + ["honest"] * 7


def test_output_that_is_moved_costs_the_host_no_more_than_its_bound(template: Template) -> None:
    def moved(_):
        import os

        os.lseek(1, 1 << 40, os.SEEK_SET)
        return [_ for _ in (0, 1) if not _]

    result = template.map(moved, [0], timeout=20)[0]
    assert len(result.output) <= 1 << 20


def test_what_runs_in_the_cage_is_no_file_there_that_could_change(template: Template) -> None:
    """What is loaded is loaded: workers are forked, see no file of this package, and none of its modules."""

    def seen(_):
        import os
        import sys

        return (
            [name for name in sys.modules if "pysandbox" in name],
            [line for line in open("/proc/self/maps") if "pysandbox" in line],
            [name for name in sys.argv if os.path.exists(name)],
        )

    assert template.map(seen, [0])[0].value == ([], [], [])


def test_what_a_policy_shows_below_tmp_is_seen_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "granted").write_text("shown")
    where = str(tmp_path / "a b")

    def reads(place):
        import os

        try:
            os.listdir("/tmp")
        except PermissionError:
            return open(f"{place}/granted").read()

    with Template(Policy(allow=[where])) as made:
        assert made.map(reads, [where])[0].value == "shown"


def test_a_template_that_does_not_stop_talking_holds_up_nobody(
    template: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []

    def always_more() -> bool:
        told.append(1)
        assert len(told) < 10_000, "it is read without an end"
        return True

    with monkeypatch.context() as context:
        context.setattr("pysandbox.pipeline.template.is_readable", lambda *_: True)
        context.setattr(template, "_receive", always_more)
        template.forget(1)
    assert told, "control: it is read"
