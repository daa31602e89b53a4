"""Compiled filters that are asked by the name of a call, and every filter that is shipped, on every machine."""

from __future__ import annotations

from itertools import product

import pytest

from pysandbox.compile import seccomp
from pysandbox.compile.profiles import SHIPPED, profile
from pysandbox.compile.syscalls import MACHINES, table
from pysandbox.policy.model import Policy
from unit.compile.bpf_simulator import Machine

ALLOW, LOG, KILL, EPERM, ENOSYS = 0x7FFF0000, 0x7FFC0000, 0x80000000, 0x00050001, 0x00050026
ARCH_I386, ARCH_ARM = 0x40000003, 0x40000028
UPPER = 0xDEADBEEF << 32  # what a program may leave in the upper half of an int
STREAM, DGRAM, RAW, SEQPACKET, PACKET_TYPE = 1, 2, 3, 5, 10
UNIX, INET, INET6, NETLINK, PACKET, ALG, VSOCK = 1, 2, 10, 16, 17, 38, 40
FLAGS = 0o4000 | 0o2000000  # SOCK_NONBLOCK, SOCK_CLOEXEC

USES = [(name, mode) for name in SHIPPED for mode in profile(name).modes]
EVERYWHERE = [pytest.param(Policy(seccomp=name, seccomp_mode=mode), machine, id=f"{name} {mode} {machine}")
              for (name, mode), machine in product(USES, MACHINES)]  # fmt: skip
every_filter = pytest.mark.parametrize(("policy", "machine"), EVERYWHERE)


class Filter:
    """A compiled filter, asked by name."""

    def __init__(self, machine: str, policy: Policy, *, landlock_net: bool = True) -> None:
        self.machine = machine
        self.arch, self.numbers = table(machine)
        choice = seccomp.choose(policy, landlock_net=landlock_net)
        self.code = Machine(seccomp.build(choice, machine))

    def __call__(self, name: str, *values: int) -> int:
        return self.code.run(self.arch, self.numbers[name], values)

    def has(self, name: str) -> bool:
        return name in self.numbers


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def x86(**policy: object) -> Filter:
    return Filter("x86_64", Policy(**policy))  # type: ignore[arg-type]
