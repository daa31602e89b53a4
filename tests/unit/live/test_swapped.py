"""What is in swap counts, and is asked for only where there is swap."""

from __future__ import annotations

from pathlib import Path

import pytest

from pysandbox.live.swapped import has_swap, swapped

HEADINGS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
STATUS = {
    "1/status": b"Name:\tinit\nVmSwap:\t       0 kB\n",
    "7/status": b"VmRSS:\t 4 kB\nVmSwap:\t  300 kB\n",
    "9/status": b"",
}


@pytest.mark.parametrize(
    ("text", "there"), [("", False), (HEADINGS, False), (f"{HEADINGS}/swapfile file 1024 0 -2\n", True)]
)
def test_an_area_is_a_line_after_the_headings(tmp_path: Path, text: str, there: bool) -> None:
    (tmp_path / "swaps").write_text(text)
    assert has_swap(str(tmp_path / "swaps")) is there


def test_where_it_cannot_be_told_there_may_be_some(tmp_path: Path) -> None:
    assert has_swap(str(tmp_path / "absent"))


def test_what_each_process_has_there_is_added_up(tmp_path: Path) -> None:
    places = [name.removesuffix("/status") for name in STATUS]
    assert swapped(places, STATUS.__getitem__, areas=str(tmp_path / "absent")) == 300 << 10


def test_nothing_is_read_where_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "swaps").write_text(HEADINGS)
    assert swapped(["1"], {}.__getitem__, areas=str(tmp_path / "swaps")) == 0
