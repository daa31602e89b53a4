"""csrc/setup/landlock.c and csrc/init/landlock.c: commands enter the ruleset, cage-init does not; signals stay in."""

from __future__ import annotations

import errno
import os
import signal
import socket
import uuid

import pytest

from pysandbox.compile.plan import LandlockPlan, LandlockRule
from pysandbox.errors import StartError

from .inject import ERRNO, answering, under
from .plans import FS, PATIENCE, flat, opened, plan, readable, refusal, seen, step

READ = ("EXECUTE", "READ_FILE", "READ_DIR")
pytestmark = [pytest.mark.guest, pytest.mark.landlock(1)]


def ruled(*rules: LandlockRule, net: tuple[str, ...] = (), scoped: tuple[str, ...] = ()) -> LandlockPlan:
    return LandlockPlan(FS, net, scoped, rules)


SYSTEM = tuple(LandlockRule(path, READ) for path in ("/usr", "/dev", "/proc"))
WORK = (step("DIR", "/granted", mode=0o777), step("DIR", "/other", mode=0o777))


def test_a_command_has_the_rights_of_the_rules_and_no_others() -> None:
    granted = LandlockRule("/granted", ("WRITE_FILE", "MAKE_REG"))
    with opened(plan(*WORK, landlock=ruled(*SYSTEM, granted))) as init:
        assert init.attempt("open('/granted/x', 'w').close()") == "None"
        assert init.attempt("open('/granted/x')") == "EACCES"
        assert init.attempt("open('/other/x', 'w')") == "EACCES"
        assert init.attempt("os.listdir('/')") == "EACCES"


def test_without_a_ruleset_nothing_is_refused() -> None:
    with opened(plan(*WORK)) as init:
        assert init.attempt("os.listdir('/') != [] and open('/other/x', 'w').close()") == "None"


def test_an_optional_rule_on_nothing_is_left_out() -> None:
    with opened(plan(landlock=ruled(*SYSTEM, LandlockRule("/nowhere", READ, optional=True)))) as init:
        assert init.run("/bin/true").code == 0


@pytest.mark.parametrize("call", ["openat2", "landlock_add_rule"])
def test_an_optional_rule_that_the_kernel_has_no_memory_for_is_not_left_out(call: str) -> None:
    """Whoever is refused what a policy grants without a word would be told of a cage that is not the one asked for."""
    wanted = flat(scoped=False, landlock=ruled(LandlockRule("/usr", READ, **seen("/usr"), optional=True)))
    with pytest.raises(StartError) as caught:
        under(answering(ERRNO | errno.ENOMEM, call, {}), lambda: opened(wanted).__enter__())
    assert refusal(caught.value) == ("landlock_rule", "ENOMEM", "/usr")


def test_a_rule_means_what_the_cage_sees() -> None:
    """The path exists in the host as well, and is another one there."""
    shown = step("TMPFS", "/var", data="mode=1777")
    with opened(plan(shown, landlock=ruled(*SYSTEM, LandlockRule("/var", FS)))) as init:
        assert init.attempt("open('/var/x', 'w').close() or os.listdir('/var')") == "['x']"


def test_cage_init_looks_into_proc_although_its_commands_may_not() -> None:
    """Signals to a session go by what /proc says."""
    with opened(plan(landlock=ruled(LandlockRule("/usr", READ), LandlockRule("/dev", FS)))) as init:
        assert init.attempt("os.listdir('/proc')") == "EACCES"
        command = init.start("/bin/sleep", "1000")
        command.expect("started")
        init.signal(command, signal.SIGTERM, "session")
        assert os.waitstatus_to_exitcode(command.expect("exited").status) == -signal.SIGTERM


@pytest.mark.landlock(4)
def test_connections_are_refused_where_they_are_handled() -> None:
    tried = "socket.socket().connect(('127.0.0.1', 9))"
    with opened(plan(loopback=True, landlock=ruled(*SYSTEM, net=("CONNECT_TCP",)))) as init:
        assert init.attempt(tried) == "EACCES"
    with opened(plan(loopback=True, landlock=ruled(*SYSTEM))) as init:
        assert init.attempt(tried) == "ECONNREFUSED"


@pytest.mark.landlock(6)
def test_a_scoped_cage_signals_neither_its_init_nor_its_host_but_itself() -> None:
    tried = "[os.kill(pid, 0) for pid in ({},)]"
    with opened(flat(scoped=True)) as init:
        assert init.attempt(tried.format("os.getppid()")) == "EPERM"
        assert init.attempt(tried.format(os.getpid())) == "EPERM"
        assert init.attempt(tried.format("os.getpid()")) == "[None]"
    with opened(flat(scoped=False)) as init:
        assert init.attempt(tried.format("os.getppid()")) == "[None]"
        assert init.attempt(tried.format(os.getpid())) == "[None]"


@pytest.mark.landlock(6)
def test_the_host_s_abstract_sockets_are_out_of_reach() -> None:
    name = f"psb-{uuid.uuid4().hex}"
    tried = f"socket.socket(socket.AF_UNIX).connect('\\0{name}')"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{name}")
        listener.listen()
        with opened(flat(landlock=LandlockPlan(("MAKE_SYM",), (), (), ()))) as init:
            assert init.attempt(tried) == "None"
        with opened(flat(landlock=LandlockPlan(("MAKE_SYM",), (), ("ABSTRACT_UNIX_SOCKET",), ()))) as init:
            assert init.attempt(tried) == "EPERM"


@pytest.mark.parametrize("scoped", [pytest.param(True, marks=pytest.mark.landlock(6)), False])
def test_without_namespaces_the_end_of_the_cage_is_the_end_of_its_orphans(scoped: bool) -> None:
    """Everything in the cage holds the write end of a pipe: at its end-of-file nobody is left."""
    alive, held = os.pipe()
    try:
        with opened(flat(scoped=scoped)) as init:
            nested = "for i in 1 2 3; do (setsid sh -c '(sleep 1000 &); sleep 1000' &); done; exec sleep 1000"
            init.start("/bin/sh", "-c", nested, fds={3: held}).expect("started")
            os.close(held)
            assert not readable(alive, 0.05)
        assert readable(alive, PATIENCE) and os.read(alive, 1) == b""
    finally:
        os.close(alive)
