"""libseccomp as the oracle: its own filter for the same rules gives the same verdict for every call.

The rules on arguments are written here once more, in libseccomp's language and by hand. libseccomp compares equal
under a mask and joins rules by "or", so each profile is stated in the direction that this allows: the allow-lists as
what is allowed (sockets, files), the others as what is refused (ioctl). What one direction cannot say the other does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest

from pysandbox.compile import seccomp, syscalls
from pysandbox.compile.profiles import names_of, profile, tiers
from pysandbox.compile.syscalls import MACHINES, table
from pysandbox.policy.model import Policy
from unit.compile.bpf_simulator import Machine

pyseccomp = pytest.importorskip("pyseccomp")
Arg, EQ, MASKED = pyseccomp.Arg, pyseccomp.EQ, pyseccomp.MASKED_EQ

INT, NAMESPACES, CREATES, SETID, FAST_OPEN = 0xFFFFFFFF, 0x7E020000, 0o20000100, 0o6000, 0x20000000
EPERM, ENOSYS = pyseccomp.ERRNO(1), pyseccomp.ERRNO(38)
Rule = list[Any]  # of Arg: all must hold


def low(arg: int, value: int, mask: int = INT) -> Any:
    return Arg(arg, MASKED, mask, value)


def clear(arg: int, mask: int) -> list[Rule]:
    return [[low(arg, 0, mask)]]


def single(mask: int) -> list[int]:
    return [1 << bit for bit in range(32) if mask >> bit & 1]


def differs(arg: int, value: int) -> list[Rule]:
    """In one bit at least."""
    return [[low(arg, ~value & bit, bit)] for bit in single(INT)]


ON_INIT = ("sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr")  # not on pid 1

# Each call: the argument lists under any of which it is allowed.
ALLOWED: dict[str, list[Rule]] = {
    "clone": clear(0, NAMESPACES),
    "sendto": clear(3, FAST_OPEN), "sendmsg": clear(2, FAST_OPEN), "sendmmsg": clear(3, FAST_OPEN),
    "chmod": clear(1, SETID), "fchmod": clear(1, SETID), "creat": clear(1, SETID), "mknod": clear(1, SETID),
    "fchmodat": clear(2, SETID), "fchmodat2": clear(2, SETID), "mknodat": clear(2, SETID),
    "open": clear(1, CREATES) + clear(2, SETID), "openat": clear(2, CREATES) + clear(3, SETID),
    "socketpair": [[low(0, 1)]],
    "seccomp": clear(1, 8),
    "prlimit64": clear(0, INT),
    "fcntl": differs(1, 1024),
    **{name: differs(0, 1) for name in ON_INIT},
    "personality": [[low(0, INT)], [low(0, 0)]],
    "socket": [
        *[[low(0, 1), low(1, kind, 0xF)] for kind in (1, 2, 5)],
        *[[low(0, family), low(1, kind, 0xF), low(2, protocol)]
          for family in (2, 10) for kind, protocol in ((1, 0), (1, 6), (2, 0), (2, 17))],
        [low(0, 16), low(2, 0)],
    ],
}  # fmt: skip
# And the other way round: under any of which it is refused. socket, socketpair and personality cannot be said so; and
# setpriority and ioprio_set only so.
REFUSED: dict[str, list[Rule]] = {
    "clone": [[low(0, bit, bit)] for bit in single(NAMESPACES)],
    "unshare": [[low(0, bit, bit)] for bit in single(NAMESPACES | 0x80)],
    "ioctl": [[low(1, 0x5412)], [low(1, 0x541C)]],
    **{name: [[low(arg, FAST_OPEN, FAST_OPEN)]] for name, arg in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3))},
    **{name: [[low(arg, bit, bit)] for bit in single(SETID)]
       for name, arg in (("chmod", 1), ("fchmod", 1), ("creat", 1), ("mknod", 1), ("fchmodat", 2), ("fchmodat2", 2),
                         ("mknodat", 2))},
    **{name: [[low(flags, create, create), low(mode, bit, bit)] for create in single(CREATES) for bit in single(SETID)]
       for name, flags, mode in (("open", 1, 2), ("openat", 2, 3))},
    "seccomp": [[low(1, 8, 8)]],
    "prlimit64": [[low(0, bit, bit)] for bit in single(INT)],
    "fcntl": [[low(1, 1024)]],
    **{name: [[low(0, 1)]] for name in ON_INIT},
    "setpriority": [[low(0, 2)], [low(1, 1)]],
    "ioprio_set": [[low(0, 3)], [low(1, 1)]],
}  # fmt: skip

UNANSWERED = ("clone3", "openat2", "io_setup")

# Programs may ask for these unasked: no reason to die.
MILD = {"prlimit64", "fcntl", "setpriority", "ioprio_set", *ON_INIT}

UPPER = 0x12345678 << 32
SAMPLES: dict[str, list[tuple[int, ...]]] = {
    "clone": [(0x1200011,), (0x3D0F00,), (UPPER,), *((UPPER | bit,) for bit in single(INT))],
    "unshare": [(0x400,), *((UPPER | bit,) for bit in single(INT))],
    "ioctl": [(9, UPPER | command) for command in (0, 0x5401, 0x5411, 0x5412, 0x5413, 0x541C, 0x80045412)],
    "socket": [(high | family, high | kind | flags, high | protocol)
               for family, kind, flags, protocol in product((0, 1, 2, 10, 16, 17, 40), (0, 1, 2, 3, 5, 10),
                                                            (0, 0o2004000), (0, 1, 6, 9, 17, 58, 132, 136, 262))
               for high in (0, UPPER)],
    "socketpair": [(family,) for family in (0, 1, 2, UPPER | 1, UPPER)],
    "personality": [(value,) for value in (0, 8, INT, UPPER, UPPER | INT, 0x40000)],
    "fcntl": [(9, command) for command in (0, 1, 4, 1024, 1025, 1030, 1031, UPPER | 1024, UPPER)],
    **{name: [(pid, 1) for pid in (0, 1, 2, 3, UPPER, UPPER | 1)] for name in ON_INIT},
    **{name: list(product((0, 1, 2, 3, UPPER | 2, UPPER | 3), (0, 1, 2, UPPER | 1))) for name in ("setpriority",
       "ioprio_set")},
    "seccomp": [(1, flags) for flags in (0, 1, 8, 9, UPPER, UPPER | 8)],
}  # fmt: skip
MODES = [0, 0o644, 0o1777, 0o4755, 0o2755, 0o6000, UPPER | 0o755, UPPER | 0o4000, 0xFFFF0000, 0xFFFF2000]
ANY_FLAGS = [0, 1, 0o100, 0o101, 0o20200000, 0o200000, UPPER, UPPER | 0o100, FAST_OPEN, UPPER | FAST_OPEN, 0x40]
WIDE = [tuple(INT | UPPER for _ in range(6)), (0,) * 6]


def samples(name: str) -> Iterator[tuple[int, ...]]:
    yield from WIDE
    yield from SAMPLES.get(name, ())
    if name not in SAMPLES and name in {**ALLOWED, **REFUSED}:  # flags and modes: in the first four places
        for flags, mode in product(ANY_FLAGS, MODES):
            yield from ((0, mode, 0, flags), (0, flags, mode, flags), (0, 0, flags, mode))


@cache
def arch_of(machine: str) -> Any:
    return {"x86_64": pyseccomp.Arch.X86_64, "aarch64": pyseccomp.Arch.AARCH64}[machine]


def sayable(machine: str, call: str | int) -> bool:
    """libseccomp takes numbers as x86_64's and translates them by name: elsewhere a call without a name is lost."""
    return machine == "x86_64" or (isinstance(call, str) and pyseccomp.resolve_syscall(arch_of(machine), call) >= 0)


