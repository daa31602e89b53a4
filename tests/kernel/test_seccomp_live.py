"""The filters in the running kernel: each closed call gives the exact errno, or SIGSYS, in a forked child.

Every attack has its control: the same call in a child without the filter gives another answer. Arguments are chosen
so that a call that got through would fail harmlessly (a bad pointer, a bad descriptor) or change only the child.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pysandbox.compile import seccomp
from pysandbox.compile.profiles import SHIPPED, names_of, profile, tiers
from pysandbox.compile.syscalls import table
from pysandbox.policy.model import Policy

pytestmark = pytest.mark.guest

MACHINE = platform.machine()
NUMBERS = table(MACHINE).numbers
UPPER = 0x1234 << 32
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 38, 22, 1, 4
AT_FDCWD = -100

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


class Prepared:
    """Everything the child needs, made before the fork."""

    def __init__(self, code: bytes) -> None:
        self.instructions = ctypes.create_string_buffer(code, len(code))
        self.program = Program(len(code) // 8, ctypes.addressof(self.instructions))

    def install(self) -> None:
        if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs")
        if libc.syscall(NUMBERS["seccomp"], 1, 0, ctypes.byref(self.program)) != 0:
            raise OSError(ctypes.get_errno(), "the filter was not installed")


def prepared(**policy: object) -> Prepared:
    return Prepared(seccomp.build(seccomp.choose(Policy(**policy)), MACHINE))  # type: ignore[arg-type]


BASELINE = prepared()
PROFILES = [
    pytest.param(prepared(seccomp=name, seccomp_mode=mode), id=f"{name} {mode}")
    for name in SHIPPED
    for mode in profile(name).modes
]
every_profile = pytest.mark.parametrize("filters", PROFILES)


def in_child(action: Callable[[], int], filters: Prepared | None) -> int:
    """What `action` returned (0 to 254) in a child, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        answer = 255
        try:
            if filters is not None:
                filters.install()
            answer = action()
        finally:
            os._exit(answer)
    status = os.waitpid(child, 0)[1]
    assert not (os.WIFEXITED(status) and os.WEXITSTATUS(status) == 255), "the child itself failed"
    return os.waitstatus_to_exitcode(status)


def raw(name: str | int, *arguments: int | bytes) -> Callable[[], int]:
    """The system call as an action: 0, or its errno."""
    number = NUMBERS[name] if isinstance(name, str) else name
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]

    def call() -> int:
        ctypes.set_errno(0)
        return ctypes.get_errno() if libc.syscall(ctypes.c_long(number), *words) == -1 else 0

    return call


def answers(name: str | int, *arguments: int | bytes, filters: Prepared = BASELINE) -> tuple[int, int]:
    """(uncaged, under the filter)."""
    return in_child(raw(name, *arguments), None), in_child(raw(name, *arguments), filters)


def has(name: str) -> bool:
    return name in NUMBERS


# --- the machine word and the number -------------------------------------------------------------------------------

X86_ONLY = pytest.mark.skipif(MACHINE != "x86_64", reason="an ABI that only x86-64 has")


@X86_ONLY
@every_profile
def test_an_x32_call_ends_the_process(filters: Prepared) -> None:
    assert in_child(raw(0x40000000 + 39), None) in (0, errno.ENOSYS)  # x32 getpid: a kernel may be built without
    assert in_child(raw(0x40000000 + 39), filters) == -signal.SIGSYS


@X86_ONLY
@every_profile
def test_a_32_bit_call_ends_the_process(filters: Prepared) -> None:
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
    view = (ctypes.c_char * 1).from_buffer(code)
    getpid32 = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(view))

    def action() -> int:
        return 0 if getpid32() in (os.getpid(), -errno.ENOSYS) else 1

    assert in_child(action, filters) == -signal.SIGSYS
    uncaged = in_child(action, None)
    assert uncaged in (0, -signal.SIGSEGV)  # SIGSEGV: a kernel without 32-bit emulation


@every_profile
def test_unknown_numbers_and_minus_one_answer_as_an_older_kernel(filters: Prepared) -> None:
    assert {in_child(raw(number), filters) for number in (470, 600, 1000, 0x3FFFFFFF, -1)} == {errno.ENOSYS}


# --- what no profile opens -----------------------------------------------------------------------------------------


@every_profile
def test_no_call_of_the_tier_never_gets_through(filters: Prepared, request: pytest.FixtureRequest) -> None:
    name = request.node.callspec.id.split()[0]
    killed, opened = names_of(profile(name).kill), names_of(profile(name).opens)
    for call in names_of(tiers.NEVER):
        if has(call) and call not in opened:
            expected = -signal.SIGSYS if call in killed else errno.EPERM
            assert in_child(raw(call, -1, -1, -1, -1, -1), filters) == expected, call


