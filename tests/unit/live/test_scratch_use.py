"""A directory that a cage fills is looked at in slices, so that one thread can look at many cages."""

from __future__ import annotations

import os
from pathlib import Path

from pysandbox.live.scratch_use import SLICE, ScratchUse


def test_no_look_goes_beyond_its_slice_in_one_directory_of_many_files(tmp_path: Path) -> None:
    for number in range(2 * SLICE + 10):
        (tmp_path / f"{number}").touch()
    use = ScratchUse(str(tmp_path))
    names = []
    while not names or not use.is_whole:
        use.look()
        names.append(use.names)
    assert len(names) == 3 and all(after - before <= SLICE for before, after in zip([0, *names], names, strict=False))
    assert names[-1] == 2 * SLICE + 10
    use.look()
    assert use.names < SLICE, "a new walk"
    use.close()


def test_a_walk_that_is_given_up_leaves_no_descriptor(tmp_path: Path) -> None:
    for number in range(SLICE):
        (tmp_path / f"{number}").mkdir()
    before = len(os.listdir("/proc/self/fd"))
    use = ScratchUse(str(tmp_path))
    use.look()
    assert not use.is_whole
    use.close()
    use.close()
    assert len(os.listdir("/proc/self/fd")) == before
