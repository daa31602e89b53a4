"""Claim: an app touches no file but those under its prefixes, by whatever path, link or opcode; and deletes nothing for
good.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.apps import constants, ran, reasons
from pysandbox.apps import AppOutcome, Kernel
from pysandbox.apps.kernel import fs

SECRET = "the host's own"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    for name in ("docs", "docs2", "docs/inner"):
        (place / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "secret").write_text(SECRET)
    for name in ("secret", "docs2/secret"):
        (place / name).write_text(SECRET)
    (place / "docs" / "mine").write_text("mine")
    return place


@pytest.fixture
def kernel(workspace: Path) -> Iterator[Kernel]:
    with Kernel(workspace) as kernel:
        yield kernel


def opened(kernel: Kernel, path: str, mode: str = "r") -> AppOutcome:
    """Reads, or replaces, what is there."""
    use = ["FS_READ", 4, 3, 5] if mode == "r" else ["FS_WRITE", 4, 3, 6]
    start = constants({1: path, 2: mode, 5: 100, 6: "changed"})
    return ran([*start, ["FS_OPEN", 3, 1, 2], ["JUMP_IF", 0, 7], use, ["HALT"], ["HALT"]], kernel)


def two(kernel: Kernel, opcode: str, first: str, second: str) -> AppOutcome:
    return ran([*constants({1: first, 2: second}), [opcode, 1, 2], ["HALT"]], kernel)


def test_control_what_is_under_a_prefix_is_read_and_written(kernel: Kernel, workspace: Path) -> None:
    assert b'{"b":"bWluZQ=="}' in opened(kernel, "docs/mine").journal
    assert not opened(kernel, "docs/new", "w").log
    assert (workspace / "docs" / "new").read_text() == "changed"


@pytest.mark.parametrize(
    "path",
    ["secret", "docs2/secret", "docs/../secret", "docs/../../secret", "/etc/passwd", "../secret", "docs//mine", "docs/",
     "./docs/mine", "docs/./mine", "docs\0", "", ".", "..", "Docs/mine", "docs/\x7f"],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("mode", ["r", "w"])
def test_no_spelling_of_a_path_leads_out(kernel: Kernel, workspace: Path, path: str, mode: str) -> None:
    outcome = opened(kernel, path, mode)
    assert reasons(outcome) == ["denied_scope"] and SECRET.encode() not in outcome.journal
    assert (workspace / "secret").read_text() == (workspace / "docs2/secret").read_text() == SECRET


def test_two_spellings_of_a_letter_are_no_two_files(workspace: Path) -> None:
    composed, apart = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))
    (workspace / apart).mkdir()
    (workspace / apart / "secret").write_text(SECRET)
    with Kernel(workspace) as kernel:
        start = constants({1: f"{apart}/secret", 2: "r"})
        outcome = ran([*start, ["FS_OPEN", 3, 1, 2], ["HALT"]], kernel, resource_scopes={"fs_prefixes": [composed]})
    assert reasons(outcome) == ["denied_scope"]


@pytest.mark.parametrize("target", ["../secret", "../../secret", "/etc/passwd", "mine", "inner"])
@pytest.mark.parametrize("mode", ["r", "w", "a", "x"])
def test_no_link_is_followed(kernel: Kernel, workspace: Path, target: str, mode: str) -> None:
    (workspace / "docs" / "link").symlink_to(target)
    (workspace / "docs" / "ways").symlink_to("../docs2")
    if mode != "x":
        assert (workspace / "docs" / "ways" / "secret").read_text() == SECRET  # control: the host follows it
    outcome = opened(kernel, "docs/link", mode)
    assert reasons(outcome) in (["denied_scope"], []) and SECRET.encode() not in outcome.journal
    assert reasons(outcome) == ["denied_scope"] or mode == "x"
    assert reasons(opened(kernel, "docs/ways/secret", mode)) == ["denied_scope"]
    assert (workspace / "secret").read_text() == (workspace / "docs2/secret").read_text() == SECRET
    assert (workspace / "docs" / "mine").read_text() == "mine"


def test_what_has_another_name_elsewhere_is_no_file_of_the_app(kernel: Kernel, workspace: Path) -> None:
    os.link(workspace / "secret", workspace / "docs" / "hard")
    os.mkfifo(workspace / "docs" / "fifo")
    for name in ("hard", "fifo", "inner"):
        for mode in ("r", "w"):
            outcome = opened(kernel, f"docs/{name}", mode)
            assert b'["failed",' in outcome.journal and SECRET.encode() not in outcome.journal
    assert (workspace / "secret").read_text() == SECRET


@pytest.mark.parametrize("opcode", ["FS_RENAME", "FS_COPY", "FS_MOVE", "FS_RESTORE"])
@pytest.mark.parametrize(
    ("first", "second"),
    [("docs/mine", "docs2/x"), ("docs2/secret", "docs/x"), ("secret", "docs/x"), ("docs/mine", "x"),
     ("docs/mine", "docs"), ("docs/mine", "docs/../x"), ("docs/mine", ".pysandbox-trash/x")],
)  # fmt: skip
def test_both_sides_are_checked(kernel: Kernel, workspace: Path, opcode: str, first: str, second: str) -> None:
    before = sorted(str(each) for each in workspace.rglob("*"))
    assert reasons(two(kernel, opcode, first, second)) == ["denied_scope"]
    assert sorted(str(each) for each in workspace.rglob("*")) == before


def test_the_prefix_itself_is_neither_moved_nor_deleted(kernel: Kernel, workspace: Path) -> None:
    assert reasons(two(kernel, "FS_MOVE", "docs", "docs/x")) == ["denied_scope"]
    assert reasons(ran([*constants({1: "docs"}), ["FS_DELETE", 1], ["HALT"]], kernel)) == ["denied_scope"]
    assert (workspace / "docs" / "mine").exists()


def test_what_is_deleted_comes_back_and_only_into_scope(kernel: Kernel, workspace: Path) -> None:
    def deleted() -> AppOutcome:
        return ran([*constants({1: "docs/mine"}), ["FS_DELETE", 1], ["HALT"]], kernel)

    assert not deleted().log and not (workspace / "docs/mine").exists()
    (workspace / "docs/mine").write_text("second")
    assert not deleted().log
    assert reasons(two(kernel, "FS_RESTORE", "docs/mine", "docs2/x")) == ["denied_scope"]
    assert not two(kernel, "FS_RESTORE", "docs/mine", "docs/back").log
    assert (workspace / "docs/back").read_text() == "second"
    assert not two(kernel, "FS_RESTORE", "docs/mine", "docs/mine").log
    assert (workspace / "docs/mine").read_text() == "mine"
    assert b'["failed","ENOENT"]' in two(kernel, "FS_RESTORE", "docs/mine", "docs/x").journal


def test_nothing_that_exists_is_replaced(kernel: Kernel, workspace: Path) -> None:
    (workspace / "docs/other").write_text("other")
    for opcode in ("FS_RENAME", "FS_MOVE", "FS_COPY"):
        assert b'["failed","EEXIST"]' in two(kernel, opcode, "docs/mine", "docs/other").journal
    assert ((workspace / "docs/mine").read_text(), (workspace / "docs/other").read_text()) == ("mine", "other")


def test_a_link_is_neither_moved_nor_deleted_nor_listed(kernel: Kernel, workspace: Path) -> None:
    (workspace / "docs/link").symlink_to("../secret")
    assert reasons(two(kernel, "FS_MOVE", "docs/link", "docs/x")) == ["denied_scope"]
    listed = ran([*constants({1: "docs"}), ["FS_LIST", 2, 1], ["HALT"]], kernel)
    assert b'["ok","inner/\\nmine"]' in listed.journal


def test_a_trash_that_is_a_link_takes_nothing(kernel: Kernel, workspace: Path, tmp_path: Path) -> None:
    (workspace / ".pysandbox-trash").symlink_to(tmp_path)
    outcome = ran([*constants({1: "docs/mine"}), ["FS_DELETE", 1], ["HALT"]], kernel)
    assert reasons(outcome) == ["denied_scope"] and (workspace / "docs/mine").exists()


def test_what_one_look_at_a_directory_takes_is_bounded(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may write the workspace from elsewhere makes as many names as he likes; other apps wait."""
    monkeypatch.setattr(fs, "MOST_LISTED", 3)
    monkeypatch.setattr(fs, "MOST_KEPT", 3)
    trash = workspace / ".pysandbox-trash"
    trash.mkdir()
    use = [["FS_LIST", 3, 2], ["FS_DELETE", 1], ["FS_RESTORE", 1, 1], ["HALT"]]

    def looked() -> bytes:
        with Kernel(workspace) as kernel:
            return ran([*constants({1: "docs/mine", 2: "docs"}), *use], kernel).journal

    assert b'"failed"' not in looked()  # control
    for place in (workspace / "docs", trash):
        for number in range(4):
            (place / f"{number}").symlink_to("x")
    assert looked().count(b'["failed","E2BIG"]') == 3 and (workspace / "docs/mine").exists()


def test_what_a_run_writes_is_bounded(workspace: Path) -> None:
    with Kernel(workspace, written_bytes=100) as kernel:
        start = constants({1: "docs/big", 2: "w", 3: "x" * 60})
        loop = [["FS_OPEN", 4, 1, 2], ["FS_WRITE", 5, 4, 3], ["JUMP_IF", 0, 7], ["JUMP", 4], ["HALT"]]
        outcome = ran([*start, *loop], kernel)
    assert outcome.ended == "halt" and (workspace / "docs/big").stat().st_size == 60
