"""Claim: no namespace can be created or joined from a cage: unshare, clone, clone3 and setns, whatever bits
surround the flag.
"""

from __future__ import annotations

import pytest

from .harness import OWN_PROC, caged, policy, program, uncaged

pytestmark = pytest.mark.guest

FLAGS = {
    "NEWNS": 0x00020000, "NEWCGROUP": 0x02000000, "NEWUTS": 0x04000000, "NEWIPC": 0x08000000,
    "NEWUSER": 0x10000000, "NEWPID": 0x20000000, "NEWNET": 0x40000000,
}  # fmt: skip
NEWTIME = 0x00000080  # for unshare and clone3 only: in clone it is part of the exit signal

ATTACK = """
    import functools
    def clone(flags):
        pid = call("clone", flags | signal.SIGCHLD, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    def clone3(flags):
        arguments = (ctypes.c_uint64 * 11)(flags, 0, 0, 0, signal.SIGCHLD)
        pid = call("clone3", arguments, 88)
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    def in_a_child(action, flags):
        # unshare would change this process for the attempts that follow
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            number = 0
            try:
                action(flags)
            except OSError as error:
                number = error.errno
            os.write(write_end, b"%d" % number)
            os._exit(0)
        os.waitpid(pid, 0)
        number = int(os.read(read_end, 100))
        os.close(read_end), os.close(write_end)
        if number:
            raise OSError(number, "")

    for name, flag in FLAGS.items():
        attempt("unshare " + name, in_a_child, lambda flags: call("unshare", flags), flag)
        attempt("clone " + name, in_a_child, clone, flag)
        attempt("clone " + name + " with upper bits", in_a_child, clone, flag | 1 << 40)
        attempt("clone3 " + name, in_a_child, clone3, flag)
    attempt("unshare NEWTIME", in_a_child, lambda flags: call("unshare", flags), 0x80)
    everything = functools.reduce(int.__or__, FLAGS.values())
    attempt("unshare everything", in_a_child, lambda flags: call("unshare", flags), everything)
    attempt("clone with threads' flags and NEWUSER", in_a_child, clone, FLAGS["NEWUSER"] | 0x4000)
"""

JOIN = """
    for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup"):
        fd = os.open(f"/proc/self/ns/{name}", os.O_RDONLY)
        attempt("setns " + name, call, "setns", fd, 0)
    attempt("setns of a process", lambda: call("setns", call("pidfd_open", os.getpid(), 0), 0x10000000))
"""

PLAIN = """
    def thread_of_work():
        pid = os.fork()
        if pid == 0:
            os._exit(7)
        return os.WEXITSTATUS(os.waitpid(pid, 0)[1])
    attempt("fork", thread_of_work)
    import _thread
    lock = _thread.allocate_lock()
    lock.acquire()
    _thread.start_new_thread(lock.release, ())
    lock.acquire()
    say("thread")
"""

JOINED = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
REFUSED = {
    **{f"{way} {name}": "EPERM" for name in FLAGS for way in ("unshare", "clone")},
    **{f"clone {name} with upper bits": "EPERM" for name in FLAGS},
    **{f"clone3 {name}": "ENOSYS" for name in FLAGS},
    "unshare NEWTIME": "EPERM",
    "unshare everything": "EPERM",
    "clone with threads' flags and NEWUSER": "EPERM",
}


@pytest.mark.parametrize(
    ("isolation", "run_as"),
    [("full", "nobody"), ("full", "root"), pytest.param("landlock", "self", marks=pytest.mark.landlock(6))],
)
def test_no_namespace_is_made(isolation: str, run_as: str) -> None:
    report = caged(program(ATTACK, FLAGS=FLAGS), policy(isolation, run_as=run_as))

    assert report.differs(REFUSED) == {}


def test_uncaged_a_user_namespace_brings_all_the_others() -> None:
    together = {name: flag | FLAGS["NEWUSER"] for name, flag in FLAGS.items()}

    report = uncaged(program(ATTACK, FLAGS=together))

    worked = {
        name: None for name in REFUSED if name not in ("unshare NEWTIME", "clone with threads' flags and NEWUSER")
    }
    assert {name: pair for name, pair in report.differs(worked).items() if name in worked} == {}


def test_no_namespace_is_joined(isolation: str) -> None:
    report = caged(program(JOIN), policy(isolation, allow=OWN_PROC[isolation]))

    refused = dict.fromkeys([f"setns {name}" for name in JOINED], "EPERM")
    assert report.differs({**refused, "setns of a process": "EPERM"}) == {}


def test_plain_processes_and_threads_still_start(isolation: str) -> None:
    report = caged(program(PLAIN), policy(isolation))

    assert (report["fork"].value, report["thread"].errno) == (7, None)


@pytest.mark.parametrize("profile", ["seed-187", "default", "relaxed"])
@pytest.mark.parametrize("mode", ["allow-list", "deny-list"])
def test_no_profile_opens_them(profile: str, mode: str) -> None:
    report = caged(program(ATTACK, FLAGS=FLAGS), policy(seccomp=profile, seccomp_mode=mode))

    assert report.differs(REFUSED) == {}
