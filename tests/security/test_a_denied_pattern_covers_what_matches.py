"""Claim: what a pattern of a denial matches when the cage is made is unreadable, whatever a cage has made before.

A file that is literally called like the pattern does not take its meaning away, nor does the name of a directory; a
link that a cage left is not followed silently.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pysandbox import Cage, Policy, PolicyError, run

SECRET = "SECRET"
READ_ALL = ["/bin/sh", "-c", "find . -type f -exec cat {} + 2>/dev/null; true"]


@pytest.fixture(params=["plain", "with [a-z]* in it"])
def tree(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / str(request.param)
    for name in ("a.key", ".b.key", "sub/c.key", "sub/deep/.env"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(f"{SECRET} {name}\n")
    (top / "open").write_text("open\n")
    monkeypatch.chdir(top)
    return top


@pytest.mark.parametrize("word", ["deny", "mask"])
@pytest.mark.parametrize("workdir", ["read", "write"])
def test_nothing_that_matches_is_read(tree: Path, word: str, workdir: str) -> None:
    assert SECRET in run(READ_ALL, Policy(workdir=workdir)).stdout, "CONTROL"
    said = run(READ_ALL, Policy(workdir=workdir, **{word: ["**/*.key", "**/.env"]})).stdout  # type: ignore[arg-type]
    assert said == "open\n"


def test_only_the_top_where_only_that_is_said(tree: Path) -> None:
    said = run(READ_ALL, Policy(workdir="read", deny=["*.key"])).stdout
    assert sorted(said.splitlines()) == ["SECRET sub/c.key", "SECRET sub/deep/.env", "open"]


@pytest.mark.parametrize("planted", ["**/*.key", "*.key", "[*].key"])
def test_a_file_that_is_called_like_it_changes_nothing(tree: Path, planted: str) -> None:
    place = tree / planted
    place.parent.mkdir(exist_ok=True)
    place.write_text("planted\n")
    said = run(READ_ALL, Policy(workdir="write", deny=["**/*.key", "**/.env"])).stdout
    assert said == "open\n"


def test_a_directory_that_matches_is_covered_with_all_in_it(tree: Path) -> None:
    said = run(READ_ALL, Policy(workdir="write", deny=["s*", "*.key", ".*.key"])).stdout
    assert said == "open\n"


def test_it_is_neither_moved_nor_replaced_with_the_directories_above_it(tree: Path) -> None:
    attack = "mv sub moved; mv sub/deep other; rm -rf sub; ln sub/c.key copy; find . -type f -exec cat {} +"
    run(["/bin/sh", "-c", attack], Policy(workdir="write", deny=["**/*.key", "**/.env"]))
    assert (tree / "sub/c.key").read_text() == f"{SECRET} sub/c.key\n"
    assert (tree / "sub/deep/.env").read_text() == f"{SECRET} sub/deep/.env\n"
    assert not (tree / "copy").exists()


def test_a_link_that_a_cage_left_to_another_file_is_refused_by_name(tree: Path) -> None:
    run(["/bin/ln", "-s", "sub/deep/.env", "x.key"], Policy(workdir="write"))
    with pytest.raises(PolicyError, match=r"x\.key"):
        run(READ_ALL, Policy(workdir="write", deny=["*.key"]))


def test_what_is_there_when_the_next_cage_is_made_is_covered_too(tree: Path) -> None:
    policy = Policy(workdir="write", deny=["**/*.key", "**/.env"])
    assert run(READ_ALL, policy).stdout == "open\n"
    (tree / "sub" / "later.key").write_text(f"{SECRET} later\n")
    assert run(READ_ALL, policy).stdout == "open\n"
    with Cage(policy) as cage:
        assert cage.run(READ_ALL).stdout == "open\n"
