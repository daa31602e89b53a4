"""Claim: a cage that root starts, whether it has root's id outside or not, sets nothing of the hardware through /proc,
reads nothing that only root may read there, and changes no device node of the host, by path or by a descriptor.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pysandbox import DEVNULL, Grant

from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.root

PROC = """
    NUMBERS = set("0123456789")
    def opens(path, flags):
        try: os.close(os.open(path, flags | os.O_NONBLOCK))
        except OSError: return False
        return True
    writable, private = [], []
    for directory, directories, files in os.walk("/proc"):
        first = directory.split("/")[2:3]
        if first and (set(first[0]) <= NUMBERS or first[0] in ("self", "thread-self", "sys", "net")):
            directories[:] = []
            continue
        for name in files:
            path = directory + "/" + name
            try: found = os.stat(path)
            except OSError: continue
            if found.st_rdev: continue  # emptied
            if found.st_mode & 0o222 and opens(path, os.O_WRONLY): writable.append(path)
            if not found.st_mode & 0o004 and opens(path, os.O_RDONLY): private.append(path)
    say("writable", sorted(writable))
    say("private", sorted(private))
"""
# Anyone may open these: a trigger needs CAP_SYS_RESOURCE to be more than the caller's own.
HARMLESS = {"/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory", "/proc/pressure/irq"}

NODES = """
    for name in ("null", "zero", "random", "urandom", "tty"):
        attempt("chmod " + name, os.chmod, "/dev/" + name, 0o600)
        attempt("chown " + name, os.chown, "/dev/" + name, os.getuid(), os.getgid())
        attempt("utime " + name, os.utime, "/dev/" + name, (1, 1))
    for number in (0, 1, 2):
        attempt(f"fchmod {number}", os.fchmod, number, 0o600) if number != 1 else None
    open("/dev/null", "w").write("x")
    say("zero reads", len(open("/dev/zero", "rb", buffering=0).read(8)))
"""
NAMES = ("null", "zero", "random", "urandom", "tty")


def nodes() -> dict[str, tuple[int, int, int, float]]:
    found = {name: os.stat(f"/dev/{name}") for name in NAMES}
    return {name: (each.st_mode, each.st_uid, each.st_gid, each.st_mtime) for name, each in found.items()}


@pytest.mark.parametrize("run_as", ["nobody", "self", "root"])
def test_nothing_in_proc_is_set_and_nothing_private_is_read(run_as: str) -> None:
    control = uncaged(program(PROC))
    assert set(control["writable"].value) - HARMLESS and control["private"].value, "the control: root may"

    report = caged(program(PROC), policy(run_as=run_as))

    assert set(report["writable"].value) - HARMLESS == set()
    assert report["private"].value == []


@pytest.mark.parametrize("run_as", ["nobody", "self", "root"])
def test_the_device_nodes_of_the_host_stay_as_they_are(run_as: str) -> None:
    before = nodes()

    report = caged(program(NODES), policy(run_as=run_as), stderr=DEVNULL)

    kinds = ("chmod", "chown", "utime")
    assert report.differs({
        **{f"{kind} {name}": "EROFS" for kind in kinds for name in NAMES},
        "fchmod 0": "EROFS", "fchmod 2": "EROFS", "zero reads": None,
    }) == {}  # fmt: skip
    assert report["zero reads"].value == 8
    assert nodes() == before


MODES = """
    for path in ("/proc", "/proc/version", "/proc/net/tcp", "/proc/pressure", "/proc/bus"):
        mode = os.stat(path).st_mode & 0o7777  # the same again: it is one for all instances of /proc
        attempt("chmod " + path, os.chmod, path, mode)
        attempt("fchmod " + path, lambda: os.fchmod(os.open(path, os.O_RDONLY), mode))
    say("outside", open("/proc/self/uid_map").read().split()[1])
"""


@pytest.mark.parametrize("rules", [{}, {"egress": "direct", "unsafe_direct": True}], ids=["", "direct"])
def test_no_mode_in_proc_is_changed_with_root_s_own_id(rules: dict[str, object], tmp_path: Path) -> None:
    control = uncaged(program(MODES))
    assert [name for name, each in control.attempts.items() if each.errno] == [], "the control: root may"
    subprocess.run(["mount", "-t", "ramfs", "ramfs", str(tmp_path)], check=True)  # takes no mapping
    try:
        report = caged(program(MODES), policy(allow_write=[Grant(str(tmp_path))], **rules))
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)
    assert report["outside"].value == "0"
    assert {each.errno for name, each in report.attempts.items() if "chmod" in name} == {"EROFS"}


def test_uncaged_root_changes_a_node(tmp_path: object) -> None:
    """The control, on a node of its own."""
    made = f"{tmp_path}/null"
    subprocess.run(["mknod", "-m", "666", made, "c", "1", "3"], check=True)

    os.chmod(made, 0o600)

    assert os.stat(made).st_mode & 0o777 == 0o600