NEEDS_NO_POWER = {  # what the kernel answers anyone who asks for nonsense
    "setns": errno.EBADF, "open_tree": errno.EINVAL, "fsconfig": errno.EINVAL, "mount_setattr": errno.EINVAL,
    "keyctl": errno.EOPNOTSUPP, "add_key": errno.EINVAL, "request_key": errno.EFAULT,
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDS_NO_POWER)
def test_the_refusal_is_the_filters_and_not_the_kernels(name: str) -> None:
    assert answers(name, -1, -1, -1, -1, -1) == (NEEDS_NO_POWER[name], errno.EPERM)


@every_profile
@pytest.mark.parametrize("flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000])
def test_no_namespace_is_made(filters: Prepared, flag: int) -> None:
    def clone() -> int:
        ctypes.set_errno(0)
        child = libc.syscall(NUMBERS["clone"], ctypes.c_long(UPPER | flag | signal.SIGCHLD), 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        return ctypes.get_errno() if child < 0 else 0

    assert in_child(clone, filters) == errno.EPERM
    assert in_child(raw("unshare", flag), filters) == errno.EPERM
    assert in_child(raw("unshare", 0x10000000 | flag), None) == 0  # with a user namespace anyone may


def test_clone3_answers_enosys_and_threads_and_processes_start_all_the_same() -> None:
    def start_both() -> int:
        import threading

        ran: list[int] = []
        thread = threading.Thread(target=ran.append, args=(1,))
        thread.start()
        thread.join()
        return 0 if ran and os.waitstatus_to_exitcode(os.system("exit 0")) == 0 else 1

    assert in_child(raw("clone3", 0, 88), None) == errno.EFAULT
    for filters in (BASELINE, prepared(strict=True)):
        assert in_child(raw("clone3", 0, 88), filters) == errno.ENOSYS
        assert in_child(start_both, filters) == 0


def test_openat2_answers_enosys() -> None:
    assert answers("openat2", AT_FDCWD, b"/", 0, 24) == (errno.EFAULT, errno.ENOSYS)


@every_profile
def test_no_input_is_put_into_a_terminal(filters: Prepared) -> None:
    for command in (0x5412, UPPER | 0x5412, 0x541C, UPPER | 0x541C):
        assert in_child(raw("ioctl", 999, command, 0), None) == errno.EBADF
        assert in_child(raw("ioctl", 999, command, 0), filters) == errno.EPERM
    assert in_child(raw("ioctl", 999, 0x5413, 0), filters) == errno.EBADF


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "file"
    made.touch(mode=0o644)
    yield made


# What some profiles refuse whatever the mode is; fchmodat2 came with Linux 6.6.
REFUSED_ANYWAY = {"mknod": (errno.EPERM,), "mknodat": (errno.EPERM,), "fchmodat2": (errno.EPERM, errno.ENOSYS)}


@every_profile
def test_no_file_gets_a_set_id_bit(filters: Prepared, file: Path) -> None:
    path, new = str(file).encode(), str(file.parent / "new").encode()
    with file.open() as opened:
        attempts: list[tuple[int | bytes, ...]] = [(b"fchmodat", AT_FDCWD, path), (b"fchmod", opened.fileno())]
        attempts += [(b"fchmodat2", AT_FDCWD, path), (b"openat", AT_FDCWD, new, os.O_CREAT | os.O_WRONLY)]
        attempts += [(b"openat", AT_FDCWD, str(file.parent).encode(), os.O_TMPFILE | os.O_WRONLY)]
        attempts += [(b"chmod", path), (b"creat", new), (b"open", new, os.O_CREAT | os.O_WRONLY)]
        attempts += [(b"mknodat", AT_FDCWD, new), (b"mknod", new)]
        for call, *before in attempts:
            name = bytes(call).decode()
            if not has(name):
                continue
            for mode in (0o4755, 0o2755, UPPER | 0o4755):
                assert in_child(raw(name, *before, mode, 0), filters) == errno.EPERM, name
            plain = in_child(raw(name, *before, 0o600, 0), filters)
            assert plain == 0 or plain in REFUSED_ANYWAY.get(name, ()), name
            Path(os.fsdecode(new)).unlink(missing_ok=True)
    assert file.stat().st_mode & 0o6000 == 0
    assert in_child(raw("openat", AT_FDCWD, path, os.O_RDONLY, 0o6755), filters) == 0  # creates nothing
    assert in_child(raw("fchmodat", AT_FDCWD, path, 0o4755), None) == 0
    assert file.stat().st_mode & 0o6000 == 0o4000


SOCKETS = [
    ((2, 1, 0), 0), ((10, 2, 17), 0), ((1, 5, 0), 0), ((16, 3, 0), 0), ((2, 1 | 0o2004000, 6), 0),
    ((2, 3, 255), errno.EPERM), ((17, 3, 3), errno.EPERM), ((2, 1, 262), errno.EPERM), ((2, 1, 132), errno.EPERM),
    ((2, 2, 1), errno.EPERM), ((10, 2, 58), errno.EPERM), ((2, 2, 136), errno.EPERM), ((40, 1, 0), errno.EPERM),
    ((38, 5, 0), errno.EPERM), ((16, 3, 9), errno.EPERM), ((16, 3, 15), errno.EPERM), ((16, 3, 12), errno.EPERM),
    ((UPPER | 40, UPPER | 1, UPPER), errno.EPERM), ((UPPER | 2, UPPER | 1, UPPER), 0),
]  # fmt: skip


@every_profile
def test_only_local_tcp_and_udp_sockets_are_made(filters: Prepared) -> None:
    for arguments, expected in SOCKETS:
        assert in_child(raw("socket", *arguments), filters) == expected, arguments
    assert in_child(raw("socket", 2, 2, 136), None) == in_child(raw("socket", 16, 3, 15), None) == 0
    assert in_child(raw("socketpair", 2, 1, 0, 0), filters) == errno.EPERM


@every_profile
def test_a_send_does_not_connect(filters: Prepared) -> None:
    for flags in (0x20000000, UPPER | 0x20000000):
        assert in_child(raw("sendto", -1, 0, 0, flags, 0, 0), None) == errno.EBADF
        assert in_child(raw("sendto", -1, 0, 0, flags, 0, 0), filters) == errno.EPERM
        assert in_child(raw("sendmsg", -1, 0, flags), filters) == errno.EPERM
        assert in_child(raw("sendmmsg", -1, 0, 0, flags), filters) == errno.EPERM
    assert in_child(raw("sendto", -1, 0, 0, 0x4000, 0, 0), filters) == errno.EBADF


@every_profile
def test_a_cage_may_tighten_itself_but_not_take_a_listener(filters: Prepared) -> None:
    inner = Prepared(b"\x06\x00\x00\x00\x00\x00\xff\x7f")  # ret ALLOW

    def by_prctl() -> int:
        answer = libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(inner.program), 0, 0)
        return 0 if answer == 0 else ctypes.get_errno()

    listener = raw("seccomp", 1, 8, ctypes.addressof(inner.program))
    assert in_child(listener, None) in (0, errno.EACCES)  # root may, others need no_new_privs first
    assert in_child(listener, filters) == errno.EPERM
    assert in_child(by_prctl, filters) == 0


# --- tiers, lists, strict ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names_of(tiers.OFF))
def test_a_call_that_is_off_is_refused_until_it_is_named(name: str) -> None:
    assert in_child(raw(name, -1, -1, -1, -1, -1), BASELINE) == errno.EPERM
    extra = prepared(allow_syscalls=(name,))
    uncaged, caged = answers(name, -1, -1, -1, -1, -1, filters=extra)
    assert caged == uncaged


def test_default_kills_for_the_clock_and_relaxed_lets_a_debugger_work() -> None:
    default, relaxed = prepared(seccomp="default"), prepared(seccomp="relaxed")
    assert in_child(raw("clock_settime", -1, 0), default) == -signal.SIGSYS
    assert in_child(raw("settimeofday", 0, 0), default) == -signal.SIGSYS
    assert in_child(raw("ptrace", 0, 0, 0, 0), default) == errno.EPERM
    assert in_child(raw("ptrace", 0, 0, 0, 0), relaxed) == 0  # PTRACE_TRACEME
    assert in_child(raw("unshare", 0x400), relaxed) == 0  # CLONE_FILES


def test_strict_kills_at_the_first_refusal() -> None:
    strict = prepared(strict=True)
    for name, *arguments in (("ptrace", 0, 0), ("mount", 0, 0), ("ioctl", 0, 0x5412), ("socket", 40, 1, 0)):
        assert in_child(raw(str(name), *map(int, arguments)), strict) == -signal.SIGSYS
    assert in_child(raw("socket", 2, 1, 262), strict) == errno.EPERM
    assert in_child(raw("getppid"), strict) == 0


def test_monitor_logs_and_allows_what_it_would_refuse() -> None:
    choice = seccomp.choose(Policy(monitor=True))
    monitor = Prepared(seccomp.build(choice, MACHINE))
    assert in_child(raw("ptrace", 0, 0, 0, 0), monitor) == 0
    assert in_child(raw("setns", -1, 0), monitor) == errno.EPERM


@pytest.mark.parametrize(("option", "value"), [(PR_SET_PDEATHSIG, signal.SIGKILL), (PR_SET_DUMPABLE, 0)])
def test_a_process_may_still_protect_itself(option: int, value: int) -> None:
    assert in_child(raw("prctl", option, value, 0, 0, 0), BASELINE) == 0


def test_landlock_can_be_added_inside() -> None:
    uncaged, caged = answers("landlock_create_ruleset", 0, 0, 1)  # LANDLOCK_CREATE_RULESET_VERSION
    assert caged == uncaged


# --- ordinary programs ---------------------------------------------------------------------------------------------

PYTHON = """
import asyncio, concurrent.futures, multiprocessing, os, shutil, signal, socket, sqlite3, subprocess, tempfile
shutil.copy2("a.c", "copied"); os.utime("copied", (1, 1)); os.listxattr("copied")
with concurrent.futures.ThreadPoolExecutor() as pool: assert list(pool.map(len, ["ab"])) == [2]
assert subprocess.run(["true"]).returncode == 0
sqlite3.connect("db").execute("create table t(a)")
socket.create_server(("127.0.0.1", 0)).close(); socket.getaddrinfo("127.0.0.1", 80)
signal.setitimer(signal.ITIMER_REAL, 100); signal.alarm(0)
queue = multiprocessing.get_context("fork").SimpleQueue(); queue.put(1); assert queue.get() == 1
asyncio.run(asyncio.sleep(0)); os.sched_getparam(0); os.statvfs("."); os.mkfifo("fifo")
"""
PROGRAMS = {
    "touch": ["touch", "-d", "@1", "a.c"],
    "ls -l": ["ls", "-lZ", "/"],
    "df": ["df", "."],
    "cp -a": ["cp", "-a", "a.c", "b.c"],
    "tar": ["sh", "-c", "tar czf t.tgz a.c && tar xzf t.tgz"],
    "timeout": ["timeout", "5", "true"],
    "find": ["find", ".", "-newer", "/etc/passwd"],
    "sort": ["sort", "--parallel=2", "a.c"],
    "dd": ["dd", "if=/dev/zero", "of=z", "count=2", "conv=fsync", "status=none"],
    "mkfifo": ["mkfifo", "pipe"],
    "nice": ["nice", "-n", "1", "true"],
    "flock": ["flock", "lock", "true"],
    "install": ["install", "-m", "755", "a.c", "installed"],
    "bash jobs": ["bash", "-c", "sleep 0.01 & kill -STOP $!; kill -CONT $!; wait; ulimit -n; read -t 0.01 x || true"],
    "git": ["sh", "-c", "git init -q r && cd r && cp ../a.c . && git add . && "
                        "git -c user.name=a -c user.email=a@b commit -qm x && git status -s && git clone -q . ../r2"],
    "gcc": ["gcc", "-O1", "a.c", "-o", "a"],
    "make": ["sh", "-c", "printf 'b: a.c\\n\\tcp a.c b\\n' > Makefile && make -s -j2"],
    "perl": ["perl", "-e", "alarm 9; select undef, undef, undef, 0.01; exit system 'true'"],
    "python": [sys.executable, "-c", PYTHON],
    "node": ["node", "-e", "const fs = require('fs'); fs.writeFileSync('n', 'x'); fs.copyFileSync('n', 'm');"
                           "fs.utimesSync('n', 1, 1); require('child_process').execSync('true')"],
}  # fmt: skip


@pytest.mark.parametrize("label", PROGRAMS)
@pytest.mark.parametrize("strict", [False, True], ids=["normal", "strict"])
def test_common_programs_run_under_the_baseline(label: str, strict: bool, tmp_path: Path) -> None:
    argv = PROGRAMS[label]
    needed = label.split()[0] if argv[0] == "sh" else argv[0]
    if shutil.which(needed) is None:
        pytest.skip(f"{needed} is not installed")
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C"}

    done = subprocess.run(
        argv, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        preexec_fn=prepared(strict=strict).install,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("label", ["touch", "df", "timeout"])
def test_the_seed_list_breaks_the_programs_the_baseline_was_made_for(label: str, tmp_path: Path) -> None:
    (tmp_path / "a.c").touch()
    done = subprocess.run(
        PROGRAMS[label], cwd=tmp_path, capture_output=True, text=True, preexec_fn=prepared(seccomp="seed-187").install
    )
    assert "Operation not permitted" in done.stderr
