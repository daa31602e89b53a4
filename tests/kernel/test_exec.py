"""csrc/init/exec.c: a command is exactly what its order says. How one fails to start is in test_steps.py."""

from __future__ import annotations

import ast
import errno
import os
import resource
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from pysandbox._native import lib

from pysandbox.errors import StartError
from pysandbox.launch import orders

from .plans import PYTHON, Init, opened, plan, step

pytestmark = pytest.mark.guest

TTY = step("BIND", "/dev/tty", source="/dev/tty")
SCRIPT = step("FILE", "/tmp/script", data="echo hello\n", mode=0o755)


@pytest.fixture
def init() -> Iterator[Init]:
    with opened(plan(TTY, SCRIPT)) as init:
        yield init


def test_arguments_environment_and_directory_arrive_as_they_are(init: Init) -> None:
    odd = ("", "two words", "line\nbreak", "\udcff\udc80", "ünïcödé")
    source = "import os, sys; print(ascii((sys.argv, dict(os.environb), os.getcwd())))"
    told = init.run(PYTHON, "-I", "-S", "-c", source, *odd, env=("A=1", "B=x=y", "EMPTY="), cwd="/usr/bin")
    argv, env, cwd = ast.literal_eval(told.said)
    assert argv[1:] == list(odd)
    assert {name: env[name] for name in (b"A", b"B", b"EMPTY")} == {b"A": b"1", b"B": b"x=y", b"EMPTY": b""}
    assert cwd == "/usr/bin"


def test_an_empty_environment_is_empty(init: Init) -> None:
    assert init.run("/usr/bin/env", env=()).said == ""


def test_the_name_of_a_program_need_not_be_its_path(init: Init) -> None:
    assert init.run("another", "-c", "echo $0", paths=("/bin/sh",)).said == "another\n"


CANDIDATES: list[tuple[tuple[str, ...], str | tuple[str, str, str]]] = [
    (("/nowhere/sh", "/usr/nowhere", "/bin/sh"), "ran"),
    (("/dev/null/sh", "/bin/sh"), "ran"),
    (("/tmp", "/bin/sh"), "ran"),
    (("/nowhere", "/nowhere/else"), ("exec", "ENOENT", "name")),
    (("/dev/null/sh", "/nowhere"), ("exec", "ENOENT", "name")),
    (("/dev/null/sh",), ("exec", "ENOTDIR", "/dev/null/sh")),
    (("/nowhere",), ("exec", "ENOENT", "name")),
    (("/tmp", "/nowhere"), ("exec", "EACCES", "/tmp")),
    (("/nowhere", "/tmp"), ("exec", "EACCES", "/tmp")),
    (("/tmp/script", "/bin/sh"), ("exec", "ENOEXEC", "/tmp/script")),
]


@pytest.mark.parametrize(("paths", "outcome"), CANDIDATES)
def test_the_first_candidate_that_is_there_is_run(paths: tuple[str, ...], outcome: Any, init: Init) -> None:
    argv = ("name", "-c", "echo ran")
    if outcome == "ran":
        assert init.run(*argv, paths=paths).said == "ran\n"
    else:
        assert init.refused(*argv, paths=paths) == outcome


def test_each_command_leads_a_session_of_its_own(init: Init) -> None:
    tried = "os.getpid() == os.getsid(0) == os.getpgrp()"
    assert init.attempt(tried) == "True"
    one, other = (init.attempt("os.getsid(0)") for _ in range(2))
    assert one != other


def named(number: int) -> int:
    fd = os.memfd_create("named")
    os.write(fd, b"%d" % number)
    return fd


def test_descriptors_arrive_under_their_numbers_whatever_cage_init_has_there() -> None:
    """The numbers are those that cage-init itself uses and will have received them under, crosswise."""
    targets = list(range(3, 40))
    with opened(plan()) as init:
        fds = {target: named(target) for target in reversed(targets)}
        try:
            assert init.attempt(f"all(os.pread(n, 9, 0) == b'%d' % n for n in {targets})", fds=fds) == "True"
            assert init.attempt("[int(name) for name in os.listdir('/proc/self/fd')]") == "[0, 1, 2, 3]"
        finally:
            for fd in fds.values():
                os.close(fd)


def test_one_descriptor_may_have_many_numbers_up_to_the_limit(init: Init) -> None:
    count = lib.PSB_MAX_FDS
    fds = dict.fromkeys(range(10, 10 + count - 3), 2)  # three are given already
    seen = init.attempt("len(os.listdir('/proc/self/fd'))", fds=fds)
    assert seen == str(count + 1)
    more = dict.fromkeys(range(10, 10 + count + 1), 2)
    assert init.refused("/bin/true", fds=more) == ("order", "EINVAL", None)
    assert init.run("/bin/true").code == 0


