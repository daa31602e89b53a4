"""Claim: deny wins over allow and allow_write, and no rename, link, exchange or descriptor brings the file back.

Landlock cannot take a right away below a path that has it, so landlock mode must refuse such a policy.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import pysandbox

from .conftest import Ground
from .harness import caged, names_it, policy, program, uncaged

pytestmark = pytest.mark.guest

ATTACK = """
    key, box, closed = TREE + "/box/key", TREE + "/box", TREE + "/closed"
    mine = TREE + "/mine"
    attempt("make mine", os.mknod, mine, 0o600)
    attempt("read", content, key)
    attempt("write", overwrite, key)
    attempt("list the directory", os.listdir, closed)
    attempt("read in the directory", content, closed + "/inner")
    attempt("make in the directory", os.mknod, closed + "/new", 0o600)
    os.symlink(key, TREE + "/way")
    attempt("read by symlink", content, TREE + "/way")
    attempt("read by dots", content, TREE + "/closed/../box/key")
    path = os.open(key, os.O_PATH)
    attempt("read by a path descriptor", content, f"/proc/self/fd/{path}")
    attempt("link", os.link, key, TREE + "/copy")
    attempt("read the link", content, TREE + "/copy")
    attempt("rename", os.rename, key, TREE + "/moved")
    attempt("read the moved file", content, TREE + "/moved")
    attempt("rename over it", os.rename, mine, key)
    attempt("exchange with it", call, "renameat2", -100, mine, -100, key, 2)
    attempt("unlink", os.unlink, key)
    attempt("rename its parent", os.rename, box, TREE + "/other")
    attempt("read by the new parent", content, TREE + "/other/key")
    attempt("rename the directory", os.rename, closed, TREE + "/opened")
    attempt("read in the renamed directory", content, TREE + "/opened/inner")
    attempt("bind over it", call, "mount", mine, key, 0, 4096, 0)
    attempt("unmount it", call, "umount2", key, 2)
"""

CHANGES = (
    "link",
    "rename",
    "rename over it",
    "exchange with it",
    "unlink",
    "rename its parent",
    "rename the directory",
)
REFUSED = {
    "make mine": None,
    **dict.fromkeys(("read", "write", "list the directory", "read in the directory", "make in the directory",
                     "read by symlink", "read by dots", "read by a path descriptor"), "EACCES"),
    **dict.fromkeys(("read the link", "read the moved file", "read by the new parent", "read in the renamed directory"),
                    "ENOENT"),
    **dict.fromkeys(CHANGES, ("EBUSY", "EXDEV")),  # busy: a mount lies there; across devices: the cover, not the file
    **dict.fromkeys(("bind over it", "unmount it"), "EPERM"),
}  # fmt: skip


@pytest.fixture
def tree(ground: Ground) -> Path:
    (ground.inside / "box").mkdir()
    (ground.inside / "closed").mkdir()
    (ground.inside / "box" / "key").write_text(ground.word)
    (ground.inside / "closed" / "inner").write_text(ground.word)
    return ground.inside


def test_the_denied_file_and_directory_are_never_read(tree: Path, ground: Ground) -> None:
    rules = policy(allow_write=[str(tree)], deny=[str(tree / "box" / "key"), str(tree / "closed")])

    report = caged(program(ATTACK, TREE=str(tree)), rules)

    assert report.differs(REFUSED) == {}
    assert (tree / "box" / "key").read_text() == (tree / "closed" / "inner").read_text() == ground.word
    assert sorted(each.name for each in tree.iterdir()) == ["box", "closed", "mine", "plain", "way"]


def test_without_the_denial_the_file_is_read(tree: Path, ground: Ground) -> None:
    report = caged(program('attempt("read", content, TREE + "/box/key")', TREE=str(tree)), policy(allow=[str(tree)]))

    assert report["read"].value == ground.word
    assert uncaged(program('attempt("read", content, TREE + "/box/key")', TREE=str(tree)))["read"].value == ground.word


def test_a_denial_holds_on_component_boundaries(tree: Path) -> None:
    (tree / "closed-not").write_text("mine")
    rules = policy(allow=[str(tree)], deny=[str(tree / "closed")])

    report = caged(program('attempt("beside", content, TREE + "/closed-not")', TREE=str(tree)), rules)

    assert report["beside"].value == "mine"


@pytest.mark.landlock(6)
def test_landlock_mode_refuses_a_denial_inside_a_grant(tree: Path) -> None:
    rules = policy("landlock", allow=[str(tree)], deny=[str(tree / "closed")])

    with pytest.raises((pysandbox.UnsupportedError, pysandbox.PolicyError), match="deny"):
        pysandbox.run(["/bin/true"], policy=rules)


def test_a_denied_name_that_does_not_exist_yet_is_refused_or_owned_up_to(tree: Path) -> None:
    """Nothing can be mounted over a name that is not there: a writable directory would let the cage create it."""
    rules = policy(allow_write=[str(tree)], deny=[str(tree / "later")])
    attack = program('attempt("create", os.mknod, TREE + "/later", 0o600)', TREE=str(tree))

    try:
        report = caged(attack, rules)
    except pysandbox.PolicyError as error:
        assert "deny" in str(error)
        return
    assert report.result is not None
    assert report["create"].errno is not None or names_it(report.result, "deny")


def test_below_the_home_directory_it_is_denied_in_the_one_of_the_variable_too(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under `sudo -E`, or in a container of CI: programs keep their keys where $HOME says."""
    home = ground.inside / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh" / "key").write_text("secret")
    monkeypatch.setenv("HOME", str(home))
    for denied, expected in (([], "secret"), (["~/.ssh"], "")):  # the control: without the denial
        given = pysandbox.Policy(allow=[str(home)], deny=denied)
        assert pysandbox.run(["cat", str(home / ".ssh" / "key")], given).stdout == expected
