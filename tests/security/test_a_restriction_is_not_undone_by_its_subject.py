"""Claim: what restrict_pid_network has bound stays bound, whatever the process does to the limits by which it is told
apart: to those of another mark, to any number, one alone, in either order, before or after, itself or in a child.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

import pysandbox
from pysandbox import Cage

from .harness import PYTHON, host_script, policy

LOCKS, RSS = 10, 5
DIALER = """
import os, resource, socket, sys
def dial(port):
    try:
        with socket.create_connection(("127.0.0.1", int(port)), 10): return "open"
    except OSError as error: return str(error.errno)
def lower(words):
    for word in words:
        which, value = map(int, word.split("="))
        try: resource.setrlimit(which, (value, value))
        except (OSError, ValueError): pass
print("ready", flush=True)
for line in sys.stdin:
    words = line.split()
    child = "child" in words
    if child:
        r, w = os.pipe()
        if os.fork():
            os.wait(); print(os.read(r, 99).decode(), flush=True); continue
    lower(word for word in words if "=" in word)
    said = dial(words[0])
    if child: os.write(w, said.encode()); os._exit(0)
    print(said, flush=True)
"""
BOUND = str(errno.EPERM)


class Dialer:
    def __init__(self, cage: Cage, name: str) -> None:
        argv = [PYTHON, "-I", "-S", "-c", DIALER, name]
        self.process = cage.spawn(argv, stdin=pysandbox.PIPE, stdout=pysandbox.PIPE)
        assert self._line() == "ready"
        self.pid = _host_pid(name)

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode().strip()

    def says(self, port: int, *words: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{port} {' '.join(words)}\n".encode())
        return self._line()

    @property
    def limits(self) -> dict[int, int]:
        import resource

        return {which: resource.prlimit(self.pid, which)[1] for which in (LOCKS, RSS)}


def _host_pid(name: str) -> int:
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{entry}/cmdline", "rb") as file:
            if file.read().endswith(f"\0{name}\0".encode()):
                return int(entry)
    raise AssertionError(name)


@contextmanager
def dialers(*names: str) -> Iterator[tuple[Cage, list[int], list[Dialer]]]:
    """A cage that may reach two servers of the host's, and programs in it."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = [each.getsockname()[1] for each in (one, two)]
        with Cage(policy("landlock", allow_ips=[f"127.0.0.1:{port}/tcp" for port in ports])) as cage:
            yield cage, ports, [Dialer(cage, f"{name}-{os.urandom(6).hex()}") for name in names]


def listed(port: int) -> list[str]:
    return [f"127.0.0.1:{port}/tcp"]


def to(limits: dict[int, int], *order: int) -> list[str]:
    return [f"{which}={limits[which]}" for which in order]


WAYS = {
    "both limits": lambda other: to(other, LOCKS, RSS),
    "the other way round": lambda other: to(other, RSS, LOCKS),
    "one limit": lambda other: to(other, LOCKS),
    "the other one": lambda other: to(other, RSS),
    "any number": lambda other: [f"{LOCKS}=12345", f"{RSS}=999"],
    "nothing at all": lambda other: [f"{LOCKS}=0", f"{RSS}=0"],
    "a little less": lambda other: [f"{LOCKS}={other[LOCKS] - 1}", f"{RSS}={other[RSS] - 1}"],
    "unlimited again": lambda other: [f"{LOCKS}=-1", f"{RSS}=-1"],
}


@pytest.mark.parametrize("who", ["itself", "child"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("first", ["bound", "wide"])
def test_the_mark_of_another_process_is_not_put_on(way: str, who: str, first: str) -> None:
    with dialers("bound", "wide") as (cage, (one, two), (bound, wide)):
        assert bound.says(one) == wide.says(two) == "open"  # the control
        steps = {"bound": (bound, []), "wide": (wide, listed(two))}
        for name in (first, *(set(steps) - {first})):
            cage.context.restrict_pid_network(steps[name][0].pid, steps[name][1])

        words = WAYS[way](wide.limits)
        assert bound.says(two, *words, who) == BOUND
        assert bound.says(two) == bound.says(one) == BOUND
        assert (wide.says(two), wide.says(one)) == ("open", BOUND)


@pytest.mark.parametrize("way", WAYS)
def test_a_mark_put_on_before_does_not_help_after(way: str) -> None:
    with dialers("early", "wide") as (cage, (one, two), (early, wide)):
        cage.context.restrict_pid_network(wide.pid, listed(two))
        early.says(two, *WAYS[way](wide.limits))
        cage.context.restrict_pid_network(early.pid, [])
        assert early.says(two) == early.says(one) == BOUND
        assert wide.says(two) == "open"


def test_what_is_bound_again_reaches_what_is_in_both_lists() -> None:
    with dialers("bound", "other") as (cage, (one, two), (bound, other)):
        cage.context.restrict_pid_network(bound.pid, [*listed(one), *listed(two)])
        cage.context.restrict_pid_network(other.pid, [])
        cage.context.restrict_pid_network(bound.pid, listed(two))
        assert (bound.says(one), bound.says(two), other.says(two)) == (BOUND, "open", BOUND)


def test_the_mark_of_another_cage_is_no_mark_here() -> None:
    with dialers("bound") as (cage, (one, _), (bound,)), dialers("wide") as (elsewhere, (there, _), (wide,)):
        elsewhere.context.restrict_pid_network(wide.pid, listed(there))
        cage.context.restrict_pid_network(bound.pid, [])
        assert bound.says(one, *to(wide.limits, LOCKS, RSS)) == BOUND


WITHOUT_ROOM = """
import importlib, resource, sys
for which in (10, 5):
    resource.setrlimit(which, (0, 0))
from pysandbox.errors import UnsupportedError
with importlib.import_module(sys.argv[1]).dialers("bound") as (cage, (one, _), (bound,)):
    try:
        cage.context.restrict_pid_network(bound.pid, [])
        print("bound", bound.says(one), flush=True)
    except UnsupportedError as error:
        print(error.feature, bound.says(one), flush=True)
    cage.context.restrict_network([])
    print("all", bound.says(one), flush=True)
"""


def test_where_its_marks_are_all_there_is_it_is_an_error_and_binds_nobody_unheard() -> None:
    """Hard limits of 0: no process can be made to look different. The whole cage can still be tightened."""
    with host_script(WITHOUT_ROOM, __name__) as host:
        assert host.stdout is not None
        said = host.stdout.read().decode().splitlines()
    assert said == ["rlimit_locks open", f"all {BOUND}"]
