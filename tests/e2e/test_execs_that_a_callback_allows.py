"""With a callback on execs, programs start programs as they always do: from shells, from threads, as scripts."""

from __future__ import annotations

import ctypes
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pysandbox import DEVNULL, PIPE, Cage, Event, Policy, Process
from pysandbox.runtime.runtime import Runtime
from pysandbox.supervise.context import Context
from pysandbox.supervise.policy_fn import CallEvent

PYTHON = "/usr/bin/python3"
THREADS = """
import os, subprocess, sys, threading
def start():
    subprocess.run(["/bin/echo", "ran"], check=True)
    assert os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1] == 0
threads = [threading.Thread(target=start) for _ in range(200)]
for thread in threads: thread.start()
for thread in threads: thread.join()
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child is left")
"""
LEADER_AND_OTHER = """
import os, sys, threading
if os.fork() == 0:
    threading.Thread(target=lambda: os.execv("/bin/echo", ["echo", "ran", "by a thread"])).start()
    threading.Event().wait()
os.wait()
threading.Thread(target=threading.Event().wait, daemon=True).start()
os.execv("/bin/echo", ["echo", "ran", "by the leader"])
"""
TIMER = """
import signal, subprocess
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for _ in range(100): subprocess.run(["/bin/true"], check=True)
signal.setitimer(signal.ITIMER_REAL, 0)
print("ran")
"""
BY_DESCRIPTOR = """
import os
os.execve(os.open("/bin/echo", os.O_RDONLY | os.O_CLOEXEC), ["echo", "ran"], {})
"""
STOPPED = """
import os, signal, time
child = os.fork()
if not child:
    while True: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
for _ in range(50):
    os.kill(child, signal.SIGSTOP)
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
    os.kill(child, signal.SIGCONT)
os.kill(child, signal.SIGKILL)
assert os.waitpid(child, 0)[1] == signal.SIGKILL
print("ran")
"""
MAKEFILE = "all: a b c d e f g h\n\t@echo ran\n%:\n\t@/bin/true $@ && /bin/echo made $@\n"
NODE = 'require("child_process").execFile("/bin/echo", ["ran"], (error, out) => process.stdout.write(out))'


def allow_all(event: CallEvent, context: Context) -> None:
    """Has no objection."""


@pytest.fixture(scope="module", autouse=True)
def supervisor() -> None:
    """It is made once and stays: no test leaves it behind."""
    with Cage(Policy(), policy_fn=allow_all, watch=("exec",)) as cage:
        cage.run(["/bin/true"], check=True)


def run_watched(argv: list[str], **options: Any) -> str:
    events: list[CallEvent] = []
    policy = Policy(max_pids=1000, **options)
    with Cage(policy, policy_fn=lambda event, _: events.append(event), watch=("exec",)) as cage:
        result = cage.run(argv, timeout=60)
    assert result.exit_code == 0, result.stderr
    assert result.denials == () and events
    return str(result.stdout)


@pytest.mark.parametrize(
    "argv",
    [
        ["/bin/bash", "-c", "/bin/echo $(/bin/echo ran) | /bin/cat"],
        ["/bin/dash", "-c", "/bin/true; (/bin/echo ran &); wait; exec /bin/sleep 0.1"],
        ["/usr/bin/timeout", "20", "/bin/echo", "ran"],
        [PYTHON, "-c", TIMER],
        [PYTHON, "-c", STOPPED],
    ],
    ids=["bash", "dash", "timeout", "timer", "stopped"],
)
def test_everyday_starts(argv: list[str]) -> None:
    assert "ran" in run_watched(argv)


def test_two_hundred_threads_start_children_at_once() -> None:
    said = run_watched([PYTHON, "-c", THREADS])
    assert said.count("ran") == 200 and "no child is left" in said


def test_the_leader_execs_as_well_as_another_thread() -> None:
    assert run_watched([PYTHON, "-c", LEADER_AND_OTHER]).splitlines() == ["ran by a thread", "ran by the leader"]


def test_a_program_is_executed_by_its_descriptor() -> None:
    assert run_watched([PYTHON, "-c", BY_DESCRIPTOR], allow_syscalls=["execveat"]) == "ran\n"


def test_parallel_make() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is missing: apt-get install make")
    said = run_watched(["/bin/sh", "-c", 'cd /tmp && printf "%s" "$1" > m && exec make -j4 -f m', "sh", MAKEFILE])
    assert said.count("made") == 8 and "ran" in said


def test_node_starts_a_child() -> None:
    if shutil.which("node") is None:
        pytest.skip("node is missing: apt-get install nodejs")
    assert run_watched(["/usr/bin/node", "-e", NODE]) == "ran\n"


SCRIPTS = """
import os, subprocess, sys
def write(name, text):
    with open(name, "wb") as file: file.write(text)
    os.chmod(name, 0o755)
os.chdir("/tmp")
LINES = [b"#!SHOW\\n", b"#!SHOW one two\\n", b"#! \\t SHOW \\t one\\t \\n", b"#!SHOW", b"#!SHOW one", b"#!SHOW\\0 x\\n",
         b"#!SHOW one\\0two\\n", b"#!SHOW " + b"a" * 300, b"#!./script0 over\\n", b"#!script1\\n"]
for number, line in enumerate(LINES):
    write(f"script{number}", line.replace(b"SHOW", sys.argv[1].encode()))
    os.environ["PATH"] = "/tmp"
    for argv in ([f"./script{number}", "a", "b c", ""], [f"/tmp/script{number}"]):
        done = subprocess.run(argv, stdout=subprocess.PIPE)
        print(number, done.returncode, done.stdout)
"""
SHOW = (
    '#include <stdio.h>\nint main(int n, char **a) { int i; for (i = 0; i < n; i++) printf("[%s]", a[i]); return 0; }'
)


