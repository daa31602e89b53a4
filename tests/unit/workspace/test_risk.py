"""The marks of a change, by its name: what runs without being asked for is guarded, what builds and tests run, and what
agents read, is marked, and a source file is neither."""

from __future__ import annotations

import pytest

from pysandbox.policy.guarded import HOME, PROJECT
from pysandbox.workspace.risk import INSTRUCTS, MARKS, RUN_BY_NAME, by_name, is_written_by_name_alone

GUARDED = sorted(name for table in (PROJECT, HOME) for names in table.values() for name in names if name != "bin")


@pytest.mark.parametrize("below", ["", "a/b/"])
@pytest.mark.parametrize("name", GUARDED)
def test_what_is_guarded_is_written_where_it_is_named_alone(name: str, below: str) -> None:
    for path in (f"{below}{name}", f"{below}{name}/inside"):
        assert by_name(path.encode()) == ("guarded",) and is_written_by_name_alone(path.encode())


@pytest.mark.parametrize("name", ["eslint.config.mjs", "rules.bzl", "x.pth", ".github/workflows/x.yml", *RUN_BY_NAME])
def test_what_a_build_or_a_test_runs_is_marked(name: str) -> None:
    assert by_name(f"a/{name}".encode()) in (("runs-on-host",), ("guarded",))


@pytest.mark.parametrize("name", [*(each.decode() for each in INSTRUCTS), ".claude/commands/x.md"])
def test_what_agents_go_by_is_marked(name: str) -> None:
    assert by_name(f"a/{name}".encode()) == ("instructs-agents",)


@pytest.mark.parametrize("name", ["main.py", "docs/README.md", "src.js", "cargo/config.toml", "bin/x"])
def test_control_a_source_file_is_not(name: str) -> None:
    assert by_name(name.encode()) == ()


def test_every_mark_says_what_it_is() -> None:
    assert {"guarded", "runs-on-host", "instructs-agents"} <= MARKS.keys() and all(MARKS.values())
