"""csrc/host/spawn/spawn.c: a start leaves the host as it was; messages, records, lookups."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import signal
import threading
from pathlib import Path

import pytest
from pysandbox._native import ffi, lib

from pysandbox.compile.plan import Plan
from pysandbox.errors import StartError
from pysandbox.launch import native, orders
from pysandbox.launch.structs import encode_plan

from .plans import WALL, Init, carry_out, flat, opened, plan, readable, refusal, why_not

pytestmark = pytest.mark.guest

MODES = pytest.mark.parametrize("wanted", [plan(), flat()], ids=["full", "flat"])


def test_a_start_that_fails_raises_no_signal_and_no_wait_of_the_host_sees_it() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGCHLD, lambda number, frame: heard.append(number))
    try:
        assert why_not(flat(), program="/etc/passwd")[0] == "init_exec"
        assert why_not(plan(hostname_prefix="long"), hostname="h" * 65)[0] == "hostname"
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert heard == [] and collected() == 0


def collected() -> int:
    """The pid of a child that had ended; 0 when there was none. Other tests may have children that run."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0]
    except ChildProcessError:
        return 0


def test_nothing_of_a_start_stands_where_a_stream_of_the_host_was() -> None:
    """The control: what is opened next in such a host does."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            for stream in range(3):
                os.close(stream)
            os.close(next_ := os.open("/", os.O_RDONLY))
            held = carry_out(plan()).opened
            code = 0 if next_ == 0 and min(held.control, held.pidfd) > 2 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@MODES
def test_its_end_is_told_by_the_pidfd_whoever_collects_it(wanted: Plan) -> None:
    """execve gave it SIGCHLD for an exit signal, so a host that ignores that collects it without asking."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        opened = carry_out(wanted).opened
        assert not readable(opened.pidfd, 0)
        os.close(opened.control)
        assert readable(opened.pidfd)
        with pytest.raises(ChildProcessError):
            os.waitid(os.P_PIDFD, opened.pidfd, os.WEXITED | WALL)
        os.close(opened.pidfd)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_what_the_host_holds_of_it_does_not_survive_an_exec() -> None:
    with opened(plan()) as init:
        for fd in (init.opened.pidfd, init.opened.control):
            assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def test_the_thread_that_opened_it_may_end() -> None:
    made: list[Init] = []
    thread = threading.Thread(target=lambda: made.append(carry_out(plan())))
    thread.start()
    thread.join()
    try:
        assert made[0].run("/bin/true").code == 0
    finally:
        made[0].close()


def test_many_threads_open_cages_at_once() -> None:
    codes: list[int] = []

    def open_one() -> None:
        with opened(plan()) as init:
            codes.append(init.sh("exit 3").code)

    threads = [threading.Thread(target=open_one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [3] * 8


def test_the_host_s_signals_are_as_they_were() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        with opened(plan()):
            assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before | {signal.SIGUSR1}
        why_not(plan(namespaces=("PID",)))
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before | {signal.SIGUSR1}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@pytest.mark.parametrize(("room", "path"), [(0, "socketpair"), (1, "socketpair"), (2, "pidfd_open")])
def test_a_host_without_descriptors_is_told(room: int, path: str) -> None:
    """The limit is set so that `room` descriptors can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    carried = encode_plan(plan(), os.getuid(), os.getgid())
    init_fd = os.open(native.INIT_PATH, os.O_PATH)
    filled = [os.open("/dev/null", os.O_RDONLY) for _ in range(8)]  # no hole is left below the last
    for fd in filled[-room:] if room else []:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (filled[-1] + 1, hard))
    try:
        with pytest.raises(StartError) as failure:
            carried.open(init_fd, "cage", "")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in (init_fd, *(filled[:-room] if room else filled)):
            os.close(fd)
    assert refusal(failure.value) == ("control", "EMFILE", path)


def test_a_message_to_a_dead_cage_is_a_broken_pipe_and_no_signal() -> None:
    with opened(plan()) as init:
        os.kill(init.pid, signal.SIGKILL)
        assert init.ended()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            init.send(b"\4\0\0\0")
        orders.wake_hint(init.opened.control)


def test_more_descriptors_than_a_message_can_carry_are_refused() -> None:
    with opened(plan()) as init:
        with pytest.raises(OSError) as failure:
            init.send(b"\2\0\0\0", [init.opened.pidfd] * 254)
        assert failure.value.errno == errno.EINVAL
        assert init.run("/bin/true").code == 0


def test_a_record_is_read_whole_or_not_at_all() -> None:
    record = ffi.new("struct psb_report *", {"kind": lib.PSB_REPORT_STARTED, "pid": 7})
    read, write = os.pipe2(os.O_NONBLOCK)
    try:
        with pytest.raises(BlockingIOError):
            orders.read_report(read)
        os.write(write, bytes(ffi.buffer(record)))
        found = orders.read_report(read)
        assert found is not None and (found.kind, found.pid, found.error) == ("started", 7, None)
        os.write(write, b"short")
        with pytest.raises(OSError) as failure:
            orders.read_report(read)
        assert failure.value.errno == errno.EBADMSG
        os.close(write)
        write = -1
        assert orders.read_report(read) is None
    finally:
        os.close(read)
        if write >= 0:
            os.close(write)


INSIDE: list[tuple[str, int, str]] = [
    ("link", native.RESOLVE_NO_SYMLINKS, "ELOOP"),
    ("up/../../etc", native.RESOLVE_BENEATH, "EXDEV"),
    ("outside", native.RESOLVE_BENEATH, "EXDEV"),
    ("outside", native.RESOLVE_IN_ROOT, "ENOENT"),
    ("nowhere", native.RESOLVE_IN_ROOT, "ENOENT"),
]


@pytest.mark.parametrize(("path", "resolve", "number"), INSIDE)
def test_a_lookup_does_not_leave_its_root(path: str, resolve: int, number: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("inside")
    (tmp_path / "up").mkdir()
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "outside").symlink_to("/etc/passwd")
    root = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    try:
        found = native.open_inside(root, "link", os.O_RDONLY, resolve=native.RESOLVE_IN_ROOT)
        assert os.read(found, 10) == b"inside" and not os.get_inheritable(found)
        os.close(found)
        with pytest.raises(OSError) as failure:
            native.open_inside(root, path, os.O_RDONLY, resolve=resolve)
        assert (errno.errorcode[failure.value.errno or 0], failure.value.filename) == (number, path)
    finally:
        os.close(root)


@pytest.mark.parametrize("number", [-1, 10_000])
def test_a_number_that_is_no_step_has_no_name(number: int) -> None:
    assert lib.psb_step_name(number) == ffi.NULL
