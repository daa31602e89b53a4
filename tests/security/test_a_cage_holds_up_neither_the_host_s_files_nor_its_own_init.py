"""Claim: a cage takes no lease on a file it may read, which would hold up the host's own opening of it; and nothing in
it changes how cage-init, which keeps the wall time, is scheduled.
"""

from __future__ import annotations

import os

import pytest

from .conftest import Ground
from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.guest

LEASE = """
    import fcntl
    fd = os.open(FILE, os.O_RDONLY)
    attempt("lease", fcntl.fcntl, fd, 1024, fcntl.F_RDLCK)
    attempt("write lease", call, "fcntl", fd, 1024, fcntl.F_WRLCK)
    attempt("upper half set", call, "fcntl", fd, 1 << 32 | 1024, fcntl.F_RDLCK)
    attempt("flags", fcntl.fcntl, fd, fcntl.F_GETFL)
"""

SCHEDULING = """
    param = ctypes.c_int(0)
    mask = ctypes.c_ulong(1)
    attr = (ctypes.c_uint32 * 12)(48, 5)
    upper = 1 << 32 | 1
    for name, pid in (("init", 1), ("init, upper half set", upper), ("oneself", 0), ("own number", os.getpid())):
        pid = ctypes.c_ulong(pid)
        attempt(f"setscheduler {name}", call, "sched_setscheduler", pid, 5, ctypes.byref(param))
        attempt(f"setparam {name}", call, "sched_setparam", pid, ctypes.byref(param))
        attempt(f"setattr {name}", call, "sched_setattr", pid, ctypes.byref(attr), 0)
        attempt(f"setaffinity {name}", call, "sched_setaffinity", pid, 8, ctypes.byref(mask))
        attempt(f"setpriority {name}", call, "setpriority", 0, pid, 19)
        attempt(f"setpriority of the group of {name}", call, "setpriority", 1, pid, 19)
        attempt(f"ioprio_set {name}", call, "ioprio_set", 1, pid, 3 << 13)
    attempt("setpriority of the user", call, "setpriority", 2, 0, 19)
    attempt("ioprio_set of the user", call, "ioprio_set", 3, 0, 3 << 13)
"""
PRIORITIES = ("setpriority", "setpriority of the group of", "ioprio_set")
CALLS = ("setscheduler", "setparam", "setattr", "setaffinity", *PRIORITIES)


@pytest.mark.parametrize("profile", ["baseline", "default", "relaxed"])
def test_no_lease_is_taken_on_a_file_of_the_host(ground: Ground, isolation: str, profile: str) -> None:
    file = ground.inside / "plain"
    attack = program(LEASE, FILE=str(file))
    assert uncaged(attack)["lease"].errno is None, "the control: its owner may take one"

    report = caged(attack, policy(isolation, allow=[str(ground.inside)], seccomp=profile, run_as="self"))

    refused = dict.fromkeys(("lease", "write lease", "upper half set"), "EPERM")
    assert report.differs({**refused, "flags": None}) == {}
    with open(os.open(file, os.O_WRONLY | os.O_NONBLOCK), "wb"):
        pass  # EWOULDBLOCK where a lease is held


@pytest.mark.parametrize("profile", ["baseline", "default", "relaxed"])
def test_cage_init_is_scheduled_as_it_was(profile: str) -> None:
    report = caged(program(SCHEDULING), policy(seccomp=profile))

    on_init = [f"{call} {name}" for call in CALLS for name in ("init", "init, upper half set")]
    refused = [*on_init, "setpriority of the user", "ioprio_set of the user"]
    assert {name: report[name].errno for name in refused} == dict.fromkeys(refused, "EPERM")
    assert report["setaffinity oneself"].errno is None and report["setaffinity own number"].errno is None
