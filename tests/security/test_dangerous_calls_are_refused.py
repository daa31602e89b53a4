"""Claim: calls that widen the kernel's attack surface or run code without a file answer EPERM by default; some can be
allowed by name, and those that could undo the cage cannot."""

from __future__ import annotations

import signal

import pytest

import pysandbox

from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.guest

EXECUTE = """
    attempt("bpf", call, "bpf", 0, (ctypes.c_uint64 * 8)(1, 4 | 4 << 32, 1), 64)
    attempt("perf_event_open", call, "perf_event_open", (ctypes.c_uint32 * 32)(1, 128), 0, -1, -1, 0)
    attempt("userfaultfd", call, "userfaultfd", 1)
    attempt("io_uring_setup", call, "io_uring_setup", 1, (ctypes.c_uint32 * 30)())
    attempt("io_uring_enter", call, "io_uring_enter", 99, 0, 0, 0, 0, 0)
    attempt("io_uring_register", call, "io_uring_register", 99, 0, 0, 0)
    attempt("memfd_create", call, "memfd_create", "x", 0)
    attempt("execveat", call, "execveat", 99, "", 0, 0, 0x1000)
    attempt("personality", call, "personality", 0x0040000)
    attempt("ptrace", call, "ptrace", 0, 0, 0, 0)
    attempt("kexec_load", call, "kexec_load", 0, 0, 0, 0)
    attempt("kexec_file_load", call, "kexec_file_load", -1, -1, 0, 0, 0)
    attempt("init_module", call, "init_module", 0, 0, "")
    attempt("finit_module", call, "finit_module", -1, "", 0)
    attempt("delete_module", call, "delete_module", "x", 0)
    attempt("reboot", call, "reboot", 0, 0, 0, 0)
    attempt("swapoff", call, "swapoff", "/nowhere")
    attempt("acct", call, "acct", 0)
    attempt("syslog", call, "syslog", 10, 0, 0)
    attempt("settimeofday", call, "settimeofday", 0, 0)
    attempt("clock_settime", call, "clock_settime", 99, 0)
    attempt("clock_adjtime", call, "clock_adjtime", 99, 0)
    attempt("open_by_handle_at", call, "open_by_handle_at", -1, 0, 0)
    attempt("fanotify_init", call, "fanotify_init", 0, 0)
    attempt("move_pages", call, "move_pages", 0, 0, 0, 0, 0, 0)
    attempt("migrate_pages", call, "migrate_pages", 0, 0, 0, 0)
    attempt("vhangup", call, "vhangup")
    attempt("quotactl", call, "quotactl", 0, 0, 0, 0)
    attempt("lookup_dcookie", call, "lookup_dcookie", 0, 0, 0)
    attempt("unknown number", lambda: NR.update(unknown=4000) or call("unknown"))
"""

X86 = """
    attempt("iopl", call, "iopl", 3)
    attempt("ioperm", call, "ioperm", 0, 1, 1)
    attempt("modify_ldt", call, "modify_ldt", 0, 0, 0)
"""

ANONYMOUS = """
    def run():
        fd = call("memfd_create", "x", 0)
        with open("/bin/true", "rb") as program:
            os.write(fd, program.read())
        pid = os.fork()
        if pid == 0:
            call("execveat", fd, "", (ctypes.c_char_p * 2)(b"true", None), (ctypes.c_char_p * 1)(None), 0x1000)
        return os.waitpid(pid, 0)[1]
    attempt("run", run)
"""

REFUSED = (
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_create",
    "execveat", "personality", "ptrace", "kexec_load", "kexec_file_load", "init_module", "finit_module",
    "delete_module", "reboot", "swapoff", "acct", "syslog", "settimeofday", "clock_settime", "clock_adjtime",
    "open_by_handle_at", "fanotify_init", "move_pages", "migrate_pages", "vhangup", "quotactl", "lookup_dcookie",
)  # fmt: skip


def test_they_are_refused_by_default(isolation: str) -> None:
    report = caged(program(EXECUTE), policy(isolation))

    watching = {"fanotify_init": "ENOSYS"} if isolation == "landlock" else {}  # closed by name there, with inotify
    assert report.differs({**dict.fromkeys(REFUSED, "EPERM"), **watching, "unknown number": "ENOSYS"}) == {}


def test_the_calls_of_x86_are_refused(isolation: str) -> None:
    x86 = program("if 'iopl' in NR:\n" + "\n".join("    " + each.strip() for each in X86.strip().splitlines()))

    report = caged(x86, policy(isolation))

    assert report.differs(dict.fromkeys(report.attempts, "EPERM")) == {}


def test_uncaged_the_kernel_answers_otherwise() -> None:
    """The control: what an ordinary user may do at all works, and the rest is not the kernel's EPERM alone."""
    report = uncaged(program(EXECUTE))

    free = ("memfd_create", "personality", "ptrace")
    assert {name: report[name].errno for name in free} == dict.fromkeys(free)
    answers = {"execveat": "EBADF", "unknown number": "ENOSYS"}
    assert {name: pair for name, pair in report.differs(answers).items() if name in answers} == {}


def test_a_program_without_a_file_does_not_run(isolation: str) -> None:
    report = caged(program(ANONYMOUS), policy(isolation))

    assert report.differs({"run": "EPERM"}) == {}
    assert uncaged(program(ANONYMOUS))["run"].value == 0


def test_the_second_tier_can_be_allowed_by_name() -> None:
    report = caged(program(ANONYMOUS), policy(allow_syscalls=("memfd_create", "execveat")))

    assert report["run"].value == 0, report.stderr


@pytest.mark.parametrize(
    "name", ["mount", "setns", "pivot_root", "kexec_load", "init_module", "reboot", "unshare", "umount2"]
)
def test_the_first_tier_cannot(name: str) -> None:
    with pytest.raises(pysandbox.PolicyError, match=name):
        pysandbox.run(["/bin/true"], policy=policy(allow_syscalls=(name,)))


def test_strict_kills_at_the_first_refusal() -> None:
    report = caged(program('attempt("bpf", call, "bpf", 0, 0, 0)'), policy(strict=True))

    assert report.result is not None
    assert (report.result.reason, report.exit_code) == ("seccomp", 128 + signal.SIGSYS)
    assert report.attempts == {}


@pytest.mark.parametrize("name", ["clock_settime", "settimeofday", "iopl", "ioperm"])
def test_profile_default_kills_where_document_000_says_so(name: str) -> None:
    body = f'attempt("it", call, "{name}", 0, 0, 0) if "{name}" in NR else os.kill(os.getpid(), 31)'

    assert caged(program(body), policy(seccomp="default")).exit_code == 128 + signal.SIGSYS


def test_profile_relaxed_lets_a_debugger_work() -> None:
    assert (
        caged(program('attempt("ptrace", call, "ptrace", 0, 0, 0, 0)'), policy(seccomp="relaxed"))["ptrace"].errno
        is None
    )
    assert (
        caged(program('attempt("ptrace", call, "ptrace", 0, 0, 0, 0)'), policy(seccomp="default"))["ptrace"].errno
        == "EPERM"
    )
