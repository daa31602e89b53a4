"""What patterns match in real directories: bounded, complete, and fresh for as long as nothing is added."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pysandbox.errors import PolicyError
from pysandbox.probe import matching
from pysandbox.probe.matching import find_matches, still_matches


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for name in ("a.key", ".b.key", "sub/c.key", "sub/deep/.env", "sub/deep/er/d.key", "other"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("sub")
    return tmp_path.resolve()


def found(top: Path, pattern: str, *trees: str) -> list[str]:
    given = [f"{top}/{tree}".rstrip("/") for tree in trees or ("",)]
    return [path.removeprefix(f"{top}/") for path in find_matches(f"{top}/{pattern}", "filesystem.deny", given).paths]


@pytest.mark.parametrize("pattern, expected", [
    ("*.key", [".b.key", "a.key"]),
    ("**/*.key", [".b.key", "a.key", "sub/c.key", "sub/deep/er/d.key"]),
    ("**/.env", ["sub/deep/.env"]),
    ("s?b/*.key", ["sub/c.key"]),
    ("link/*.key", ["link/c.key"]),
    ("l*/*.key", []),
    ("*", [".b.key", "a.key", "link", "other", "sub"]),
    ("nowhere/*", []),
    ("other/*", []),
])  # fmt: skip
def test_what_is_found(top: Path, pattern: str, expected: list[str]) -> None:
    assert found(top, pattern) == expected


def test_only_what_is_granted_is_searched(top: Path) -> None:
    assert found(top, "**/*.key", "sub/deep", "other") == ["sub/deep/er/d.key"]


def test_a_directory_of_one_s_own_that_cannot_be_read_is_an_error(top: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every directory")
    (top / "sub").chmod(0)
    try:
        with pytest.raises(PolicyError, match="cannot be"):
            found(top, "**/*.key")
    finally:
        (top / "sub").chmod(0o700)


@pytest.mark.parametrize("bound, what", [("MOST_NAMES", "more than 3 names"), ("MOST_MATCHES", "matches more than 3")])
def test_a_search_without_an_end_is_an_error(top: Path, monkeypatch: pytest.MonkeyPatch, bound: str, what: str) -> None:
    monkeypatch.setattr(matching, bound, 3)
    with pytest.raises(PolicyError, match=what) as caught:
        found(top, "**/*.key")
    assert caught.value.key == "filesystem.deny" and caught.value.suggestion


def test_a_new_match_is_noticed_and_nothing_else(top: Path) -> None:
    pattern = f"{top}/**/*.key"
    before = find_matches(pattern, "filesystem.deny", [str(top)])
    (top / "sub" / "unrelated").write_text("x")
    assert still_matches(pattern, before)
    (top / "sub" / "deep" / "new.key").write_text("x")
    assert not still_matches(pattern, before)
    (top / "sub" / "deep" / "new.key").unlink()
    assert still_matches(pattern, before)
