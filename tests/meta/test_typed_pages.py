"""The judge of the pages' types (tools/typed_pages.py) can find something; `.ci/run` has it look."""

from __future__ import annotations

import sys
from pathlib import Path

from _support.tree import REPOSITORY

sys.path.append(str(REPOSITORY))
from tools.typed_pages import Page, pages


def page(*wrong: tuple[range, str]) -> Page:
    return Page(REPOSITORY / "README.md", "text", list(wrong))


def test_an_error_is_told_with_the_line_of_its_page() -> None:
    assert list(page().judge([(7, "mypy: no")], "mypy")) == ["README.md:7: mypy: no"]


def test_what_is_marked_as_wrong_must_be() -> None:
    marked = page((range(3, 6), ""))
    assert list(marked.judge([(4, "mypy: no")], "mypy")) == []
    assert list(marked.judge([], "mypy")) == ["README.md:3: marked as wrong, and mypy finds nothing"]
    assert list(marked.judge([(6, "mypy: no"), (3, "mypy: no")], "mypy")) == ["README.md:6: mypy: no"]


def test_one_checker_may_be_the_only_one_that_finds_it() -> None:
    assert list(page((range(3, 4), "pyright")).judge([], "mypy")) == []
    assert len(list(page((range(3, 4), "pyright")).judge([], "pyright"))) == 1


def test_every_page_with_python_is_looked_at() -> None:
    found = {each.path: each.text for each in pages().values() if each.text}
    for path in [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]:
        assert (path in found) == ("\n```python\n" in path.read_text(encoding="utf-8")), path
    assert Path(REPOSITORY / "tests" / "typing" / "policy.py") in found


def test_ci_runs_it() -> None:
    assert "tools/typed_pages.py" in (REPOSITORY / ".ci" / "run").read_text(encoding="utf-8")
