"""Claim: whatever workspace and prefix an app was given, it writes, makes and moves nothing that programs of the host
obey by themselves, nor pysandbox and its interpreter, and reads no policy file.

A cage has mounts over these files; an app of the machine has no cage, and the host opens files for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from _support.apps import constants, ran, reasons
from pysandbox.apps import AppOutcome, Kernel
from pysandbox.policy.guarded import GIT_FILES, HOME, POLICY_FILES, PROJECT

ALL = {"resource_scopes": {"fs_prefixes": ["."]}}
GUARDED = (*POLICY_FILES, ".git", *(f".git/{name}" for name in GIT_FILES), ".git/modules/lib/config",
           *(name for table in (PROJECT, HOME) for names in table.values() for name in names))  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Home and workspace in one, as wide as a workspace can be."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "other").write_text("other")
    return tmp_path


def write(path: str, mode: str, home: Path) -> AppOutcome:
    start = constants({1: path, 2: mode, 3: "evil"})
    with Kernel(home) as kernel:
        return ran([*start, ["FS_OPEN", 4, 1, 2], ["JUMP_IF", 0, 6], ["FS_WRITE", 5, 4, 3], ["HALT"]], kernel, **ALL)


def two(opcode: str, first: str, second: str, home: Path) -> AppOutcome:
    with Kernel(home) as kernel:
        use = [opcode, 1] if opcode == "FS_DELETE" else [opcode, 1, 2]
        return ran([*constants({1: first, 2: second}), use, ["HALT"]], kernel, **ALL)


def test_control_what_it_would_plant_is_run_by_the_host(home: Path) -> None:
    """And what has another name is written."""
    subprocess.run(["git", "init", "-q", home], check=True, timeout=60)
    (home / ".git/config").write_text(f"[core]\n\tfsmonitor = touch {home}/pwned; false\n")
    subprocess.run(["git", "-C", home, "status"], check=False, capture_output=True, timeout=60)
    assert (home / "pwned").exists()
    for name in (".git/description", "docs", "a.envrc", ".gitmodules2"):
        assert not write(name, "w", home).log and (home / name).read_text() == "evil"


@pytest.mark.parametrize("path", [*GUARDED, *(f"project/{name}" for name in GUARDED if name != "bin")])
def test_it_is_neither_written_nor_made(home: Path, path: str) -> None:
    (home / path).parent.mkdir(parents=True, exist_ok=True)
    for there in (False, True):
        if there:
            (home / path).write_text("mine")
        for mode in ("w", "a", "x"):
            assert reasons(write(path, mode, home)) == ["denied_scope"]
        assert reasons(two("FS_COPY", "other", path, home)) == ["denied_scope"]
        assert reasons(two("FS_MOVE", "other", path, home)) == ["denied_scope"]
        assert (home / path).exists() == there
    assert reasons(two("FS_MOVE", path, "moved", home)) == ["denied_scope"]
    assert reasons(two("FS_DELETE", path, "", home)) == ["denied_scope"]
    assert (home / path).read_text() == "mine" and (home / "other").read_text() == "other"


@pytest.mark.parametrize(
    ("made", "place"),
    [("settings.json", ".claude"), ("config", ".git"), ("git/config", ".config"), ("bin/ls", ".local"),
     ("share/systemd/x", ".local"), ("systemd/x", ".local/share"), ("ls", "bin")],
)  # fmt: skip
def test_no_directory_becomes_one_that_holds_it(home: Path, made: str, place: str) -> None:
    (home / "x" / made).parent.mkdir(parents=True)
    (home / "x" / made).touch()
    (home / place).parent.mkdir(parents=True, exist_ok=True)
    assert reasons(two("FS_MOVE", "x", place, home)) == ["denied_scope"] and not (home / place).exists()


@pytest.mark.parametrize("name", [".GIT/config", ".Envrc", ".\u017f\u017fh/config", "PySandbox.toml", ".en\u200bvrc"])
def test_no_other_spelling_is_another_name_where_case_is_folded(home: Path, name: str) -> None:
    (home / name).parent.mkdir(exist_ok=True)
    assert reasons(write(name, "w", home)) == ["denied_scope"] and not (home / name).exists()


@pytest.mark.parametrize("name", ["pysandbox.toml", ".pysandbox/base.toml"])
def test_a_policy_file_is_not_read_either(home: Path, name: str) -> None:
    (home / name).parent.mkdir(exist_ok=True)
    (home / name).write_text("host = 1")
    assert reasons(write(name, "r", home)) == ["denied_scope"]
    assert reasons(two("FS_COPY", name, "copied", home)) == ["denied_scope"] and not (home / "copied").exists()


def test_nor_is_pysandbox_itself_where_the_workspace_holds_it(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    package = Path(sys.modules["pysandbox"].__file__ or "").parent
    for workspace in (package.parent, package):
        path = os.path.relpath(package / "evil.py", workspace)
        assert reasons(write(path, "w", workspace)) == ["denied_scope"]
    assert reasons(two("FS_MOVE", package.parent.name, "moved", package.parent.parent)) == ["denied_scope"]
    assert not (package / "evil.py").exists()