def compiled(machine: str, otherwise: int, rules: list[tuple[int, str | int, Rule]], *, optimize: int) -> bytes:
    """libseccomp's filter: action, call, arguments. A rule that only repeats `otherwise` is not accepted by it."""
    built = pyseccomp.SyscallFilter(otherwise)
    built.set_attr(pyseccomp.Attr.ACT_BADARCH, pyseccomp.KILL_PROCESS)
    built.set_attr(pyseccomp.Attr.CTL_OPTIMIZE, optimize)
    if not built.exist_arch(arch_of(machine)):
        built.add_arch(arch_of(machine))
        built.remove_arch(pyseccomp.Arch.NATIVE)
    for action, call, arguments in rules:
        if action != otherwise and sayable(machine, call):
            number = table("x86_64").numbers[call] if isinstance(call, str) else call
            built.add_rule_exactly(action, number, *arguments)
    with tempfile.TemporaryFile() as file:
        built.export_bpf(file)
        file.seek(0)
        return file.read()


def theirs(machine: str, otherwise: int, rules: list[tuple[int, str | int, Rule]]) -> Machine:
    return Machine(compiled(machine, otherwise, rules, optimize=2))  # its binary tree: short paths, quick to simulate


def older_kernel(machine: str) -> list[tuple[int, str | int, Rule]]:
    """What answers ENOSYS: two calls with a pointer to their flags, one that is counted for the whole machine, and
    every number without a name."""
    unknown = set(range(1001)) - set(table(machine).numbers.values())
    calls: list[str | int] = [*sorted(unknown), *UNANSWERED]
    return [(ENOSYS, call, []) for call in calls]


