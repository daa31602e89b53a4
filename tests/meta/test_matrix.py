"""tools/matrix without its machines: what counts as a failure, and the archive that a guest starts from."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from _support.tree import REPOSITORY

sys.path.append(str(REPOSITORY))  # behind everything: the package under test stays the installed one

from tools.guests.initramfs import archive
from tools.guests.report import Outcome, outcome, table

ENDED = '{"part": "user", "exit": 0, "seconds": 9}\n{"part": "root", "exit": 5, "seconds": 1}\n'


def read(told: str, said: str = "", *, in_time: bool = True) -> Outcome:
    return outcome("6.1", told, said, 60.4, in_time=in_time)


def test_two_parts_that_ended_well_are_a_success() -> None:
    seen = read('{"ready": "6.1.0", "uptime": 5}\n' + ENDED + '{"passed": 7, "failed": 0}\n{"passed": 1}\n')
    assert seen.ok
    assert table([seen]).splitlines()[1].split() == ["6.1", "8", "0", "0", "0", "60"]


def test_what_passed_in_a_second_look_is_told_as_unstable() -> None:
    seen = read(ENDED + '{"passed": 7, "failed": 1}\n{"failed": -1, "unstable": 1}\n')
    assert seen.ok
    assert table([seen]).splitlines()[1].split() == ["6.1", "7", "0", "1", "0", "60"]


@pytest.mark.parametrize(
    ("told", "in_time"),
    [
        (ENDED + '{"passed": 7, "failed": 1}\n', True),
        (ENDED + '{"passed": 7, "error": 1}\n', True),
        (ENDED + '{"passed": 7, "skipped": 1}\n', True),
        (ENDED + '{"passed": 0}\n', True),
        (ENDED, True),
        (ENDED.replace("0,", "3,", 1) + '{"passed": 7}\n', True),
        (ENDED.splitlines()[0] + '\n{"passed": 7}\n', True),
        ("", True),
        (ENDED + '{"passed": 7}\n', False),
        (ENDED + '{"pass', True),
    ],
    ids=["failed", "error", "skipped", "none passed", "no counts", "crashed", "one part", "silent", "late", "cut off"],
)
def test_everything_else_is_a_failure(told: str, in_time: bool) -> None:
    seen = read(told, in_time=in_time)
    assert not seen.ok
    assert ("FAILED" if in_time else "TIMED OUT") in table([seen])


def test_a_kernel_that_died_under_the_tests_is_told_from_tests_that_failed() -> None:
    console = "tests/kernel/test_main.py ...\n[  680.66] Kernel panic - not syncing: Fatal exception\n"
    assert read('{"ready": "6.12.1", "uptime": 5}\n', console).panicked
    assert not read(ENDED + '{"passed": 7, "failed": 1}\n', console).panicked
    assert not read("", console, in_time=False).panicked
    assert not read("", "boot\n").panicked


def test_why_is_the_suite_s_own_account_or_the_end_of_the_console() -> None:
    account = "==== FAILURES ====\nhere\n==== short test summary info ====\n"
    assert "here" in read(ENDED, f"boot\n{account}").why() and "boot" not in read(ENDED, f"boot\n{account}").why()
    assert read("", "boot\nKernel panic").why().endswith("Kernel panic")


def test_the_archive_is_one_that_others_can_read(tmp_path: Path) -> None:
    entries = [
        ("bin", stat.S_IFDIR | 0o755, b""), ("bin/tool", stat.S_IFREG | 0o755, b"12345"),
        ("bin/other", stat.S_IFLNK | 0o777, b"tool"),
    ]  # fmt: skip
    command = ["/bin/busybox", "cpio", "-i"]
    subprocess.run(command, input=archive(entries), cwd=tmp_path, check=True, capture_output=True, timeout=20)
    assert (tmp_path / "bin" / "tool").read_bytes() == b"12345"
    assert (tmp_path / "bin" / "tool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "bin" / "other").readlink() == Path("tool")
