"""Claim: the resource limits are set before the command starts, hold, and cannot be raised; no core file is written."""

from __future__ import annotations

import pytest

from .conftest import Ground
from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.guest

GIB = 1 << 30

LIMITS = """
    import resource
    for name in ("NPROC", "AS", "NOFILE", "FSIZE", "CORE"):
        say(name, list(resource.getrlimit(getattr(resource, "RLIMIT_" + name))))
"""

RAISE = """
    import resource
    for name in ("AS", "NOFILE", "FSIZE", "CORE"):
        limit = getattr(resource, "RLIMIT_" + name)
        soft, hard = resource.getrlimit(limit)
        try:
            resource.setrlimit(limit, (hard + 1, hard + 1))
            say(name)
        except ValueError as error:  # what Python makes of EPERM
            assert "not allowed to raise maximum limit" in str(error)
            say(name, str(error), 1)
        attempt(name + " by prlimit64", call, "prlimit64", 0, limit, (ctypes.c_uint64 * 2)(hard + 1, hard + 1), 0)
"""

OVERRUN = """
    import mmap
    attempt("memory", lambda: mmap.mmap(-1, 2 << 30) and None)
    def descriptors():
        copies = []
        try:
            for _ in range(200):
                copies.append(os.dup(0))
        finally:
            for fd in copies:
                os.close(fd)
    attempt("descriptors", descriptors)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    fd = os.open(TREE + "/big", os.O_CREAT | os.O_WRONLY)
    attempt("file size", os.pwrite, fd, b"x", 1 << 30)
"""


def test_the_defaults_of_document_001_are_set(isolation: str) -> None:
    report = caged(program(LIMITS), policy(isolation))

    assert report["AS"].value == [-1, -1] and report["FSIZE"].value == [4 * GIB] * 2
    assert report["NOFILE"].value == [4096] * 2 and report["CORE"].value == [0, 0]
    if isolation == "full":
        assert report["NPROC"].value == [4096] * 2


def test_none_can_be_raised(isolation: str) -> None:
    report = caged(program(RAISE), policy(isolation, address_space_gb=8))

    ways = [name + way for name in ("AS", "NOFILE", "FSIZE", "CORE") for way in ("", " by prlimit64")]
    assert report.differs(dict.fromkeys(ways, "EPERM")) == {}


def test_they_hold(ground: Ground, isolation: str) -> None:
    rules = policy(isolation, address_space_gb=1, open_files=64, file_size_gb=1, allow_write=[str(ground.inside)])
    body = program(OVERRUN, TREE=str(ground.inside))

    report, control = caged(body, rules), uncaged(body)

    assert report.differs({"memory": "ENOMEM", "descriptors": "EMFILE", "file size": "EFBIG"}) == {}
    assert control.differs({"memory": None, "descriptors": None, "file size": None}) == {}
    assert (ground.inside / "big").stat().st_size == GIB + 1, "the control's, made after the attack's failed"


def test_a_crash_leaves_no_core(ground: Ground, isolation: str) -> None:
    rules = policy(isolation, allow_write=[str(ground.inside)])

    report = caged(program("os.kill(os.getpid(), signal.SIGSEGV)"), rules, cwd=str(ground.inside))

    assert report.result is not None and report.result.signal == 11 and report.exit_code == 139
    assert [each.name for each in ground.inside.iterdir()] == ["plain"]
