"""Claim: neither the cage's init nor a host process can be traced, read, written, or relieved of a descriptor.

Two walls: the filter refuses the calls by default; where a policy allows them (a debugger), Landlock and the
namespaces still refuse every process that is not the caged command's own.
"""

from __future__ import annotations

import pytest

from pysandbox import Cage

from .harness import OWN_PROC, caged, has_own_processes, in_cage, policy, program, uncaged, victim

pytestmark = pytest.mark.guest

ATTACK = """
    class Span(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    mine = ctypes.create_string_buffer(40)

    def move(name, address):
        here, there = Span(ctypes.addressof(mine), 36), Span(address, 36)
        call(name, PID, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        return mine.value

    def take(fd):
        return call("pidfd_getfd", call("pidfd_open", PID, 0), fd, 0)

    attempt("process_vm_readv", move, "process_vm_readv", ADDRESS)
    mine.value = b"overwritten"
    attempt("process_vm_writev", move, "process_vm_writev", ADDRESS)
    attempt("pidfd_getfd", take, 0)
    attempt("kcmp", call, "kcmp", PID, os.getpid(), 0, 0, 0)
    attempt("PTRACE_SEIZE", call, "ptrace", 0x4206, PID, 0, 0)
    attempt("PTRACE_ATTACH", call, "ptrace", 16, PID, 0, 0)
    for name in ("environ", "maps", "auxv"):
        attempt("/proc " + name, content, f"/proc/{PID}/{name}")
    attempt("/proc mem", lambda: os.pread(os.open(f"/proc/{PID}/mem", os.O_RDONLY), 36, ADDRESS))
    attempt("/proc mem for writing", lambda: os.pwrite(os.open(f"/proc/{PID}/mem", os.O_WRONLY), b"!", ADDRESS))
    attempt("/proc fd", os.listdir, f"/proc/{PID}/fd")
    attempt("/proc fd 0", os.readlink, f"/proc/{PID}/fd/0")
    attempt("/proc exe", os.readlink, f"/proc/{PID}/exe")
    attempt("/proc root", os.listdir, f"/proc/{PID}/root/")
"""

CALLS = ("process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "PTRACE_SEIZE", "PTRACE_ATTACH")
FILES = ("/proc mem", "/proc environ", "/proc maps", "/proc auxv", "/proc mem for writing", "/proc fd", "/proc fd 0",
         "/proc exe", "/proc root")  # fmt: skip
DEBUGGER = ("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_open", "pidfd_getfd", "kcmp")

OWN_CHILD = """
    word = ctypes.create_string_buffer(b"a word of the child")
    PID = os.fork()
    if PID == 0:
        signal.pause()
    ADDRESS = ctypes.addressof(word)
"""


@pytest.mark.parametrize("extra", [(), DEBUGGER], ids=["default", "debugger"])
def test_the_init_is_out_of_reach(extra: tuple[str, ...]) -> None:
    with Cage(policy(allow_syscalls=extra)) as cage:
        assert has_own_processes(cage)
        report = in_cage(cage, program(ATTACK, PID=1, ADDRESS=0x400000))

        assert report.differs({**dict.fromkeys(CALLS, "EPERM"), **dict.fromkeys(FILES, "EACCES")}) == {}
        assert cage.run(["/bin/true"]).ok


@pytest.mark.parametrize("extra", [(), DEBUGGER], ids=["default", "debugger"])
def test_a_host_process_is_out_of_reach(isolation: str, extra: tuple[str, ...]) -> None:
    with victim() as target:
        rules = policy(isolation, allow_syscalls=extra, allow=OWN_PROC[isolation])
        report = caged(program(ATTACK, PID=target.pid, ADDRESS=target.address), rules)

        if isolation == "full":
            absent = dict.fromkeys(CALLS, ("EPERM", "ESRCH"))
            assert report.differs({**absent, **dict.fromkeys(FILES, "ENOENT")}) == {}
        else:
            refused = {**dict.fromkeys(CALLS, "EPERM"), **dict.fromkeys(FILES, "EACCES")}
            # /proc was granted by name: how many descriptors there are is told to the same user, not what they are.
            assert report.differs({**refused, "/proc fd": None}) == {}
        assert target.untouched and target.memory() == target.secret


def test_the_same_attack_reads_and_writes_an_uncaged_process() -> None:
    with victim() as target:
        report = uncaged(program(ATTACK, PID=target.pid, ADDRESS=target.address))

        assert report["process_vm_readv"].value == target.secret[:36]
        assert report.differs({**dict.fromkeys(CALLS), **dict.fromkeys(FILES), "PTRACE_ATTACH": "EPERM"}) == {}
        target.process.kill()


def test_a_debugger_reads_its_own_child_when_the_policy_allows_it() -> None:
    report = caged(program(OWN_CHILD, ATTACK), policy(allow_syscalls=DEBUGGER))

    assert report["process_vm_readv"].value == "a word of the child"
    assert report["PTRACE_SEIZE"].errno is None