def compare(machine: str, ours: Machine, oracle: Machine, *, unsaid: set[str]) -> None:
    arch, numbers = table(machine)
    calls = {number: syscalls.names(machine).get(number, number) for number in range(1001)}
    said = {number: call for number, call in calls.items() if call not in unsaid and sayable(machine, call)}
    assert len(said) > (900 if machine == "x86_64" else 290)
    for number, call in said.items():
        assert ours.run(arch, number) == oracle.run(arch, number), call
    for name in (each for each in said.values() if isinstance(each, str)):
        for arguments in samples(name):
            mine, its = (each.run(arch, numbers[name], arguments) for each in (ours, oracle))
            assert mine == its, (name, arguments)
    for word in {0x40000003, 0x40000028, 0xC000003E, 0xC00000B7, 0xC00000F3} - {arch}:
        for number in (0, 1, 20, 59, 221, 435, 1000):
            assert ours.run(word, number) == oracle.run(word, number)
    if machine == "x86_64":
        for number in (0x40000000, 0x40000001, 0x40000200, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE):
            assert ours.run(arch, number) == oracle.run(arch, number)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["baseline", "seed-187"])
@pytest.mark.parametrize("strict", [False, True])
def test_an_allow_list_is_what_libseccomp_makes_of_it(name: str, machine: str, strict: bool) -> None:
    numbers = table(machine).numbers
    otherwise = pyseccomp.KILL_PROCESS if strict else EPERM
    rules = older_kernel(machine)
    for call in names_of(profile(name).allow):
        if call in numbers and call not in UNANSWERED:
            rules += [(pyseccomp.ALLOW, call, each) for each in ALLOWED.get(call, [[]])]
    mptcp = [[low(0, family), low(1, 1, 0xF), low(2, 262)] for family in (2, 10)]
    rules += [(EPERM, "socket", each) for each in mptcp]
    listed = numbers.keys() & names_of(profile(name).allow)
    rules += [(EPERM, call, each) for call in MILD & listed & ALLOWED.keys() for each in REFUSED[call]]
    choice = seccomp.choose(Policy(seccomp=name, strict=strict))

    ours = Machine(seccomp.build(choice, machine))
    compare(machine, ours, theirs(machine, otherwise, rules), unsaid={"ioctl", "setpriority", "ioprio_set"})


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["baseline", "default", "relaxed"])
@pytest.mark.parametrize("strict", [False, True])
def test_a_deny_list_is_what_libseccomp_makes_of_it(name: str, machine: str, strict: bool) -> None:
    numbers = table(machine).numbers
    refused = pyseccomp.KILL_PROCESS if strict else EPERM
    shipped = profile(name)
    kill, opens = set(names_of(shipped.kill)), set(names_of(shipped.opens))
    closed = ({*names_of(tiers.NEVER), *names_of(tiers.OFF)} - opens | {*names_of(shipped.deny)}) - kill
    rules = older_kernel(machine)
    rules += [(pyseccomp.KILL_PROCESS, call, []) for call in sorted(kill) if call in numbers]
    rules += [(refused, call, []) for call in sorted(closed) if call in numbers]
    for call in REFUSED.keys() & numbers.keys() - closed:
        rules += [(EPERM if call in MILD else refused, call, each) for each in REFUSED[call]]
    choice = seccomp.choose(Policy(seccomp=name, seccomp_mode="deny-list", strict=strict))

    ours = Machine(seccomp.build(choice, machine))
    compare(machine, ours, theirs(machine, pyseccomp.ALLOW, rules), unsaid={"socket", "socketpair"})
