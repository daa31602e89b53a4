"""What a worker may not do to its siblings by a system call, as the kernel will read it."""

from __future__ import annotations

import errno

import pytest

from pysandbox.compile.siblings import siblings_filter
from pysandbox.compile.syscalls import MACHINES, table
from unit.compile.bpf_simulator import Machine

ALLOWED, ERRNO, KILLED = 0x7FFF0000, 0x00050000, 0x80000000
OWN = {"sched_setaffinity": (0,), "sched_setattr": (0,), "setpriority": (0, 0), "ioprio_set": (1, 0)}
OF_OTHERS = {
    **dict.fromkeys(("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"), (7,)),
    "setpriority": (0, 7), "ioprio_set": (1, 7),
}  # fmt: skip
OF_THE_USER = {"setpriority": (2, 0), "ioprio_set": (3, 0)}


@pytest.mark.parametrize("machine", MACHINES)
def test_a_worker_reaches_its_own_thread_alone(machine: str) -> None:
    known = table(machine)
    program = Machine(siblings_filter(machine))

    def verdict(name: str, arguments: tuple[int, ...] = ()) -> int:
        return program.run(known.audit_arch, known.numbers[name], (*arguments, *[0] * (6 - len(arguments))))

    assert {verdict(name, given) for name, given in OWN.items()} == {ALLOWED}
    refused = [*OF_OTHERS.items(), *OF_THE_USER.items()]
    assert {verdict(name, given) for name, given in refused} == {ERRNO | errno.EPERM}
    assert {verdict(name) for name in ("shmget", "shmat", "msgrcv", "semop", "mq_open")} == {ERRNO | errno.ENOSYS}
    assert {verdict(name) for name in ("read", "futex", "openat", "clone", "sched_yield")} == {ALLOWED}


def test_it_speaks_of_one_machine() -> None:
    program = Machine(siblings_filter("x86_64"))
    assert program.run(table("aarch64").audit_arch, 0) == KILLED
