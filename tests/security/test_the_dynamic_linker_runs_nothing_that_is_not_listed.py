"""Claim: with allow_execve the dynamic linker, which a cage must be able to execute, runs no program that is not
listed, nor does a listed program load a library that the cage wrote: what is not listed lies on noexec mounts.

What remains is tested as it is documented (docs/exec-lists.md): programs inside library directories can be loaded,
though not executed, and without mounts the linker runs whatever can be read.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from pysandbox.policy.model import Policy

from .conftest import Ground
from .harness import LOADER, PYTHON, Expected, Report, caged, names_it, policy, program, uncaged

RUN = """
    def run(path, *arguments):
        pid = os.posix_spawn(path, [path, *arguments], os.environ)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def load(name, path):
        attempt(name, run, LOADER, path)
"""
REFUSED_BY_THE_LINKER = 127

EVERYWHERE = """
    import mmap, shutil
    def made(directory):
        return shutil.copy("/usr/bin/true", f"{directory}/made")

    load("system", "/usr/bin/true")
    load("granted", f"{READ}/unlisted")
    load("by symlink", f"{READ}/link")
    load("beside a library directory", f"{READ}/lib/../unlisted")
    for directory in WRITABLE:
        load(directory, made(directory))
    fd = os.open(f"{READ}/unlisted", os.O_RDONLY)
    os.set_inheritable(fd, True)
    load("by descriptor", f"/proc/self/fd/{fd}")
    load("by root", f"/proc/self/root{READ}/unlisted")
"""
LISTED = """
    load("listed", f"{READ}/bin/listed")
    load("in a listed tree", f"{READ}/tree/tool")
"""
WRITABLE = ("/tmp", "/dev/shm", "/var/tmp", "/scratch")


@pytest.fixture
def place(ground: Ground) -> Path:
    inside = ground.inside
    for name in ("bin", "lib", "tree"):
        (inside / name).mkdir()
    for name in ("bin/listed", "unlisted", "lib/helper", "tree/tool"):
        shutil.copy("/usr/bin/true", inside / name)
    (inside / "link").symlink_to("unlisted")
    return inside


def listing(place: Path, isolation: str = "full", **options: object) -> Policy:
    given = {"allow": [str(place)], **options}
    return policy(isolation, allow_execve=[PYTHON, f"{place}/bin/listed", f"{place}/tree/*"], **given)


def outcomes(report: Report) -> dict[str, object]:
    return {name: each.errno or each.value for name, each in report.attempts.items()}


def test_it_runs_nothing_that_is_not_listed(place: Path, ground: Ground) -> None:
    writable = (*WRITABLE, str(ground.outside))
    attack = program(RUN, EVERYWHERE, LISTED, READ=str(place), WRITABLE=writable, LOADER=LOADER)
    given = {"allow_write": [str(ground.outside)], "run_as": "self"}
    listed = {"listed": 0, "in a listed tree": 0}
    control = outcomes(caged(attack, Policy(allow=[str(place)], **given)))
    assert set(control.values()) == {0}

    told = outcomes(caged(attack, listing(place, **given)))
    assert told == {**dict.fromkeys(control, REFUSED_BY_THE_LINKER), **listed}


LIBRARY = """
    import _ctypes, shutil
    READ, EXECUTE, PRIVATE, FAILED = 1, 4, 2, ctypes.c_void_p(-1).value
    libc.mmap.restype = ctypes.c_void_p

    def loaded():
        try:
            ctypes.CDLL(path)
        except OSError as error:
            raise OSError(errno.ENOEXEC, str(error)) from None

    def mapped(protection, later=0):
        fd = os.open(path, os.O_RDONLY)
        at = libc.mmap(None, ctypes.c_size_t(4096), protection, PRIVATE, fd, ctypes.c_long(0))
        if at == FAILED or (later and libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(4096), later)):
            raise OSError(ctypes.get_errno(), "map")

    path = shutil.copy(_ctypes.__file__, "/tmp/library.so")
    attempt("load", loaded)
    attempt("map", mapped, READ | EXECUTE)
    attempt("map, then make executable", mapped, READ, READ | EXECUTE)
"""


def test_a_library_that_the_cage_wrote_is_not_loaded() -> None:
    attack = program(LIBRARY)
    every: Expected = dict.fromkeys(("load", "map", "map, then make executable"))
    assert caged(attack, Policy()).differs(every) == {}
    refused: Expected = {"load": "ENOEXEC", "map": "EPERM", "map, then make executable": "EACCES"}
    assert caged(attack, Policy(allow_execve=[PYTHON])).differs(refused) == {}


def test_what_lies_in_a_library_directory_can_be_loaded_but_not_executed(place: Path) -> None:
    """The limit of the wall: to be loaded is what libraries are for. PREFIX/lib counts beside a listed PREFIX/bin."""
    attack = program(RUN, f'attempt("execute", run, "{place}/lib/helper"); load("load", "{place}/lib/helper")',
                     LOADER=LOADER)  # fmt: skip
    assert outcomes(uncaged(attack)) == {"execute": 0, "load": 0}
    assert outcomes(caged(attack, listing(place))) == {"execute": "EACCES", "load": 0}
    written = listing(place, allow=[], allow_write=[str(place)], run_as="self", deny=[f"{place}/bin/listed"])
    assert outcomes(caged(attack, written)) == {"execute": "EACCES", "load": REFUSED_BY_THE_LINKER}


def test_without_mounts_it_runs_what_can_be_read_and_the_result_says_so(place: Path) -> None:
    attack = program(RUN, 'attempt("execute", run, "/usr/bin/true"); load("load", "/usr/bin/true")', LOADER=LOADER)
    report = caged(attack, listing(place, "landlock"))
    assert outcomes(report) == {"execute": "EACCES", "load": 0}
    assert report.result is not None
    assert names_it(report.result, "ld.so")


def test_a_memory_file_of_the_host_is_the_host_s_to_give(place: Path) -> None:
    """It has no path, so no list holds it. A cage cannot make one; a host can hand one in."""
    fd = os.memfd_create("program", 0)
    try:
        os.write(fd, Path("/usr/bin/true").read_bytes())
        attack = program(RUN, 'attempt("make", call, "memfd_create", "x", 0)',
                         f'attempt("given", run, "/proc/self/fd/{fd}")', LOADER=LOADER)  # fmt: skip
        assert uncaged(attack, pass_fds=[fd]).differs({"make": None, "given": None}) == {}
        assert caged(attack, listing(place), pass_fds=[fd]).differs({"make": "EPERM", "given": None}) == {}
    finally:
        os.close(fd)
