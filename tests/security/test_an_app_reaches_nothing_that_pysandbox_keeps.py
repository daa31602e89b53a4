"""Claim: whatever workspace and prefix an app was given, it reads and moves nothing that pysandbox keeps for itself:
not the key of the grants, with which it could sign its own, no grant, no trail, no recipe that is trusted.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from _support.apps import constants, package, ran, reasons
from pysandbox.apps import App, AppStore, Kernel
from pysandbox.errors import PolicyError

ALL = {"resource_scopes": {"fs_prefixes": ["."]}}
KEY = ".local/state/pysandbox/apps/key"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine").write_text("mine")
    AppStore()
    return tmp_path


def read(path: str) -> list[list[object]]:
    return [*constants({1: path, 2: "r", 5: 100}), ["FS_OPEN", 3, 1, 2], ["JUMP_IF", 0, 6], ["FS_READ", 4, 3, 5],
            ["HALT"]]  # fmt: skip


def test_control_the_host_reads_it_and_the_app_the_file_beside_it(home: Path) -> None:
    assert len((home / KEY).read_bytes()) == 32
    with Kernel(home) as kernel:
        assert b'{"b":"bWluZQ=="}' in ran(read("notes/mine"), kernel, **ALL).journal


@pytest.mark.parametrize("opcode", ["FS_LIST", "FS_OPEN", "FS_COPY", "FS_MOVE", "FS_RENAME", "FS_DELETE"])
@pytest.mark.parametrize("path", [KEY, os.path.dirname(KEY), ".local/state/pysandbox", ".config/pysandbox"])
def test_no_opcode_leads_in(home: Path, opcode: str, path: str) -> None:
    start = constants({1: path, 2: "r", 6: f"{os.path.dirname(path)}/moved"})
    use = {"FS_LIST": [3, 1], "FS_OPEN": [3, 1, 2], "FS_DELETE": [1]}.get(opcode, [1, 6])
    with Kernel(home) as kernel:
        outcome = ran([*start, [opcode, *use], ["HALT"]], kernel, **ALL)
    assert reasons(outcome) == ["denied_scope"] and len((home / KEY).read_bytes()) == 32


@pytest.mark.parametrize("above", [".local/state", ".local"])
def test_no_directory_above_it_is_moved_nor_deleted(home: Path, above: str) -> None:
    """At another path it would be somebody else's."""
    with Kernel(home) as kernel:
        for use in (["FS_MOVE", 1, 2], ["FS_DELETE", 1]):
            outcome = ran([*constants({1: above, 2: "notes/x"}), use, ["HALT"]], kernel, **ALL)
            assert reasons(outcome) == ["denied_scope"]
    assert (home / KEY).exists()


def test_nothing_is_planted_where_it_will_be(home: Path) -> None:
    (home / "notes" / "pysandbox").mkdir()
    with Kernel(home) as kernel:
        start = constants({1: "notes", 2: ".config"})
        assert reasons(ran([*start, ["FS_MOVE", 1, 2], ["HALT"]], kernel, **ALL)) == ["denied_scope"]
    assert not (home / ".config").exists()


@pytest.mark.parametrize("place", ["", "notes.app", "notes.app/package", "notes.app/files/.."])
def test_a_workspace_in_the_store_is_refused(home: Path, place: str) -> None:
    store = AppStore()
    store.install(package(), allow=("fs.use",))
    store.workspace("notes.app")
    with pytest.raises(PolicyError, match="pysandbox's own"):
        Kernel(os.path.join(store.directory, place)).close()
    Kernel(store.workspace("notes.app")).close()
    (home / "way").symlink_to(store.directory)
    with pytest.raises(PolicyError, match="pysandbox's own"):
        Kernel(home / "way").close()


def test_so_is_a_store_that_lies_elsewhere(home: Path) -> None:
    store = AppStore(home / "notes" / "store")
    program = read("notes/store/key")
    store.install(package(program, **ALL), allow=("fs.use",))
    with Kernel(home) as kernel:
        outcome = App.installed("notes.app", store).run(kernel)
    assert reasons(outcome) == ["denied_scope"] and store.key.secret not in outcome.journal
