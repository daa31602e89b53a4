"""Claim: no caged process has a copy of the listener, and none can look into, trace or signal the supervisor."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import pysandbox
from pysandbox import Cage
from pysandbox.runtime.runtime import Runtime

from .harness import in_cage, policy, program, uncaged
from .harness import victim as a_victim

ATTACK = """
    attempt("ptrace", call, "ptrace", 16, PID, 0, 0)
    attempt("pidfd_getfd", call, "pidfd_getfd", 3, 3, 0)
    attempt("memory", content, f"/proc/{PID}/mem")
    attempt("signal", os.kill, PID, 0)
"""


def listeners_of(pid: int) -> list[str]:
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:  # the descriptor of this very listing
            continue
        found += [target] if "seccomp" in target else []
    return found


def test_only_the_supervisor_holds_the_listener(isolation: str) -> None:
    rules = policy(isolation, allow_ips=["192.0.2.1"]) if isolation == "landlock" else policy()
    runtime = Runtime(warm=0)
    with Cage(rules, runtime=runtime, watch=["network"]) as cage:
        assert len(listeners_of(os.getpid())) == 1
        with cage.spawn(["sleep", "1000"], stdout=pysandbox.DEVNULL):
            assert cage.init_pid is not None
            children = Path(f"/proc/{cage.init_pid}/task/{cage.init_pid}/children").read_text().split()
            assert children
            readable = [cage.init_pid] if isolation == "landlock" or os.geteuid() == 0 else []  # else not dumpable
            for pid in (*readable, *map(int, children)):
                assert listeners_of(pid) == []
    assert listeners_of(os.getpid()) == []
    runtime.drain()


def test_the_supervisor_cannot_be_touched(isolation: str) -> None:
    rules = policy(isolation, allow=["/proc"] if isolation == "landlock" else [])
    with Cage(rules, watch=["network"]) as cage:
        report = in_cage(cage, program(ATTACK, PID=os.getpid()))
    for name in ("ptrace", "pidfd_getfd", "signal", "memory"):
        assert report[name].errno in ("EPERM", "ESRCH", "ENOENT", "EACCES"), name


def test_uncaged_a_process_of_the_same_user_can_be() -> None:
    with a_victim() as target:
        report = uncaged(program(ATTACK, PID=target.pid))
        assert report["ptrace"].errno == report["signal"].errno is None


SENT_BY = """
    import socket, struct

    def sender():
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        b.setsockopt(socket.SOL_SOCKET, 76, 1)  # SO_PASSPIDFD
        a.sendmsg([b"x"])
        for level, kind, data in b.recvmsg(10, 100)[1]:
            if kind == 4:  # SCM_PIDFD
                about = content("/proc/self/fdinfo/%d" % struct.unpack("i", data)).decode()
                return int(about.partition("Pid:")[2].split()[0])

    attempt("sender", sender)
"""


def test_a_message_does_not_bring_the_supervisor_along() -> None:
    """Where messages are decided the supervisor sends them; 0 is a process outside of the cage."""
    kept, plain = (in_cage(Cage(policy(scm_rights=rights)), program(SENT_BY)) for rights in ("deny", "allow"))
    if plain["sender"].errno == "ENOPROTOOPT":
        pytest.skip("this kernel has no SO_PASSPIDFD (Linux 6.5)")
    assert plain["sender"].value
    assert kept["sender"].errno == "EPERM"
