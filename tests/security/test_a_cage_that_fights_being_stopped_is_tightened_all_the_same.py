"""Claim: what has to happen while nothing of a cage runs happens so, or what goes on running is ended for it: a program
that has itself woken by timers (SIGCONT) keeps no connection, and no child of its own escapes a list.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from _support.sockets import is_cut
from pysandbox import PIPE, Cage, Event, PolicyError, Process, Runtime
from pysandbox.live import stopping
from pysandbox.live.processes import descendants, status_of
from pysandbox.live.stopping import PATIENCE, Stopping, _still

from .harness import PYTHON, policy

# It connects, leaves the socket to a program that fights, and says so; or starts one dialler after the other.
HOLDS = """
import os, socket, sys
fight, how, port = sys.argv[1:]
s = socket.socket(); s.connect(("127.0.0.1", int(port))); s.set_inheritable(True)
os.execv(fight, [fight, how, "30"])
"""
# Generations of 2 ms, each of which wakes all and leaves a child; each tries to connect, none more than a few times.
BREEDS = """
import ctypes, os, signal, socket, sys, time
port = int(sys.argv[1]); end = time.monotonic() + 30
signal.signal(signal.SIGCONT, lambda *_: None)
print("on", flush=True)
while time.monotonic() < end:
    signal.setitimer(signal.ITIMER_REAL, 0)
    os.kill(-1, signal.SIGCONT)
    s = socket.socket()
    try: s.connect(("127.0.0.1", port))
    except OSError: pass
    s.close()
    time.sleep(0.002)
    if os.fork(): os._exit(0)
"""


@contextmanager
def held(attacks: Path, how: str, server: socket.socket) -> Iterator[tuple[Cage, Process, list[Event]]]:
    events: list[Event] = []
    port = server.getsockname()[1]
    rules = policy("landlock", allow=[str(attacks)], allow_ips=[f"127.0.0.1:{port}/tcp"])
    argv = [PYTHON, "-I", "-S", "-c", HOLDS, str(attacks / "fight"), how, str(port)]
    with (
        Cage(rules, runtime=Runtime(sink=events.append, warm=0)) as cage,
        cage.spawn(argv, stdout=PIPE) as process,
    ):
        assert process.stdout is not None and process.stdout.readline() == b"on\n"
        yield cage, process, events


def told(events: list[Event]) -> list[object]:
    return [pid for each in events if each.type == "cage.unstoppable" for pid in each.data["pids"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("how", ["timers", "helpers with timers", "threads", "rotation"])
def test_what_fights_keeps_no_connection(attack_bin: Path, how: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, held(attack_bin, how, server) as (cage, process, events):
        with server.accept()[0] as connection:
            began = time.monotonic()
            cage.context.restrict_network([])
            took = time.monotonic() - began

            assert is_cut(connection)
        if took > PATIENCE:
            assert told(events) != [] or process.poll() is not None


def test_who_does_not_fight_is_neither_killed_nor_waited_for(attack_bin: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        held(attack_bin, "nothing", server) as (cage, process, events),
    ):
        with server.accept()[0]:
            assert cage.context.restrict_network([]) == 1
        assert process.poll() is None and told(events) == []


def never_stands(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a program that fights and always wins: it is seen to run until it is dead."""
    monkeypatch.setattr(stopping, "PATIENCE", 0.3)
    still = _still
    monkeypatch.setattr(stopping, "_still", lambda each: still(each) if each != pid or is_dead(each) else None)


def is_dead(pid: int) -> bool:
    return status_of(pid).get(b"State", b"X")[:1] in b"ZX"


def test_what_never_stops_is_killed_and_named(attack_bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, held(attack_bin, "nothing", server) as (cage, process, seen):
        never_stands(process.pid, monkeypatch)
        with server.accept()[0] as connection:
            cage.context.restrict_network([])
            assert is_cut(connection)
        result = process.result()
        assert (result.returncode, told(seen)) == (-signal.SIGKILL, [process.pid])
        assert cage.run(["/bin/true"]).ok


def test_where_even_that_is_not_enough_the_whole_cage_ends(attack_bin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Who is killed one by one has outrun it.
    monkeypatch.setattr(stopping, "signal_each", lambda init, pidfd, pids, number: set(pids))
    with socket.create_server(("127.0.0.1", 0)) as server, held(attack_bin, "nothing", server) as (cage, process, _):
        never_stands(process.pid, monkeypatch)
        with server.accept()[0] as connection:
            cage.context.restrict_network([])
            assert is_cut(connection)
        result = process.result()
        assert result.reason == "cancelled" and any("SIGCONT" in note.message for note in result.notes)


def test_a_wait_that_is_lost_is_seen(attack_bin: Path) -> None:
    """The witness itself: what runs between two looks is found to have run, though it stands still at both."""
    with socket.create_server(("127.0.0.1", 0)) as server, held(attack_bin, "nothing", server) as (cage, process, _):
        pidfd = cage._live.pin()  # type: ignore[union-attr]
        halt = Stopping(cage.init_pid or -1, pidfd, PATIENCE, lambda fighting, new: None)
        try:
            seen = halt.stop()
            assert halt.stood(seen)
            assert not halt.stood({tid: count - 1 for tid, count in seen.items()})
            os.kill(process.pid, signal.SIGCONT)
            time.sleep(0.05)
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(0.05)
            assert not halt.stood(seen)
        finally:
            halt.release()
            os.close(pidfd)


@contextmanager
def breeding(server: socket.socket) -> Iterator[Cage]:
    port = server.getsockname()[1]
    rules = policy("landlock", allow_ips=[f"127.0.0.1:{port}/tcp"])
    with Cage(rules) as cage, cage.spawn([PYTHON, "-I", "-S", "-c", BREEDS, str(port)], stdout=PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"on\n"
        yield cage


def falls_silent(server: socket.socket) -> bool:
    """Whether nobody connects for a while, within a longer while."""
    server.settimeout(0.3)
    end = time.monotonic() + 3
    while time.monotonic() < end:
        try:
            server.accept()[0].close()
        except TimeoutError:
            return True
    return False


def bind_a_generation(cage: Cage) -> None:
    """One may end before it is bound; the next one is tried then."""
    assert cage._live is not None
    for _ in range(300):
        for pid in descendants(cage._live.pid):
            with suppress(PolicyError):
                cage.context.restrict_pid_network(pid, [])
                return
    raise AssertionError("no generation lived long enough")


@pytest.mark.parametrize("bound", [False, True])
def test_no_child_escapes_the_list_of_its_ancestor(bound: bool) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=512) as server, breeding(server) as cage:
        if bound:
            bind_a_generation(cage)
        assert falls_silent(server) is bound
