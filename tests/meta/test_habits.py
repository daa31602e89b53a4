"""What a contributor is told is what CI does: hooks, settings of editors, the index of tools, the list of pages."""

from __future__ import annotations

import configparser
import re
import tomllib

from _support.tree import REPOSITORY

LINTERS = ("ruff check", "ruff format", "mypy", "lint-imports", "clang-format")
LINK = re.compile(r"\]\(([^)#\s]+)\)")


def read(name: str) -> str:
    return (REPOSITORY / name).read_text(encoding="utf-8")


def test_the_hooks_before_a_commit_are_the_linters_of_ci() -> None:
    stages = re.sub(r'"\$bin/([\w-]+)"', r"\1", read(".ci/run"))
    entries = re.findall(r"^ +entry: (.+)$", read(".pre-commit-config.yaml"), re.MULTILINE)
    assert all(linter in stages for linter in LINTERS)
    assert all(any(linter in entry for entry in entries) for linter in LINTERS)


def test_editors_are_told_what_the_formatters_insist_on() -> None:
    editor = configparser.ConfigParser()
    editor.read_string("[top]\n" + read(".editorconfig"))
    width = editor["*"]["max_line_length"]
    assert width == str(tomllib.loads(read("pyproject.toml"))["tool"]["ruff"]["line-length"])
    assert f"ColumnLimit: {width}" in read(".clang-format")
    assert f"IndentWidth: {editor['*']['indent_size']}" in read(".clang-format")


def test_the_index_of_tools_names_each_tool() -> None:
    tools = {path.name for path in (REPOSITORY / "tools").iterdir() if not path.name.startswith((".", "__"))}
    named = {target.rstrip("/") for target in LINK.findall(read("tools/README.md")) if not target.startswith("..")}
    assert named == tools - {"README.md"}


def test_the_readme_names_each_page_of_the_manual() -> None:
    pages = {f"docs/{path.name}" for path in (REPOSITORY / "docs").glob("*.md")}
    table = {target for line in read("README.md").splitlines() if line.startswith("| [docs/")
             for target in LINK.findall(line)}  # fmt: skip
    assert pages - table == set()


def test_a_report_goes_to_a_place_that_exists() -> None:
    """The repository's own private reporting, and no address that this project may not have."""
    text = read("SECURITY.md")
    assert "private vulnerability reporting" in text and "docs/security.md" in text
    assert not re.search(r"[\w.+-]+@[\w-]+\.\w+|https?://", text)


def test_each_decision_has_a_number_of_its_own() -> None:
    decisions = sorted((REPOSITORY / "docs" / "adr").glob("*.md"))
    numbers = [path.name[:4] for path in decisions]

    assert numbers == [f"{number:04}" for number in range(1, len(decisions) + 1)]
    for path in decisions:
        assert path.read_text(encoding="utf-8").startswith(f"# {path.name[:4]}: "), path.name


def test_each_decision_says_its_status() -> None:
    """Right below its title, so that nobody reads one to its end that another has taken the place of."""
    without = [path.name for path in sorted((REPOSITORY / "docs" / "adr").glob("*.md"))
               if not path.read_text(encoding="utf-8").splitlines()[2].startswith("Status: ")]  # fmt: skip
    assert without == []
