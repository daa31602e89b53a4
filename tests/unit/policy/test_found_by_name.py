"""Which names decide whether a writable environment of the command comes first on the PATH of its cage."""

from __future__ import annotations

from pathlib import Path

import pytest

from pysandbox import Policy
from pysandbox.policy import found_by_name
from pysandbox.policy.found_by_name import INSIDE, UserPath, with_path
from pysandbox.policy.search import Search


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "system").mkdir()
    monkeypatch.setattr(found_by_name, "SYSTEM", (*found_by_name.SYSTEM, str(tmp_path / "system")))
    return tmp_path / "system"


def path_and_looks(project: Path) -> tuple[str, set[str]]:
    bins = project / "venv" / "bin"
    bins.mkdir(parents=True, exist_ok=True)
    (bins / "tool").write_text("#!/bin/sh\n")
    (bins / "tool").chmod(0o755)
    search = Search(str(project), {"PATH": f"{bins}:/usr/bin"}, ())
    policy = with_path(Policy(), search, "tool", shown=[str(project)], written=[str(project)], bins=[str(bins)])
    return dict(policy.env)["PATH"].replace(str(bins), "BINS"), search.looked.paths


def test_what_decides_it_is_looked_at_again(tmp_path: Path, system: Path) -> None:
    path, looks = path_and_looks(tmp_path / "project")
    assert path == f"BINS:{INSIDE}"
    assert {f"{directory}/tool" for directory in found_by_name.SYSTEM} <= looks
    assert str(tmp_path / "project" / "venv" / "bin") in looks
    (system / "tool").touch()
    assert path_and_looks(tmp_path / "project")[0] == f"{INSIDE}:BINS"


@pytest.mark.parametrize(
    ("first_line", "comes_first"),
    [("#!/usr/bin/python3", True), ("#!/usr/bin/env python3", True), ("#!/bin/sh", False), ("\x7fELF", False)],
)
def test_a_script_of_python_gives_way_to_the_environment_s(
    tmp_path: Path, system: Path, first_line: str, comes_first: bool
) -> None:
    """`pip` was the system's in an active environment, and refused to install anything."""
    (system / "tool").write_text(f"{first_line}\nimport this\n")
    path, looks = path_and_looks(tmp_path / "project")
    assert path.startswith("BINS:") is comes_first
    assert f"{system}/tool" in looks


@pytest.mark.parametrize("shown", ["", "tools", "tools/", "tools/bin", "tools/bin/one", "real", "real/bin", "too"])
@pytest.mark.parametrize("path", ["tools/bin", "link/bin", "to_the_system", "bin"])
def test_a_path_is_met_where_something_of_it_is_shown(tmp_path: Path, system: Path, path: str, shown: str) -> None:
    for each in ("tools/bin/one", "real/bin", "other"):
        (tmp_path / each).mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "to_the_system").symlink_to(system)
    users, grants = f"{tmp_path}/{path}" if path != "bin" else path, [f"{tmp_path}/{shown}"]
    search = Search(str(tmp_path), {"PATH": f"/usr/bin:{users}"}, ())
    added = with_path(Policy(), search, "/bin/sh", shown=grants, written=()).env
    assert UserPath.of(f"/usr/bin:{users}").meets(grants) == bool(added)
