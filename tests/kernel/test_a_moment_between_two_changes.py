"""The stamp of an opening lies between the changes before it and those after it (csrc/host/probe/stamp.c)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from pysandbox._native import lib

from pysandbox.probe.file_systems import of_magic
from pysandbox.probe.kernel import version
from pysandbox.probe.opening import coarse_now

ROUNDS = 50


def changed(file: Path) -> int:
    file.write_bytes(b"x")
    return file.stat().st_ctime_ns


@pytest.mark.skipif(version() < (6, 13), reason="one clock stamps all changes of some milliseconds")
@pytest.mark.parametrize("given", [True, False])
def test_it_is_later_than_one_and_no_later_than_the_other(tmp_path: Path, given: bool) -> None:
    (ours := tmp_path / "ours").mkdir()
    if not of_magic(lib.psb_file_system(fd := os.open(ours, os.O_RDONLY))).multigrain:
        os.close(fd)
        pytest.skip("this file system has the coarse clock alone")
    try:
        for number in range(ROUNDS):
            while coarse_now() <= os.fstat(fd).st_ctime_ns:  # ours was last changed in an earlier tick
                pass
            before = changed(tmp_path / f"before{number}")
            stamp = lib.psb_stamp_now(fd if given else -1)
            assert before < stamp <= changed(tmp_path / f"after{number}")
    finally:
        os.close(fd)


def test_what_is_no_file_of_ours_is_said() -> None:
    assert lib.psb_stamp_now(1 << 20) == -errno.EBADF
