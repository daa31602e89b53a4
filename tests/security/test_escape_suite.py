"""Claim: in a cage with no file and no network grant every known way out fails. A new way is one more
line here.

The list is deliberately plain; each way has its own precise test elsewhere in this directory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Ground
from .harness import Expected, caged, policy, program, victim

pytestmark = pytest.mark.guest

ATTACK = """
    import socket
    def connect(address, family=socket.AF_INET):
        with socket.socket(family) as mine:
            mine.settimeout(5)
            mine.connect(address)
    def child(action):
        pid = action()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    one = (ctypes.c_uint64 * 4)(0, 1)
    attempt("read shadow", content, "/etc/shadow")
    attempt("read gshadow", content, "/etc/gshadow")
    attempt("read the secret", content, SECRET)
    attempt("list a home", os.listdir, os.path.dirname(SECRET))
    attempt("list root's home", os.listdir, "/root")
    attempt("list /home", os.listdir, "/home")
    attempt("list /run", os.listdir, "/run")
    attempt("list /sys", os.listdir, "/sys/kernel")
    attempt("list /var", os.listdir, "/var/log")
    attempt("write /etc", os.open, "/etc/psb", os.O_CREAT | os.O_WRONLY)
    attempt("write /usr", os.open, "/usr/psb", os.O_CREAT | os.O_WRONLY)
    attempt("write the host's /tmp", overwrite, MARK)
    attempt("ptrace", call, "ptrace", 16, VICTIM, 0, 0)
    attempt("read memory", content, f"/proc/{VICTIM}/mem")
    attempt("signal", os.kill, VICTIM, 9)
    attempt("kexec_load", call, "kexec_load", 0, 0, 0, 0)
    attempt("kexec_file_load", call, "kexec_file_load", -1, -1, 0, 0, 0)
    attempt("init_module", call, "init_module", 0, 0, "")
    attempt("finit_module", call, "finit_module", 0, "", 0)
    attempt("reboot", call, "reboot", 0, 0, 0, 0)
    attempt("swapon", call, "swapon", "/tmp/x", 0)
    attempt("mount", call, "mount", "none", "/tmp", "tmpfs", 0, 0)
    attempt("remount", call, "mount", "none", "/usr", 0, 4096 | 32, 0)
    attempt("umount", call, "umount2", "/proc", 2)
    attempt("pivot_root", call, "pivot_root", "/tmp", "/tmp")
    attempt("chroot", call, "chroot", "/tmp")
    attempt("fsopen", call, "fsopen", "tmpfs", 0)
    attempt("open_tree", call, "open_tree", -100, "/", 1)
    attempt("mount_setattr", call, "mount_setattr", -100, "/", 0x8000, one, 32)
    attempt("move_mount", call, "move_mount", -100, "/tmp", -100, "/usr", 0)
    attempt("unshare user", call, "unshare", 0x10000000)
    attempt("unshare mount", call, "unshare", 0x20000)
    attempt("clone user", child, lambda: call("clone", 0x10000000 | 17, 0, 0, 0, 0))
    attempt("clone3", child, lambda: call("clone3", (ctypes.c_uint64 * 11)(0x10000000, 0, 0, 0, 17), 88))
    attempt("setns", call, "setns", 0, 0)
    attempt("setuid 0", call, "setuid", 0)
    attempt("setgid 0", call, "setgid", 0)
    attempt("bpf", call, "bpf", 0, 0, 0)
    attempt("perf", call, "perf_event_open", 0, 0, -1, -1, 0)
    attempt("userfaultfd", call, "userfaultfd", 1)
    attempt("io_uring", call, "io_uring_setup", 1, (ctypes.c_uint32 * 30)())
    attempt("keyctl", call, "keyctl", 0, -3, 0)
    attempt("open by handle", call, "open_by_handle_at", 0, (ctypes.c_uint32 * 34)(128), 0)
    attempt("set the clock", call, "settimeofday", (ctypes.c_uint64 * 2)(), 0)
    attempt("set the name", call, "sethostname", "x", 1)
    attempt("kernel log", call, "syslog", 3, 0, 0)
    attempt("make a device", os.mknod, "/tmp/device", 0o60600, os.makedev(8, 0))
    attempt("open a disk", os.open, "/dev/vda", os.O_RDONLY)
    attempt("open memory", os.open, "/dev/mem", os.O_RDONLY)
    attempt("kernel switch", os.open, "/proc/sys/kernel/core_pattern", os.O_WRONLY)
    attempt("release agent", os.open, "/sys/fs/cgroup/release_agent", os.O_WRONLY)
    attempt("connect outside", connect, ("198.51.100.1", 80))
    attempt("connect to metadata", connect, ("169.254.169.254", 80))
    attempt("container socket", connect, "/var/run/docker.sock", socket.AF_UNIX)
    attempt("bus socket", connect, "/run/dbus/system_bus_socket", socket.AF_UNIX)
    attempt("raw socket", call, "socket", 2, 3, 1)
    attempt("packet socket", call, "socket", 17, 3, 0)
    attempt("terminal injection", call, "ioctl", 0, 0x5412, ctypes.create_string_buffer(b"x"))
"""


def test_every_way_out_fails(ground: Ground, isolation: str) -> None:
    mark = ground.outside.parent / "mark"
    mark.write_text("host")
    with victim() as target:
        attack = program(ATTACK, SECRET=str(ground.secret), MARK=str(mark), VICTIM=target.pid)

        report = caged(attack, policy(isolation))

        worked = {name for name, each in report.attempts.items() if each.errno is None}
        assert worked == set()
        assert len(report.attempts) > 55 and report.exit_code == 0, report.stderr
        assert target.untouched
    assert ground.unharmed and mark.read_text() == "host"


def test_the_ways_that_only_the_filter_closes_answer_its_errno(isolation: str) -> None:
    filtered: Expected = dict.fromkeys(
        ("kexec_load", "reboot", "mount", "umount", "chroot", "fsopen", "open_tree", "unshare user", "clone user",
         "setns", "bpf", "io_uring", "keyctl", "raw socket", "terminal injection"), "EPERM",
    )  # fmt: skip
    with victim() as target:
        report = caged(program(ATTACK, SECRET="/s", MARK="/m", VICTIM=target.pid), policy(isolation))

    assert {name: report[name].errno for name in filtered} == dict(filtered)
    assert report["clone3"].errno == "ENOSYS"


def test_the_second_pass_forks_until_eagain(attack_bin: Path) -> None:
    report = caged([str(attack_bin / "many"), "fork", "1000"], policy(max_pids=8, allow=[str(attack_bin)]))

    assert report["fork"].errno == "EAGAIN" and report["fork"].value < 8
