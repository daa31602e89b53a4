"""Claim: a restriction either cuts what it takes away, or raises: a host that has no descriptor left to look at the
processes of its cage never takes them for none. An execve that it cannot answer any more is refused, and that is told.
"""

from __future__ import annotations

import os
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from _support.sockets import is_cut
from pysandbox import PIPE, STDOUT, Cage, Runtime
from pysandbox.supervise import wire

from .harness import PATIENCE, PYTHON, policy

HOLDS = """
import socket, sys, time
s = socket.socket(); s.connect(("127.0.0.1", int(sys.argv[1])))
print("on", flush=True)
time.sleep(1000)
"""
ENOUGH = 40  # free descriptors, with which nothing is short


@contextmanager
def left_with(free: int) -> Iterator[None]:
    """No more than so many descriptors can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as held:
        first = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        held.callback(os.close, first)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1, hard))
        held.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        taken = []
        while True:
            try:
                taken.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                break
        for fd in taken:
            held.callback(os.close, fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] + free, hard))
        yield


def restricted(free: int) -> tuple[bool, bool]:
    """(whether it raised, whether the connection is cut) of a restriction with so many descriptors."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        rules = policy("landlock", allow_ips=[f"127.0.0.1:{port}/tcp"])
        with (
            Cage(rules, runtime=Runtime(warm=0)) as cage,
            cage.spawn([PYTHON, "-I", "-S", "-c", HOLDS, str(port)], stdout=PIPE) as process,
        ):
            assert process.stdout is not None and process.stdout.readline() == b"on\n"
            with server.accept()[0] as connection:
                context = cage.context
                with left_with(free):
                    try:
                        context.restrict_network([])
                        raised = False
                    except OSError:
                        raised = True
                cut = is_cut(connection)
                assert context.restrict_network([]) == (0 if cut else 1), "once there are descriptors it is cut"
                return raised, is_cut(connection) and cut


def test_with_descriptors_it_is_cut() -> None:
    assert restricted(ENOUGH) == (False, True)


@pytest.mark.parametrize("free", range(6))
def test_without_descriptors_it_is_cut_or_refused(free: int) -> None:
    raised, cut = restricted(free)
    assert raised or cut
    if free == 0:
        assert raised


@pytest.mark.parametrize(("free", "said"), [(ENOUGH, "ran\n"), (0, "/usr/bin/echo: Operation not permitted\n")])
def test_an_execve_that_cannot_be_followed_is_refused(free: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With enough of them it goes on: the control. A refusal is in the ledger before its caller learns of it."""
    execute, over = wire.execute, threading.Event()

    def with_few(notifier: Any, pending: int, expected: bytes, *others: Any) -> None:
        if not expected.startswith(b"/usr/bin/echo"):
            execute(notifier, pending, expected, *others)
            return
        with left_with(free):
            execute(notifier, pending, expected, *others)
        over.set()

    monkeypatch.setattr(wire, "execute", with_few)
    with Cage(policy(), runtime=Runtime(warm=0), policy_fn=lambda *_: None, watch=["exec"]) as cage:
        done = cage.run(["/bin/sh", "-c", "/usr/bin/echo ran 2>&1"], stderr=STDOUT, timeout=PATIENCE)
        assert [each.rule for each in done.denials] == ([] if free else ["cannot be traced"])
        assert over.wait(PATIENCE)
        assert cage.run(["/usr/bin/true"], timeout=PATIENCE).exit_code == 0, "the cage goes on"
    assert str(done.stdout).endswith(said)
