"""Mounts below a directory, as /proc tells them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pysandbox.errors import StartError
from pysandbox.probe.mounted import find_mounts_below, find_not_for_root, unescaped


def test_what_is_mounted_in_the_root_is_found_and_nothing_of_a_directory_without_mounts(tmp_path: Path) -> None:
    found = find_mounts_below(["/"])
    assert "/proc" in found and "/" not in found
    assert find_mounts_below([str(tmp_path)]) == find_mounts_below([str(tmp_path / "absent")]) == ()


def test_a_name_with_spaces_is_itself() -> None:
    assert unescaped(rb"/mnt/with\040a\011tab\012and\134040") == b"/mnt/with a\ttab\nand\\040"


LINE = "%d 1 0:30 / %s rw,nosuid - %s none %s\n"


@pytest.mark.parametrize(("kind", "options", "why"), [
    ("cgroup2", "rw", "kernel (cgroup2)"),
    ("cgroup", "rw,freezer", "kernel (cgroup)"),
    ("fuse.bindfs", "rw,user_id=12345,group_id=0", "user 12345"),
    ("fuseblk", "rw,user_id=1,group_id=0", "user 1"),
    ("fuse", "rw,user_id=0,group_id=0", ""),
    ("ext4", "rw", ""),
])  # fmt: skip
def test_what_root_gives_to_no_cage(
    kind: str, options: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(LINE % (1, "/", "ext4", "rw") + LINE % (2, f"{tmp_path}/tree/with\\040space", kind, options))
    monkeypatch.setattr("pysandbox.probe.mounted.MOUNTS", str(table))
    tree = str(tmp_path / "tree")
    found = dict(find_not_for_root([tree, str(tmp_path / "tree/with spaces")]))
    assert found.keys() == ({tree} if why else set())
    assert why in found.get(tree, "") and (not why or f"'{tree}/with space'" in found[tree])


def test_without_a_table_of_mounts_root_grants_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pysandbox.probe.mounted.MOUNTS", str(tmp_path / "absent"))
    with pytest.raises(StartError) as raised:
        find_not_for_root([str(tmp_path)])
    assert (raised.value.step, raised.value.filename) == ("idmap", str(tmp_path / "absent"))
    assert find_not_for_root([]) == ()


def test_without_a_proc_there_is_nothing_to_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, mode: str) -> None:
        raise FileNotFoundError(path)

    monkeypatch.setattr("builtins.open", refuse)
    assert find_mounts_below(["/"]) == ()
    monkeypatch.undo()
    assert os.path.exists("/proc/self/mountinfo")
