"""Claim: when the host replaces a denied file, a session that would now show the new one runs nothing more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pysandbox import Cage, CageClosedError, Policy

pytestmark = pytest.mark.guest


def save(path: Path, text: str) -> None:
    """As an editor does: another file, renamed over the old one."""
    path.with_suffix(".new").write_text(text)
    os.replace(path.with_suffix(".new"), path)


@pytest.mark.parametrize("kind", ["deny", "mask"])
def test_nothing_runs_after_the_host_has_replaced_what_is_covered(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old secret")
    policy = Policy(allow_write=[str(tmp_path)], **{kind: [str(secret)]})  # type: ignore[arg-type]
    with Cage(policy) as cage:
        assert "secret" not in str(cage.run(["/bin/cat", str(secret)]).stdout)

        save(secret, "new secret")

        with pytest.raises(CageClosedError, match="open another"):
            cage.run(["/bin/cat", str(secret)])
    assert "secret" not in str(Cage(policy).run(["/bin/cat", str(secret)]).stdout)


def test_what_is_only_granted_may_be_replaced(tmp_path: Path) -> None:
    note = tmp_path / "note"
    note.write_text("old")
    with Cage(Policy(allow=[str(tmp_path)])) as cage:
        save(note, "new")
        assert cage.run(["/bin/cat", str(note)]).stdout == "new"
