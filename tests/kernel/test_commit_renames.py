"""Names that were moved in a workspace: told as one change, and written as one."""

from __future__ import annotations

import os

import pytest

from _support.commits import settled, written
from _support.overlays import Overlay, look
from pysandbox.workspace import changes
from pysandbox.workspace.changes import changes_of


def test_a_rename_is_told_as_one_and_written_as_one(overlay: Overlay) -> None:
    (overlay.lower / "a").mkdir()
    (overlay.lower / "a" / "old").write_text("some text")
    settled()
    upper = overlay.write('os.rename("a/old", "new")')
    found = changes_of(upper)
    assert [(each.kind, each.renamed_from, each.path) for each in found] == [("renamed", "a/old", "new")]
    written(upper)
    assert look(overlay.lower) == overlay.view
    upper.drop()


def test_a_rename_takes_nothing_away_that_is_written_only_where_it_is_named(overlay: Overlay) -> None:
    """The host's own file would go with the commit of a name that says nothing."""
    (overlay.lower / "sub").mkdir()
    for name in ("sub/pysandbox.toml", "plain", "package.json"):
        (overlay.lower / name).write_text(f"the text of {name}")
    settled()
    upper = overlay.write("""
        os.rename("sub/pysandbox.toml", "notes"); os.rename("plain", "other"); os.rename("package.json", "third")
    """)
    found = {each.path: (each.kind, each.risk) for each in changes_of(upper)}
    assert found == {
        "sub/pysandbox.toml": ("deleted", ("policy",)), "notes": ("added", ()), "other": ("renamed", ()),
        "third": ("renamed", ("runs-on-host",)),
    }  # fmt: skip
    assert [each.path for each in written(upper).skipped] == ["sub/pysandbox.toml"]
    assert (overlay.lower / "sub" / "pysandbox.toml").exists() and not (overlay.lower / "plain").exists()
    done = written(upper, paths=["sub/pysandbox.toml"])
    assert [each.path for each in done.written] == ["sub/pysandbox.toml"]
    assert look(overlay.lower) == overlay.view
    upper.drop()


def test_a_rename_takes_a_directory_of_the_host_s_own_files_away_by_name_alone(overlay: Overlay) -> None:
    (overlay.lower / ".vscode").mkdir()
    (overlay.lower / ".vscode" / "tasks.json").write_text("tasks")
    settled()
    upper = overlay.write("""
        os.mkdir("d"); os.rename(".vscode/tasks.json", "d/x"); os.rmdir(".vscode")
    """)
    assert [each.path for each in written(upper).skipped] == [".vscode"]
    assert (overlay.lower / ".vscode" / "tasks.json").read_text() == "tasks"
    upper.drop()


def test_a_search_for_renames_comes_to_an_end(overlay: Overlay, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cage may make any number of files that look like one that is gone."""
    for number in range(20):
        (overlay.lower / f"gone{number}").write_text(f"old {number:02}")
        os.utime(overlay.lower / f"gone{number}", ns=(1, 1))
    settled()
    upper = overlay.write("""
        for number in range(20):
            os.unlink(f"gone{number}"); Path(f"new{number}").write_text(f"new {number:02}")
            os.utime(f"new{number}", ns=(1, 1))
    """)
    compared = []
    monkeypatch.setattr(changes, "same_content", lambda *names: compared.append(names))
    monkeypatch.setattr(changes, "MOST_COMPARED", 30 * changes.COMPARISON)
    found = changes_of(upper)
    assert len(found) == 40 and not any(each.kind == "renamed" for each in found)
    assert 0 < len(compared) < 31
    upper.drop()