def test_scripts_run_as_the_kernel_runs_them(compile_c: Callable[[str], Path]) -> None:
    show = compile_c(SHOW)
    said = run_watched([PYTHON, "-c", SCRIPTS, str(show)], allow=[str(show)]).splitlines()

    assert len(said) == 20
    assert [line.split()[1] for line in said] == ["0"] * 20
    assert said[2] == f"1 0 b'[{show}][one two][./script1][a][b c][]'"


BAD_POINTERS = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
lists = (ctypes.c_char_p * 2)(b"echo", None)
for path, arguments in ((8, lists), (b"/bin/echo", 8), (b"/bin/missing", lists), (b"/etc", lists)):
    libc.execve(ctypes.c_void_p(path) if isinstance(path, int) else path,
                ctypes.c_void_p(arguments) if isinstance(arguments, int) else arguments, None)
    print(errno.errorcode[ctypes.get_errno()])
"""


def test_an_exec_that_fails_says_why_and_what_cannot_be_read_is_refused() -> None:
    with Cage(Policy(), policy_fn=allow_all, watch=("exec",)) as cage:
        result = cage.run([PYTHON, "-c", BAD_POINTERS], timeout=60)
    assert str(result.stdout).split() == ["EPERM", "EPERM", "ENOENT", "EACCES"], result.stderr


NO_PROGRAM = """
import errno, os
with open("/tmp/none", "wb") as file: file.write(b"\\1\\2\\3")
os.chmod("/tmp/none", 0o755)
for _ in range(3):
    try: os.execv("/tmp/none", ["none"])
    except OSError as error: print(errno.errorcode[error.errno], flush=True)
os.execv("/bin/echo", ["echo", "ran"])
"""


def test_an_exec_that_the_kernel_refuses_leaves_its_caller_to_itself() -> None:
    """Nobody traces it any more: it could not execute anything else."""
    assert run_watched([PYTHON, "-c", NO_PROGRAM]).split() == ["ENOEXEC"] * 3 + ["ran"]


def test_a_host_that_waits_for_any_child_delays_nothing() -> None:
    """A stop of the traced caller may be reported to whoever waits for any child (waitpid(-1))."""
    over = threading.Event()

    def wait_for_any() -> None:
        while not over.is_set():
            try:
                os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                over.wait(0.001)

    thief = threading.Thread(target=wait_for_any)
    with Cage(Policy(), policy_fn=allow_all, watch=("exec",)) as cage:
        cage.run(["/bin/true"], check=True)
        thief.start()
        try:
            result = cage.run(["/bin/sh", "-c", "for i in $(/usr/bin/seq 100); do /bin/true; done"], timeout=60)
        finally:
            over.set()
            thief.join()
    assert result.exit_code == 0 and result.denials == ()


PTRACE_SEIZE, WALL = 0x4206, 0x40000000


def begin_a_traced_exec(cage: Cage, pids: list[int]) -> Process[bytes]:
    """A shell, traced by somebody else, is to execute; `pids` are those that were seen to execute."""
    libc = ctypes.CDLL(None, use_errno=True)
    process = cage.spawn(["/bin/sh", "-c", "read line; exec /bin/echo ran"], stdin=PIPE, stdout=PIPE, stderr=DEVNULL)
    assert process.stdin is not None
    assert libc.ptrace(PTRACE_SEIZE, pids[0], 0, 0) == 0, os.strerror(ctypes.get_errno())
    process.stdin.write(b"go\n")
    process.stdin.flush()
    return process


def test_a_process_that_is_traced_already_executes_nothing() -> None:
    pids: list[int] = []
    with Cage(Policy(), policy_fn=lambda event, _: pids.append(event.pid), watch=("exec",)) as cage:
        process = begin_a_traced_exec(cage, pids)
        os.waitpid(pids[0], WALL)  # its end is the tracer's to take note of
        said, _ = process.communicate(timeout=30)
    assert process.wait(timeout=30) == 126 and said == b""


def test_who_hears_of_a_refused_exec_holds_up_neither_its_caller_nor_its_record() -> None:
    pids: list[int] = []
    hears, goes_on, was_late = threading.Event(), threading.Event(), threading.Event()

    def sink(event: Event) -> None:
        if event.type == "cage.denied":
            hears.set()
            if not goes_on.wait(60):
                was_late.set()

    runtime = Runtime(sink=sink)
    with Cage(Policy(), runtime=runtime, policy_fn=lambda event, _: pids.append(event.pid), watch=("exec",)) as cage:
        process = begin_a_traced_exec(cage, pids)
        assert hears.wait(60)
        os.waitpid(pids[0], WALL)  # it has been told, and has ended, while the sink waits
        goes_on.set()
        assert process.wait(timeout=30) == 126
        assert [(each.rule, each.count) for each in cage.denials] == [("cannot be traced", 1)]
    runtime.drain()
    assert not was_late.is_set()
