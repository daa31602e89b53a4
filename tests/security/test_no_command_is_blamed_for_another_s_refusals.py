"""Claim: a command of a session is not blamed for what a process of another one was refused, whatever that process does
to hide where it comes from: an orphan in a session of its own, one that its grandparent adopted, a child that was given
to cage-init, a process that ends at once. What cannot be told is the cage's and nobody's."""

from __future__ import annotations

import threading
import time

import pytest

from pysandbox import Cage, Policy
from pysandbox.denial import Denial
from pysandbox.result import Result

PYTHON = "/usr/bin/python3"
HIDE = """
import ctypes, os, signal, socket, sys, time
how = sys.argv[1]
if how == "adopted":
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
def ask():
    for number in range(30):
        try: socket.gethostbyname(f"evil{number}.example")
        except OSError: pass
        try: socket.create_connection(("203.0.113.9", 1 + number), timeout=1)
        except OSError: pass
        try: os.execv("/usr/sbin/nologin", ["x"])
        except OSError: pass
        time.sleep(0.05)
    os._exit(0)
def child(then):
    if how == "given away":  # CLONE_PARENT
        pid = ctypes.CDLL(None).syscall(56 if os.uname().machine == "x86_64" else 220, 0x8000 | 17, 0, 0, 0, 0)
    else:
        pid = os.fork()
    if pid == 0:
        then()
        os._exit(0)
    return pid
def middle():
    if how != "orphan":
        os.setsid()
    child(ask if how != "quick" else lambda: [child(ask) for _ in range(3)])
child(middle)
time.sleep(0.2)
"""
WAYS = ("orphan", "own session", "adopted", "given away", "quick")
POLICY = Policy(hosts=["pypi.org"], allow_execve=["/usr/bin/*"])


def told(denials: tuple[Denial, ...]) -> set[tuple[str, int | None]]:
    return {(each.kind, each.command) for each in denials}


@pytest.mark.parametrize("way", WAYS)
def test_who_runs_beside_it_is_not_blamed(way: str) -> None:
    found: list[Result] = []
    with Cage(POLICY) as cage:
        beside = threading.Thread(target=lambda: found.append(cage.run([PYTHON, "-c", "import time; time.sleep(3)"])))
        beside.start()
        time.sleep(0.3)
        cage.run([PYTHON, "-c", HIDE, way])
        later = [cage.run(["true"]) for _ in range(5)]
        beside.join()
        whole = cage.denials
    assert {kind for kind, _ in told(whole)} >= {"dns", "exec"}  # the attack has asked
    assert [each.denials for each in (*found, *later)] == [()] * 6
    assert {number for _, number in told(whole)} <= {2, None}


@pytest.mark.parametrize("way", WAYS)
def test_who_comes_after_it_is_not_blamed(way: str) -> None:
    with Cage(POLICY) as cage:
        cage.run([PYTHON, "-c", HIDE, way])
        after = [cage.run([PYTHON, "-c", "import time; time.sleep(0.5)"]) for _ in range(3)]
        whole = cage.denials
    assert told(whole) and [each.denials for each in after] == [()] * 3
    assert {number for _, number in told(whole)} <= {1, None}


def test_control_what_it_asks_itself_is_its_own() -> None:
    with Cage(POLICY) as cage:
        one = cage.run([PYTHON, "-c", "import socket\ntry: socket.gethostbyname('mine.example')\nexcept OSError: pass"])
    assert [(each.target, each.command) for each in one.denials] == [("mine.example", 1)]
