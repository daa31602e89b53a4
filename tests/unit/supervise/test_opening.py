"""What the supervisor opens for a program: which files of procfs, with which rights, and which descriptors again."""

from __future__ import annotations

import fcntl
import os
from errno import EACCES

import pytest

from pysandbox.compile.plan import LandlockPlan, LandlockRule
from pysandbox.handlers.call import Call
from pysandbox.supervise import opening
from pysandbox.supervise.rights import TMPFILE, require_rights, rights

R, W, RW = os.O_RDONLY, os.O_WRONLY, os.O_RDWR
CREATE, EMPTY = os.O_CREAT, os.O_TRUNC
CALL = Call("OPEN", "openat", os.getpid())
OWN, OTHER = "7", "8"  # numbers of the caller and of another process, in the cage


@pytest.fixture(autouse=True)
def _numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "inner", lambda tid, name: OWN)


@pytest.mark.parametrize(
    ("path", "read", "written"),
    [
        # of the caller itself: all but its memory; to write, what any program may change of itself
        ("/proc/7/maps", True, False),
        ("/proc/7/environ", True, False),
        ("/proc/7/comm", True, True),
        ("/proc/7/oom_score_adj", True, True),
        ("/proc/7/coredump_filter", True, True),
        ("/proc/7/timerslack_ns", True, True),
        ("/proc/7/mem", False, False),
        ("/proc/7/task/9/maps", True, False),
        ("/proc/7/task/9/comm", True, True),
        ("/proc/7/task/9/mem", False, False),
        ("/proc/7", True, False),
        # of another process: what is open to all
        ("/proc/8", True, False),
        ("/proc/8/stat", True, False),
        ("/proc/8/status", True, False),
        ("/proc/8/cmdline", True, False),
        ("/proc/8/task", True, False),
        ("/proc/8/task/9", True, False),
        ("/proc/8/task/9/stat", True, False),
        ("/proc/8/comm", True, False),
        ("/proc/8/maps", False, False),
        ("/proc/8/environ", False, False),
        ("/proc/8/mem", False, False),
        ("/proc/8/fd", False, False),
        ("/proc/8/task/9/maps", False, False),
        ("/proc/8/task/9/mem", False, False),
        ("/proc/8/oom_score_adj", False, False),
        # of nobody: what is the same for everybody, to read
        ("/proc", True, False),
        ("/proc/meminfo", True, False),
        ("/proc/sys", True, False),
        ("/proc/sys/vm/overcommit_memory", True, False),
        ("/proc/sys/kernel/hostname", True, False),
        ("/proc/sys/fs/file-max", True, False),
        ("/proc/sysvipc/shm", False, False),
        ("/proc/net/tcp", False, False),
        ("/proc/keys", False, False),
        ("/proc/sys/net/core/somaxconn", False, False),
        ("/proc/sys/user/max_user_namespaces", False, False),
        ("/proc/sys/fs/mqueue/queues_max", False, False),
        ("/proc/sys/kernel/shmmax", False, False),
        ("/proc/sys/kernel/pid_max", False, False),
    ],
)
def test_of_procfs_a_caller_gets_what_is_its_own_or_the_same_for_all(path: str, read: bool, written: bool) -> None:
    def allowed(flags: int) -> bool:
        try:
            opening._judge_proc(path, CALL, flags)
        except PermissionError:
            return False
        return True

    assert allowed(R) is read
    assert {allowed(flags) for flags in (W, RW, R | EMPTY, R | CREATE)} == {written}


@pytest.mark.parametrize(
    ("path", "number"),
    [
        ("/dev/stdin", 0),
        ("/dev/stdout", 1),
        ("/dev/stderr", 2),
        ("/proc/7/fd/5", 5),
        ("/proc/7/task/9/fd/5", 5),
        ("/proc/8/fd/5", None),
        ("/proc/8/task/7/fd/5", None),
        ("/proc/7/fd/5/x", None),
        ("/proc/7/fd/", None),
        ("/proc/7/fdinfo/5", None),
        ("/x/proc/7/fd/5", None),
    ],
)
def test_a_descriptor_is_named_by_its_owner_alone(path: str, number: int | None) -> None:
    assert opening._descriptor_named(CALL, path) == number


class Holder:
    """A caller with one open descriptor of /dev/null."""

    def __init__(self, flags: int) -> None:
        self._flags = flags
        self.taken = -1

    def take_fd(self, number: int) -> int:
        self.taken = os.open("/dev/null", self._flags)
        return self.taken


@pytest.mark.parametrize(
    ("has", "asked", "given"),
    [(R, R, True), (W, W, True), (RW, R, True), (RW, W, True), (RW, RW, True), (R, W, False), (R, RW, False),
     (W, R, False), (W, RW, False)],
)  # fmt: skip
def test_a_descriptor_is_given_again_with_no_more_than_it_has(has: int, asked: int, given: bool) -> None:
    caller = Holder(has)
    if given:
        fd = opening._duplicate(caller, 5, asked)  # type: ignore[arg-type]
        assert fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == has
        os.close(fd)
        return
    with pytest.raises(PermissionError):
        opening._duplicate(caller, 5, asked)  # type: ignore[arg-type]
    with pytest.raises(OSError):
        os.fstat(caller.taken)  # nothing of it is kept


@pytest.mark.parametrize(
    ("flags", "directory", "asked"),
    [
        (R, False, {"READ_FILE"}),
        (W, False, {"WRITE_FILE"}),
        (RW, False, {"READ_FILE", "WRITE_FILE"}),
        (R | EMPTY, False, {"READ_FILE", "TRUNCATE"}),
        (W | EMPTY, False, {"WRITE_FILE", "TRUNCATE"}),
        (R, True, {"READ_DIR"}),
        (R | os.O_DIRECTORY, True, {"READ_DIR"}),
        (RW, True, {"READ_DIR", "WRITE_FILE"}),
        (RW | TMPFILE, True, {"READ_FILE", "WRITE_FILE"}),
    ],
)
def test_an_open_needs_the_rights_that_landlock_asks_for(flags: int, directory: bool, asked: set[str]) -> None:
    assert rights(flags, directory) == asked


RULES = LandlockPlan(
    ("READ_FILE", "WRITE_FILE"), (), (),
    (LandlockRule("/a", ("READ_FILE",)), LandlockRule("/a/b", ("WRITE_FILE",)), LandlockRule("", ("WRITE_FILE",))),
)  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "path", "asked", "granted"),
    [
        (RULES, "/a/x", {"READ_FILE"}, True),
        (RULES, "/a", {"READ_FILE"}, True),
        (RULES, "/ab", {"READ_FILE"}, False),
        (RULES, "/a/x", {"WRITE_FILE"}, False),
        (RULES, "/a/b", {"READ_FILE", "WRITE_FILE"}, True),
        (RULES, "/a/b/x", {"READ_FILE", "WRITE_FILE"}, True),
        (RULES, "/c", {"MAKE_REG"}, True),  # not handled
        (RULES, "/c", {"MAKE_REG", "READ_FILE"}, False),
        (RULES, "/c", set(), True),
        (None, "/c", {"READ_FILE"}, True),
    ],
)
def test_each_right_that_is_handled_is_granted_by_a_rule_on_the_file_or_above(
    plan: LandlockPlan | None, path: str, asked: set[str], granted: bool
) -> None:
    if granted:
        require_rights(plan, path, asked)
        return
    with pytest.raises(PermissionError) as caught:
        require_rights(plan, path, asked)
    assert (caught.value.errno, caught.value.filename) == (EACCES, path)
