"""csrc/steps.def: every step fails where it happened, with its errno and what it was about, and leaves nothing.

The leak guard around every test sees to the last part: no child, no descriptor, no mount. What an ordinary host can
bring about is brought about; for the rest one system call is made to fail (inject.py).
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pysandbox._native import ffi, lib

from pysandbox.compile.plan import Attr, LandlockPlan, LandlockRule, NotifyPlan, Plan

from .inject import ERRNO, KILL, answering, under
from .plans import EVERY, FS, ROOT, Refusal, bare, carry_out, flat, opened, plan, seen, step, why_not

pytestmark = pytest.mark.guest

PlanFor = Callable[[Path], Plan]
LONG = "/" + "x" * 300
DEEP = "/x" * 2050  # longer than PATH_MAX


def without(*namespaces: str, **changes: Any) -> dict[str, Any]:
    return {"namespaces": tuple(name for name in EVERY if name not in namespaces), **changes}


def ruled(*rules: LandlockRule, handled: tuple[str, ...] = FS) -> LandlockPlan:
    return LandlockPlan(handled, (), (), rules)


FILE = step("FILE", "/a", data="")
COVER = step("FILE", "/.cover", data="shown in its place")
READ_ONLY = (Attr.RDONLY,)


def swapped(host: Path) -> Plan:
    (host / "file").write_text("looked at")
    looked_at = seen(host / "file")
    (host / "file").rename(host / "gone")
    (host / "file").write_text("put in its place")
    return plan(step("BIND", "/in", source=str(host / "file"), **looked_at))


def on_another_device(host: Path) -> Plan:
    (host / "file").touch()
    looked_at = seen(host / "file")
    looked_at["dev"] += 1
    return plan(step("BIND", "/in", source=str(host / "file"), **looked_at))


def linked(host: Path) -> Plan:
    """The source was a directory on the way when it was looked at; now a symlink leads there."""
    (host / "real").mkdir()
    (host / "real" / "file").touch()
    (host / "link").symlink_to("real")
    return plan(step("BIND", "/in", source=str(host / "link" / "file"), **seen(host / "real" / "file")))


def with_link(kind: str, to: str = "/usr") -> PlanFor:
    """A tree bound to /tree, whose `link` leads elsewhere, and a step inside of it on the link."""

    def make(host: Path) -> Plan:
        (host / "link").symlink_to(to)
        return plan(step("BIND", "/tree", source=str(host)), step(kind, "/tree/link", inside_bind=True))

    return make


# A plan that this host cannot carry out: {name: (plan, step, errno, path)}; {host} is the test's directory.
PLANS: dict[str, tuple[Plan | PlanFor, str, str, str | None]] = {
    "namespaces without a user namespace": (plan(**without("USER")), "clone", "EPERM", None),
    "a host name beyond 64 bytes": (plan(hostname_prefix="long"), "hostname", "EINVAL", "h" * 65),
    "unknown options of the root": (bare(step("TMPFS", "/", data="colour=red")), "root", "EINVAL", "/mnt"),
    "no place for the root": (bare(ROOT, staging="/mnt/nowhere"), "root", "ENOENT", "/mnt/nowhere"),
    "a directory below a file": (plan(FILE, step("DIR", "/a/b")), "mkdir", "ENOTDIR", "/a/b"),
    "the parent of a directory below a file": (plan(FILE, step("DIR", "/a/b/c")), "mkdir", "ENOTDIR", "/a/b/c"),
    "a name beyond 255 bytes": (plan(step("DIR", LONG)), "mkdir", "ENAMETOOLONG", LONG[:247]),
    "a file where a directory is": (plan(step("FILE", "/tmp", data="")), "file", "EISDIR", "/tmp"),
    "a file below a file": (plan(FILE, step("FILE", "/a/b", data="")), "file", "ENOTDIR", "/a/b"),
    "a file over a symlink": (
        plan(step("SYMLINK", "/a", source="/b"), step("FILE", "/a", data="")), "file", "ELOOP", "/a"),
    "a symlink to nothing at all": (plan(step("SYMLINK", "/a", source="")), "symlink", "ENOENT", "/a"),
    "a source that is not there": (plan(step("BIND", "/in", source="/nowhere")), "source", "ENOENT", "/nowhere"),
    "a source that may not be reached": (
        plan(step("BIND", "/in", source="/root/any")), "source", "EACCES", "/root/any"),
    "a verified source behind a symlink": (linked, "source", "ELOOP", "{host}/link/file"),
    "a pin on a symlink": (with_link("PIN"), "target", "ELOOP", "/tree/link"),
    "a pin on nothing": (plan(step("PIN", "/usr/nowhere", inside_bind=True)), "target", "ENOENT", "/usr/nowhere"),
    "a source that was swapped": (swapped, "source_changed", "ESTALE", "{host}/file"),
    "a source with the number of one on another device": (
        on_another_device, "source_changed", "ESTALE", "{host}/file"),
    "a rule for what was swapped": (
        plan(landlock=ruled(LandlockRule("/usr", FS, dev=1, ino=1))), "source_changed", "ESTALE", "/usr"),
    "a target beyond PATH_MAX": (plan(step("DIR", DEEP)), "target", "ENAMETOOLONG", DEEP[:247]),
    "a target that is not in the tree": (
        plan(step("MASK_FILE", "/usr/nowhere", inside_bind=True)), "target", "ENOENT", "/usr/nowhere"),
    "a file masked through a symlink": (with_link("MASK_FILE"), "target", "ELOOP", "/tree/link"),
    "a directory masked through a symlink": (with_link("MASK_DIR"), "target", "ELOOP", "/tree/link"),
    "a file denied through a symlink": (with_link("DENY_FILE"), "target", "ELOOP", "/tree/link"),
    "a directory denied through a symlink": (with_link("DENY_DIR"), "target", "ELOOP", "/tree/link"),
    "a directory denied through a dangling symlink": (with_link("DENY_DIR", "/no"), "target", "ELOOP", "/tree/link"),
    "a directory bound over a file": (plan(FILE, step("BIND", "/a", source="/usr")), "bind", "ENOTDIR", "/a"),
    "unknown options of a tmpfs": (plan(step("TMPFS", "/t", data="colour=red")), "tmpfs", "EINVAL", "/t"),
    "procfs without a PID namespace": (plan(**without("PID")), "proc", "EPERM", "/proc"),
    "unknown options of devpts": (plan(step("DEVPTS", "/dev/pts", data="colour=red")), "devpts", "EINVAL", "/dev/pts"),
    "queues without an IPC namespace": (
        plan(step("MQUEUE", "/dev/mqueue"), **without("IPC")), "mqueue", "EPERM", "/dev/mqueue"),
    "a file masked where there is no /dev/null": (
        bare(ROOT, FILE, step("MASK_FILE", "/a")), "mask", "ENOENT", "/a"),
    "a file masked as a directory": (plan(FILE, step("MASK_DIR", "/a", inside_bind=True)), "mask", "ENOTDIR", "/a"),
    "a file denied as a directory": (plan(FILE, step("DENY_DIR", "/a", inside_bind=True)), "deny", "ENOTDIR", "/a"),
    "a directory denied as a file": (plan(step("DENY_FILE", "/usr", inside_bind=True)), "deny", "ENOTDIR", "/usr"),
    "a file denied where somebody has the cover's name": (
        plan(FILE, COVER, step("DENY_FILE", "/a", inside_bind=True)), "deny", "EEXIST", "/a"),
    "a directory denied where somebody has the cover's name": (
        plan(COVER, step("DENY_DIR", "/tmp", inside_bind=True)), "deny", "EEXIST", "/tmp"),
    "attributes on what is no mount": (plan(step("PROTECT", "/tmp", attrs=READ_ONLY)), "protect", "EINVAL", "/tmp"),
    "attributes on nothing": (plan(step("PROTECT", "/nowhere", attrs=READ_ONLY)), "protect", "ENOENT", "/nowhere"),
    "unknown options of the layer of overlays": (
        plan(step("UPPER", "/", data="colour=red")), "upper", "EINVAL", "colour=red"),
    "an overlay without a layer": (
        plan(step("OVERLAY", "/tmp", source="/usr", data="0", **seen("/usr"))), "upper", "ENOENT", "/tmp"),
    "an overlay over a file": (
        plan(FILE, step("UPPER", "/"), step("OVERLAY", "/a", source="/usr", data="0", **seen("/usr"))),
        "overlay", "ENOTDIR", "/a"),
    "a root that is no mount": (bare(), "pivot_root", "EINVAL", "/mnt"),
    "loopback without a network namespace": (plan(**without("NET", loopback=True)), "loopback", "EPERM", "lo"),
    "a ruleset that handles nothing": (plan(landlock=ruled(handled=())), "landlock_ruleset", "ENOMSG", None),
    "a rule on nothing": (
        plan(landlock=ruled(LandlockRule("/nowhere", FS))), "landlock_rule", "ENOENT", "/nowhere"),
    "a rule through a symlink": (
        plan(step("SYMLINK", "/a", source="/usr"), landlock=ruled(LandlockRule("/a", FS))),
        "landlock_rule", "ELOOP", "/a"),
    "a rule on a file with rights of directories": (
        plan(FILE, landlock=ruled(LandlockRule("/a", FS))), "landlock_rule", "EINVAL", "/a"),
    "a rule with rights that are not handled": (
        plan(landlock=ruled(LandlockRule("/usr", ("EXECUTE",)), handled=("MAKE_REG",))),
        "landlock_rule", "EINVAL", "/usr"),
}  # fmt: skip

# One call of the start answers with EIO: {(call, arguments): (step, path)}.
FULL, FLAT = plan(loopback=True), flat()
MS_PRIVATE, MS_REC = 1 << 18, 1 << 14
INJECTED: list[tuple[str, dict[int, int], Plan, str, str | None]] = [
    ("socketpair", {}, FULL, "control", "socketpair"),
    ("pidfd_open", {}, FULL, "control", "pidfd_open"),
    ("write", {2: len("deny")}, FULL, "setgroups", "/proc/self/setgroups"),
    ("write", {2: len("32768")}, FULL, "user_counts", "/proc/sys/user/max_inotify_watches"),
    ("keyctl", {}, FULL, "keyring", None),
    ("sethostname", {}, FULL, "hostname", "cage"),
    ("setdomainname", {}, FULL, "hostname", "(none)"),
    ("mount", {3: MS_REC | MS_PRIVATE}, FULL, "propagation", "/"),
    ("chdir", {}, FULL, "pivot_root", "/mnt"),
    ("pivot_root", {}, FULL, "pivot_root", "/mnt"),
    ("umount2", {}, FULL, "detach", "/"),
    ("socket", {}, FULL, "loopback", "lo"),
    ("prctl", {0: 24}, FULL, "caps", "bounding set"),  # PR_CAPBSET_DROP
    ("capset", {}, FULL, "caps", "capset"),
    ("prctl", {0: 38}, FULL, "no_new_privs", None),
    ("landlock_create_ruleset", {}, FLAT, "landlock_ruleset", None),
    ("landlock_restrict_self", {}, FLAT, "landlock_scope", None),
    ("dup3", {}, FULL, "init_fds", None),
    ("close_range", {}, FULL, "init_fds", None),
    ("execveat", {}, FULL, "init_exec", "cage-init"),
]

# An order that cannot be carried out: {name: (argv, options, step, errno, path)}.
LIMIT_UNKNOWN = ffi.buffer(ffi.new("struct psb_limit *", {"resource": 99}))[:]
TRUE = ("/bin/true",)
ORDERS: dict[str, tuple[tuple[str, ...], dict[str, Any], str, str, str | None]] = {
    "a descriptor number that is none": (TRUE, {"fds": {2**31 - 1: 2}}, "order", "EINVAL", None),
    "no controlling terminal": (TRUE, {"terminal": True}, "terminal", "ENOTTY", "controlling terminal"),
    "a descriptor number beyond the limit": (TRUE, {"fds": {2**30: 2}}, "fds", "EINVAL", None),
    "a directory that is not there": (TRUE, {"cwd": "/nowhere"}, "chdir", "ENOENT", "/nowhere"),
    "a directory that is a file": (TRUE, {"cwd": "/dev/null"}, "chdir", "ENOTDIR", "/dev/null"),
    "an unknown resource": (TRUE, {"limits": LIMIT_UNKNOWN, "n_limits": 1}, "limit", "EINVAL", None),
    "no such program": (("/nowhere",), {}, "exec", "ENOENT", "/nowhere"),
    "a program that is a directory": (("/tmp",), {}, "exec", "EACCES", "/tmp"),
    "a program that is none": (("/script",), {}, "exec", "ENOEXEC", "/script"),
    "an interpreter that is not there": (("/orphan",), {}, "exec", "ENOENT", "/orphan"),
    "an argument beyond the kernel's limit": (("/bin/true", "x" * 200_000), {}, "exec", "E2BIG", "/bin/true"),
}  # fmt: skip
SCRIPTS = (step("FILE", "/script", data="echo hello\n"), step("FILE", "/orphan", data="#!/nowhere\n"))

# One call of a command's start answers with EIO: {(call, arguments): (step, path)}.
FORK_FLAGS = 0x100 | 17  # CLONE_VM | SIGCHLD: no other clone of the test has just these
BROKEN_FILTER = b"\xff" * 8
INJECTED_LATER: list[tuple[str, dict[int, int], Plan, str, str | None]] = [
    ("clone", {0: FORK_FLAGS}, FULL, "fork", None),
    ("pipe2", {}, FULL, "fork", None),
    ("setsid", {}, FULL, "setsid", None),
    ("landlock_restrict_self", {}, plan(landlock=ruled(LandlockRule("/", FS))), "landlock", None),
]


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_that_cannot_be_carried_out_says_where(name: str, tmp_path: Path) -> None:
    wanted, where, number, path = PLANS[name]
    made = wanted if isinstance(wanted, Plan) else wanted(tmp_path)
    expected: Refusal = where, number, path if path is None else path.replace("{host}", str(tmp_path))
    assert why_not(made, hostname="h" * 65 if made.hostname_prefix else "cage") == expected


@pytest.mark.parametrize(("ids", "where"), [({"uid": 0}, "uid_map"), ({"gid": 0}, "gid_map")], ids=["uid", "gid"])
def test_an_id_that_is_not_ours_cannot_be_mapped(ids: dict[str, int], where: str) -> None:
    assert why_not(plan(), **ids) == (where, "EPERM", f"/proc/self/{where}")


def test_a_program_that_is_none_cannot_be_init(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    assert why_not(plan(), program=str(tmp_path / "text")) == ("init_exec", "EACCES", "cage-init")
    (tmp_path / "text").chmod(0o755)
    assert why_not(plan(), program=str(tmp_path / "text")) == ("init_exec", "ENOEXEC", "cage-init")


CALLS = ("call", "arguments", "wanted", "where", "path")
SCOPED = pytest.mark.landlock(6)


@pytest.mark.parametrize(
    CALLS,
    [
        pytest.param(*row, marks=SCOPED if row[3] == "landlock_scope" else (), id=f"{row[0]} {row[3]}")
        for row in INJECTED
    ],
)
def test_a_call_that_fails_in_the_start_says_where(
    call: str, arguments: dict[int, int], wanted: Plan, where: str, path: str | None
) -> None:
    filter_ = answering(ERRNO | errno.EIO, call, arguments)
    assert under(filter_, lambda: why_not(wanted)) == (where, "EIO", path)


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_that_cannot_be_carried_out_says_where_and_the_cage_goes_on(name: str) -> None:
    argv, options, where, number, path = ORDERS[name]
    with opened(plan(*SCRIPTS)) as init:
        assert init.refused(*argv, **options) == (where, number, path)
        assert init.run("/bin/true").result == (0, "")


def test_a_filter_that_is_none_is_refused_for_each_command() -> None:
    with opened(plan(seccomp_late=BROKEN_FILTER)) as init:
        assert init.refused("/bin/true") == ("seccomp", "EINVAL", None)
        assert init.refused("/bin/true") == ("seccomp", "EINVAL", None)


def test_a_listener_that_cannot_be_had_is_an_error_of_the_start() -> None:
    notify = NotifyPlan(
        (), (), (), no_external_reach=True, abstract=True, refuse_control=False, lenient=False, programs=None
    )
    wanted = plan(seccomp=BROKEN_FILTER, notify=notify)
    assert why_not(wanted) == ("listener", "EINVAL", None)


@pytest.mark.parametrize(CALLS, INJECTED_LATER, ids=[row[3] for row in INJECTED_LATER])
def test_a_call_that_fails_for_a_command_says_where(
    call: str, arguments: dict[int, int], wanted: Plan, where: str, path: str | None
) -> None:
    init = under(answering(ERRNO | errno.EIO, call, arguments), lambda: carry_out(wanted))
    try:
        assert init.refused("/bin/true") == (where, "EIO", path)
    finally:
        init.close()


@pytest.mark.parametrize("call", ["setdomainname", "pivot_root", "capset"])
def test_a_setup_that_is_killed_is_an_error_too(call: str) -> None:
    assert under(answering(KILL, call, {}), lambda: why_not(plan())) == ("init_exec", "ESRCH", "cage-init")


def test_no_step_is_without_a_failure() -> None:
    """A step that is added to steps.def needs a row above."""
    named: set[str] = set()
    while name := lib.psb_step_name(len(named)):
        named.add(ffi.string(name).decode())
    shown = {"uid_map", "gid_map", "init_exec", "seccomp", "cgroup", "listener"}  # in tests of their own
    shown |= {"idmap", "outside"}  # root's alone: test_passage.py
    shown |= {"threads"}  # of a process that confines itself: tests/security/test_a_confined_process_stays_confined.py
    shown |= {"door_enter", "door_route", "door_redirect", "door_socket"}  # test_netns.py
    shown |= {row[1] for row in PLANS.values()} | {row[3] for row in INJECTED}
    shown |= {row[2] for row in ORDERS.values()} | {row[3] for row in INJECTED_LATER}
    assert named - shown == {"none"}
    assert shown <= named
