"""csrc/setup/userns.c: one uid and one gid, names of its own, a keyring of its own."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from .inject import ERRNO, answering, under
from .plans import EVERY, carry_out, flat, opened, plan

pytestmark = pytest.mark.guest

FILES = {"USER": "user", "PID": "pid", "NS": "mnt", "IPC": "ipc", "UTS": "uts", "CGROUP": "cgroup", "NET": "net"}
SESSION_KEYRING = "ctypes.CDLL(None).syscall({keyctl}, 0, -3, 0)"  # KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING


def of(pid: int | str, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8")


@pytest.mark.parametrize("inside", [0, 1000, 65534])
def test_one_uid_and_one_gid_are_mapped_and_groups_stay(inside: int) -> None:
    with opened(plan(inside_uid=inside, inside_gid=inside)) as init:
        assert of(init.pid, "uid_map").split() == [str(inside), str(os.getuid()), "1"]
        assert of(init.pid, "gid_map").split() == [str(inside), str(os.getgid()), "1"]
        assert of(init.pid, "setgroups") == "deny\n"
        assert init.attempt("os.getresuid() + os.getresgid()") == str((inside,) * 6)
        assert init.attempt("os.setgroups([])") == "EPERM"


def test_minus_one_keeps_the_caller_s_ids() -> None:
    with opened(plan(inside_uid=-1, inside_gid=-1)) as init:
        assert init.attempt("os.getuid(), os.getgid()") == f"{os.getuid()} {os.getgid()}"


def test_the_names_are_the_cage_s() -> None:
    before = os.uname()
    with opened(plan(), hostname="h" * 64) as init:
        assert init.attempt("os.uname().nodename") == "h" * 64
        assert init.sh("cat /proc/sys/kernel/domainname").said == "(none)\n"
    assert os.uname() == before


def test_every_namespace_of_the_plan_is_new() -> None:
    with opened(plan()) as init:
        ours, theirs = ({name: os.readlink(f"/proc/{pid}/ns/{file}") for name, file in FILES.items()}
                        for pid in ("self", init.pid))  # fmt: skip
    assert [name for name in EVERY if ours[name] == theirs[name]] == []


@pytest.mark.parametrize("name", ["IPC", "UTS", "CGROUP", "NET"])
def test_a_namespace_that_the_plan_leaves_out_is_the_host_s(name: str) -> None:
    with opened(plan(namespaces=tuple(each for each in EVERY if each != name))) as init:
        assert os.readlink(f"/proc/{init.pid}/ns/{FILES[name]}") == os.readlink(f"/proc/self/ns/{FILES[name]}")
        assert init.run("/bin/true").code == 0


@pytest.mark.parametrize("number", ["EDQUOT", "ENOSYS", "EPERM", "EACCES"])
def test_a_host_that_refuses_another_keyring_still_has_cages(number: str) -> None:
    filter_ = answering(ERRNO | getattr(errno, number), "keyctl", {})
    init = under(filter_, lambda: carry_out(plan()))
    try:
        assert init.run("/bin/true").code == 0
    finally:
        init.close()


@pytest.mark.parametrize("mode", ["full", "flat"])
def test_the_session_keyring_is_the_cage_s_own(mode: str) -> None:
    from .inject import NUMBERS, libc

    ours = libc.syscall(NUMBERS["keyctl"], 0, -3, 0)
    asked = SESSION_KEYRING.format(keyctl=NUMBERS["keyctl"])
    with opened(plan() if mode == "full" else flat()) as init:
        theirs = int(init.attempt(asked))
        assert theirs > 0 and theirs != ours
        assert int(init.attempt(asked)) == theirs, "every command has the cage's"
