"""Claim: what the kernel keeps to find the pages of a cage counts for memory_mb, also where the pages count nothing.

Address space that is only reserved costs nothing, and no limit is on it. But a byte that is read in every 2 MiB of it
takes a page table, 4 KiB of the kernel's, and the page that is read is the one of zeros: no process gets any larger.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import pysandbox

from .harness import caged, policy, program, uncaged

pytestmark = pytest.mark.guest

READ = """
    import mmap
    STEP = 2 << 20

    def tables():
        rows = dict(line.split(":") for line in open("/proc/self/status") if ":" in line)
        return [int(rows[name].split()[0]) >> 10 for name in ("VmPTE", "VmRSS")]

    def read(gib):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
        space = mmap.mmap(-1, gib << 30, flags=flags, prot=mmap.PROT_READ)
        space.madvise(15)  # MADV_NOHUGEPAGE
        for place in range(0, gib << 30, STEP):
            space[place]
        return space
"""
ALONE = (
    READ
    + """
    import time
    kept = read(GIB)
    if TELL:
        attempt("read", tables)
    time.sleep(WAIT)
"""
)
FAMILY = (
    READ
    + """
    import time
    for child in range(CHILDREN):
        if not os.fork():
            kept = read(GIB)
            time.sleep(WAIT)
            os._exit(0)
    time.sleep(WAIT)
"""
)


def test_the_control_takes_tables_and_no_pages() -> None:
    report = uncaged(program(ALONE, GIB=64, WAIT=0, TELL=True))

    tables, resident = report["read"].value
    assert tables >= 128 and resident < 64


def test_they_end_a_cage_that_has_less_memory_than_that(isolation: str) -> None:
    rules = policy(isolation, memory_mb=64)

    ended = pysandbox.run(program(ALONE, GIB=128, WAIT=20, TELL=False), policy=rules, timeout=60)

    assert ended.reason == "oom", (ended.exit_code, ended.stdout, ended.stderr)


def test_those_of_many_processes_are_added_up() -> None:
    rules = policy(memory_mb=256)
    attack = program(FAMILY, GIB=16, CHILDREN=12, WAIT=20)

    assert pysandbox.run(attack, policy=rules, timeout=60).reason == "oom"


def test_address_space_that_is_only_reserved_ends_nothing() -> None:
    report = caged(program(ALONE, GIB=16, WAIT=1, TELL=True), policy(memory_mb=128))

    assert report.differs({"read": None}) == {} and report["read"].value[0] >= 32


def test_without_a_limit_the_cage_s_programs_are_the_first_to_end() -> None:
    """What holds memory where nothing was asked for: the kernel, when the machine has no more. It is against accidents,
    and no wall: a program may say of itself that it is as dear as any other of its user."""
    own = """
    attempt("mine", lambda: int(open("/proc/self/oom_score_adj").read()))
    attempt("init", lambda: int(open("/proc/1/oom_score_adj").read()))
    """
    ours = int(Path("/proc/self/oom_score_adj").read_text())
    report = caged(program(own), policy())

    assert report["mine"].value == report["init"].value == min(ours + 500, 1000) > ours
