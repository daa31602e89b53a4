"""Claim: a masked file reads as empty, a masked directory lists as empty, and neither can be changed."""

from __future__ import annotations

from pathlib import Path

import pytest

import pysandbox

from .conftest import Ground
from .harness import caged, policy, program

pytestmark = pytest.mark.guest

ATTACK = """
    attempt("read", content, TREE + "/file")
    attempt("list", os.listdir, TREE + "/directory")
    attempt("make", os.mknod, TREE + "/directory/new", 0o600)
    attempt("unlink", os.unlink, TREE + "/file")
    attempt("rename", os.rename, TREE + "/file", TREE + "/moved")
"""


@pytest.fixture
def tree(ground: Ground) -> Path:
    (ground.inside / "file").write_text(ground.word)
    (ground.inside / "directory").mkdir()
    (ground.inside / "directory" / "inner").write_text(ground.word)
    return ground.inside


def test_a_mask_hides_what_is_there(tree: Path, ground: Ground) -> None:
    rules = policy(allow_write=[str(tree)], mask=[str(tree / "file"), str(tree / "directory")])

    report = caged(program(ATTACK, TREE=str(tree)), rules)

    refused = {"make": ("ENOENT", "EROFS", "EACCES"), "unlink": "EBUSY", "rename": ("EBUSY", "EXDEV")}
    assert report.differs({"read": None, "list": None, **refused}) == {}
    assert (report["read"].value, report["list"].value) == ("", [])
    assert (tree / "file").read_text() == (tree / "directory" / "inner").read_text() == ground.word


def test_without_the_mask_it_is_seen(tree: Path, ground: Ground) -> None:
    report = caged(program(ATTACK, TREE=str(tree)), policy(allow=[str(tree)]))

    assert (report["read"].value, report["list"].value) == (ground.word, ["inner"])


@pytest.mark.landlock(6)
def test_landlock_mode_refuses_a_mask(tree: Path) -> None:
    with pytest.raises((pysandbox.UnsupportedError, pysandbox.PolicyError), match="mask"):
        pysandbox.run(["/bin/true"], policy=policy("landlock", allow=[str(tree)], mask=[str(tree / "file")]))
