"""Claim: /proc is the cage's own with the kernel's sensitive files emptied and its switches read-only; /dev is
minimal.
"""

from __future__ import annotations

import pytest

from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.guest

READ = """
    for name in ("kcore", "keys", "key-users", "sysrq-trigger", "timer_list", "latency_stats", "kallsyms", "schedstat"):
        attempt(name, content, "/proc/" + name)
    for name in ("acpi", "scsi"):
        attempt(name, os.listdir, "/proc/" + name)
"""

WRITE = """
    for name in ("sys/kernel/core_pattern", "sys/kernel/hostname", "sys/vm/overcommit_memory", "sys/kernel/ns_last_pid",
                 "sys/user/max_user_namespaces", "sys/net/ipv4/ip_forward", "sysrq-trigger"):
        attempt(name, overwrite, "/proc/" + name)
    say("/proc/sys", "read-only" if os.statvfs("/proc/sys").f_flag & os.ST_RDONLY else "writable")
"""

DEV = """
    say("entries", sorted(os.listdir("/dev")))
    attempt("null", overwrite, "/dev/null")
    attempt("zero", content, "/dev/zero")
    attempt("urandom", content, "/dev/urandom")
    for name in ("kmsg", "mem", "port", "fuse", "kvm", "vda", "loop-control", "net/tun", "console"):
        attempt(name, content, "/dev/" + name)
    attempt("device made", os.mknod, "/tmp/device", 0o20600, os.makedev(1, 1))
"""

ALLOWED = {"null", "zero", "full", "random", "urandom", "tty", "stdin", "stdout", "stderr", "fd", "shm", "pts", "ptmx",
           "mqueue", "console", "core"}  # fmt: skip
PLACES = {
    "/",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/etc",
    "/dev",
    "/proc",
    "/tmp",
    "/var",
    "/scratch",
}
GONE = ("kmsg", "mem", "port", "fuse", "kvm", "vda", "loop-control", "net/tun", "console")

MOUNTS = """
    attempt("mountinfo", lambda: open("/proc/self/mountinfo").read())
    attempt("init's mountinfo", content, "/proc/1/mountinfo")
"""


def test_sensitive_files_read_as_empty() -> None:
    report = caged(program(READ), policy())

    told = {name: each.value for name, each in report.attempts.items() if each.errno is None and each.value}
    assert told == {}
    assert len(report.attempts) == 10
    assert uncaged(program(READ))["kallsyms"].value, "the control: it says something to anyone on the host"


def test_no_switch_of_the_kernel_is_writable() -> None:
    report = caged(program(WRITE), policy())

    assert report["/proc/sys"].value == "read-only"
    wrote = {name for name, each in report.attempts.items() if each.errno is None}
    assert wrote <= {"/proc/sys", "sysrq-trigger"}, "a mask, /dev/null over the file, swallows what is written"


def test_dev_holds_no_device_of_the_machine() -> None:
    report = caged(program(DEV), policy())

    assert set(report["entries"].value) <= ALLOWED
    assert report.differs({"entries": None, "null": None, "zero": None, "urandom": None, "device made": "EPERM",
                           **dict.fromkeys(GONE, ("ENOENT", "ENXIO", "EACCES"))}) == {}  # fmt: skip


def test_the_mount_table_holds_the_view_and_no_mount_of_the_host() -> None:
    report = caged(program(MOUNTS), policy())

    points = {line.split()[4] for line in report["mountinfo"].value.splitlines()}
    assert "/proc" in points and {"/" + point.split("/")[1] for point in points} <= PLACES
    assert report["init's mountinfo"].errno == "EACCES" or report["init's mountinfo"].value == ""
    host = {line.split()[4] for line in uncaged(program(MOUNTS))["mountinfo"].value.splitlines()}
    assert any("/" + point.split("/")[1] not in PLACES for point in host), (
        "the control: the host has others, such as /sys"
    )
