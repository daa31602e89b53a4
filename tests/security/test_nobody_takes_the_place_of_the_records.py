"""Claim: whoever takes the name /tmp/pysandbox-UID first keeps no other user from `ps`, `kill` and detached cages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pysandbox.launch.owner import this_process
from pysandbox.records import registry
from pysandbox.records.registry import CageRecord


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No runtime directory, a /tmp and a home of the test's own."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "home").mkdir()
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(registry, "TEMPORARY", str(tmp_path / "tmp"))
    monkeypatch.setattr("pysandbox.policy.user_home.home", lambda: str(tmp_path / "home"))
    if os.path.isdir(f"/run/user/{os.geteuid()}"):
        pytest.skip("this user has a runtime directory, which nobody else can take")
    return tmp_path


def record() -> CageRecord:
    owner = this_process()
    return CageRecord("01TAKEN", owner, owner, ("true",), "digest", 1.0)


def squat(path: Path, how: str) -> None:
    if how == "directory":
        path.mkdir()
        path.chmod(0o777)  # also what another user's own looks like: not ours alone
    elif how == "link":
        path.symlink_to("/")
    elif how == "dangling link":
        path.symlink_to(path.parent / "trap")
    else:
        path.write_text("")


def test_control_a_free_name_is_used(own_home: Path) -> None:
    registry.write(record())
    assert [each.id for each in registry.records()] == ["01TAKEN"]
    assert registry.private_directory() == f"{own_home}/tmp/pysandbox-{os.geteuid()}"


@pytest.mark.parametrize("how", ["directory", "link", "dangling link", "file"])
def test_attack_a_taken_name_costs_nothing(own_home: Path, how: str) -> None:
    taken = own_home / "tmp" / f"pysandbox-{os.geteuid()}"
    squat(taken, how)
    registry.write(record())
    assert [each.id for each in registry.records()] == ["01TAKEN"]
    folder = Path(registry.private_directory())
    assert folder == own_home / "home/.local/state/pysandbox/cages" and folder.stat().st_mode & 0o777 == 0o700
    assert registry.private_paths() == (str(folder),), "and no cage is shown it"
    assert not (own_home / "tmp" / "trap").exists() and (how != "directory" or not list(taken.iterdir()))
    registry.remove("01TAKEN")
    assert registry.records() == []


def test_without_any_place_the_error_says_what_to_do(own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    squat(own_home / "tmp" / f"pysandbox-{os.geteuid()}", "file")
    monkeypatch.setattr("pysandbox.policy.user_home.home", lambda: "/nonexistent")
    with pytest.raises(PermissionError, match="XDG_RUNTIME_DIR"):
        registry.records()
