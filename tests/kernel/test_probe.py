"""csrc/host/probe/probe.c: it compiles without a warning anywhere, and its probes leave no trace of themselves."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "csrc/host/probe/probe.c"
WARNINGS = ("-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wvla")
COMPILERS = [name for name in ("gcc", "clang", "aarch64-linux-gnu-gcc") if shutil.which(name)]
PARTS_OF_FULL = ("USER_NS", "PID_NS", "MOUNT_NS", "NET_NS", "IPC_NS", "UTS_NS", "CGROUP_NS", "PROC", "MOUNT_SETATTR")


@pytest.fixture(scope="module")
def lib() -> Any:
    from pysandbox._native import lib

    return lib


def probes(lib: Any) -> dict[str, int]:
    named = {name: getattr(lib, name) for name in dir(lib) if name.startswith("PSB_PROBE_")}
    del named["PSB_PROBE_COUNT"]
    return named


@pytest.mark.skipif(not COMPILERS, reason="a C compiler is missing: apt-get install gcc")
@pytest.mark.parametrize("compiler", COMPILERS or ["none"])
def test_it_compiles_without_a_warning(compiler: str, tmp_path: Path) -> None:
    analyzer = () if compiler == "clang" else ("-fanalyzer",)
    for level in ("-O0", "-O2"):
        command = [compiler, *WARNINGS, *analyzer, level, "-c", str(SOURCE), "-o", str(tmp_path / "probe.o")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_every_probe_answers_with_zero_or_an_errno(lib: Any) -> None:
    for name, number in probes(lib).items():
        answer = lib.psb_probe(number)
        assert answer == 0 or answer in errno.errorcode, name


def test_every_probe_has_a_number_below_the_count(lib: Any) -> None:
    assert sorted(probes(lib).values()) == list(range(lib.PSB_PROBE_COUNT))


def test_a_number_that_is_no_probe_is_invalid(lib: Any) -> None:
    assert lib.psb_probe(-1) == lib.psb_probe(lib.PSB_PROBE_COUNT) == errno.EINVAL


def test_what_works_at_once_works_in_parts(lib: Any) -> None:
    if lib.psb_probe(lib.PSB_PROBE_FULL) != 0:
        pytest.skip("this host has no full cages: see `pysandbox check`")
    named = probes(lib)
    assert {part: lib.psb_probe(named[f"PSB_PROBE_{part}"]) for part in PARTS_OF_FULL} == dict.fromkeys(
        PARTS_OF_FULL, 0
    )


def state() -> tuple[object, ...]:
    """All of this process that a probe might change."""
    with open("/proc/self/status") as file:
        status = [line for line in file if line.startswith(("Uid", "Gid", "Cap", "NoNewPrivs", "Seccomp", "SigBlk"))]
    namespaces = [
        os.readlink(f"/proc/self/ns/{name}") for name in ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")
    ]
    with open("/proc/self/mountinfo") as file:
        mounts = file.read()
    return status, namespaces, mounts, sorted(os.listdir("/proc/self/fd")), os.getcwd()


def test_a_probe_changes_nothing_of_its_caller(lib: Any) -> None:
    for name, number in probes(lib).items():
        before = state()
        lib.psb_probe(number)
        assert state() == before, name


def children() -> set[str]:
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return set(file.read().split())


def test_a_probe_leaves_no_child_and_sends_no_signal(lib: Any) -> None:
    seen: list[int] = []
    others = children()
    before = signal.signal(signal.SIGCHLD, lambda number, frame: seen.append(number))
    try:
        for number in probes(lib).values():
            lib.psb_probe(number)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert seen == []
    assert children() <= others


def test_landlock_tells_its_abi_or_an_errno(lib: Any) -> None:
    abi = lib.psb_landlock_abi()
    assert abi >= 1 or -abi in (errno.ENOSYS, errno.EOPNOTSUPP)
    errata = lib.psb_landlock_errata()
    assert errata >= 0 or -errata in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