def test_as_many_descriptors_come_beside_a_body_of_its_own(init: Init) -> None:
    count = lib.PSB_MAX_FDS
    fds = dict.fromkeys(range(10, 10 + count - 3), 2)
    assert init.attempt("len(os.environ['A'])", fds=fds, env=("A=" + "x" * 50_000,)) == "50000"


def test_a_number_above_the_limit_of_open_files_is_refused(init: Init) -> None:
    assert init.refused("/bin/true", fds={1 << 20: 2})[:2] in (("fds", "EINVAL"), ("fds", "EBADF"))


@pytest.mark.parametrize("more", [-1, 0, 1, 2])
def test_a_body_of_any_size_arrives(more: int, init: Init) -> None:
    """Around the size at which it no longer travels in the message."""
    argv = ("/bin/sh", "-c", "echo ${#A}")
    plain, _ = init.order(argv, {0: 0, 1: 1, 2: 2}, env=("A=",))
    room = lib.PSB_MAX_INLINE - len(plain.body) + more
    order, _ = init.order(argv, {0: 0, 1: 1, 2: 2}, env=("A=" + "x" * room,))
    assert order.body_in_fd == (more > 0)
    assert init.run(*argv, env=("A=" + "x" * room,)).said == f"{room}\n"


def test_thousands_of_arguments_arrive(init: Init) -> None:
    assert init.run("/bin/sh", "-c", "echo $# $9999", *map(str, range(10_000))).said == "9999 9999\n"


def test_more_than_a_body_can_hold_is_refused_before_it_is_sent(init: Init) -> None:
    with pytest.raises(StartError) as failure:
        init.order(("/bin/true", "x" * lib.PSB_MAX_BODY), {})
    assert (failure.value.step, failure.value.errno) == ("exec", errno.E2BIG)


def test_a_terminal_becomes_the_controlling_one(init: Init) -> None:
    leader, terminal = os.openpty()
    try:
        for asked, code in ((True, 7), (False, 2)):  # the shell ends with 2 when it cannot open its terminal
            command = init.start("/bin/sh", "-c", ": < /dev/tty; exit 7", fds={0: terminal}, terminal=asked)
            command.expect("started")
            assert os.waitstatus_to_exitcode(command.expect("exited").status) == code
    finally:
        os.close(leader)
        os.close(terminal)


def test_a_terminal_has_one_session(init: Init) -> None:
    leader, terminal = os.openpty()
    try:
        init.start("/bin/sleep", "1000", fds={0: terminal}, terminal=True).expect("started")
        refused = init.refused("/bin/true", fds={0: terminal}, terminal=True)
        assert refused == ("terminal", "EPERM", "controlling terminal")
    finally:
        os.close(leader)
        os.close(terminal)


def test_a_quiet_order_reports_its_end_only(init: Init) -> None:
    outcome = init.run("/bin/true", quiet=True)
    assert outcome.started is None and outcome.code == 0


def test_the_start_is_reported_when_the_program_runs(init: Init) -> None:
    """Its pid is the one that the cage itself sees."""
    outcome = init.sh("echo $$")
    assert outcome.started is not None
    assert outcome.said == f"{outcome.started.pid}\n" and outcome.exited.pid == outcome.started.pid


def test_a_command_that_failed_leaves_its_descriptors_nowhere(init: Init) -> None:
    read, write = os.pipe()
    assert init.refused("/nowhere", fds={7: write}) == ("exec", "ENOENT", "/nowhere")
    os.close(write)
    assert os.read(read, 1) == b"", "cage-init has kept a copy"
    os.close(read)


def test_a_running_command_s_descriptors_are_its_own(init: Init) -> None:
    read, write = os.pipe()
    command = init.start("/bin/sh", "-c", "exec 7>&-; exec sleep 1000", fds={7: write})
    command.expect("started")
    os.close(write)
    assert os.read(read, 1) == b"", "cage-init has kept a copy"
    os.close(read)


def test_a_fork_that_the_kernel_refuses_is_an_answer(init: Init) -> None:
    before = resource.prlimit(init.pid, resource.RLIMIT_NPROC)
    resource.prlimit(init.pid, resource.RLIMIT_NPROC, (1, before[1]))
    assert init.refused("/bin/true") == ("fork", "EAGAIN", None)
    resource.prlimit(init.pid, resource.RLIMIT_NPROC, before)
    assert init.run("/bin/true").code == 0


def test_commands_run_side_by_side(init: Init) -> None:
    commands = [init.start("/bin/sleep", "1000") for _ in range(100)]
    pids = {command.expect("started").pid for command in commands}
    assert len(pids) == 100
    for command in reversed(commands):
        init.signal(command, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(command.expect("exited").status) == -signal.SIGKILL


def test_an_order_that_follows_a_nudge_is_run(init: Init) -> None:
    for _ in range(20):
        orders.wake_hint(init.opened.control)
        assert init.run("/bin/true").code == 0
