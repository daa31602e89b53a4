"""Where the manifest of a project is looked for, and whose it may be."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pysandbox.errors import PolicyError
from pysandbox.policy import manifest_file
from pysandbox.policy.manifest import MANIFEST
from pysandbox.policy.manifest_file import find_manifest, load_manifest, read_manifest

TEXT = '[sandbox.x]\nrecipes = ["a"]\ncommand = "x"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """home/project/below, with a manifest above the home directory."""
    (tmp_path / "home" / "project" / "below").mkdir(parents=True)
    (tmp_path / MANIFEST).write_text(TEXT)
    return tmp_path / "home" / "project"


def test_the_nearest_one_counts_and_none_above_the_home_directory(project: Path) -> None:
    below, home = project / "below", project.parent
    assert find_manifest(str(below), str(home)) is None
    with pytest.raises(PolicyError, match=f"no {MANIFEST} in '{below}' or above it"):
        load_manifest(str(below), str(home))
    assert find_manifest(str(below)) == str(home.parent / MANIFEST)  # the control
    for place in (home, project, below):
        (place / MANIFEST).write_text(TEXT)
        assert find_manifest(str(below), str(home)) == str(place / MANIFEST)
    (below / MANIFEST).unlink()
    (below / MANIFEST).symlink_to("nowhere")  # a name is one, wherever it leads
    assert find_manifest(str(below), str(home)) == str(below / MANIFEST)


def test_it_is_not_looked_for_in_another_file_system(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stat = os.stat

    def mounted(path: Any) -> Any:
        return SimpleNamespace(st_dev=7) if str(path).startswith(str(project)) else stat(path)

    monkeypatch.setattr(manifest_file.os, "stat", mounted)
    assert find_manifest(str(project / "below")) is None


@pytest.mark.parametrize(
    ("of_the_file", "of_its_directory", "ours"),
    [(1000, 1000, True), (0, 1000, True), (1000, 0, True), (1001, 1000, False), (1000, 1001, False), (1, 0, False)],
)
def test_a_stranger_s_is_not_read_nor_one_that_he_could_replace(
    project: Path, monkeypatch: pytest.MonkeyPatch, of_the_file: int, of_its_directory: int, ours: bool
) -> None:
    path = project / MANIFEST
    path.write_text(TEXT)
    monkeypatch.setattr(manifest_file.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(manifest_file.os, "stat", lambda each: SimpleNamespace(st_uid=of_its_directory))

    def contents(path: str, check: Any) -> bytes:
        check(SimpleNamespace(st_uid=of_the_file, st_mode=0o100644))
        return TEXT.encode()

    monkeypatch.setattr(manifest_file, "contents", contents)
    if ours:
        assert list(read_manifest(str(path)).sandboxes) == ["x"]
        return
    with pytest.raises(PolicyError, match="belongs to another user") as caught:
        read_manifest(str(path))
    assert caught.value.file == str(path)


@pytest.mark.parametrize(("mode", "read"), [(0o644, True), (0o664, True), (0o646, False), (0o602, False)])
def test_one_that_everybody_can_write_is_not_read(project: Path, mode: int, read: bool) -> None:
    path = project / MANIFEST
    path.write_text(TEXT)
    path.chmod(mode)
    if read:
        assert len(read_manifest(str(path)).digest) == 64
        return
    with pytest.raises(PolicyError, match="can be written by everybody"):
        read_manifest(str(path))
