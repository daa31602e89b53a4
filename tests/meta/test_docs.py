"""What the documentation shows is true: its code runs, its links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from _support import pages
from _support.tree import REPOSITORY, installed
from _support.tree import pages as all_pages

LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")
GENERATED = REPOSITORY / "docs" / "reference"


def written() -> list[Path]:
    return [page for page in all_pages() if not page.is_relative_to(GENERATED)]


def named(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize("page", written(), ids=named)
def test_the_code_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the pages speak to an unprivileged user: run bash tests/run")
    tools = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-I", pages.__file__, str(page)],
        cwd=tmp_path,
        env={**os.environ, "PATH": tools, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", all_pages(), ids=named)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    targets = [found["target"] for found in LINK.finditer(page.read_text(encoding="utf-8"))]
    files = [target.partition("#")[0] for target in targets if not target.startswith(("http:", "https:", "#"))]
    missing = [target for target in files if not installed(page.parent / target).exists()]
    assert not missing, f"{named(page)} links to {missing}"


def test_a_block_that_is_not_run_says_why() -> None:
    silent = pages.Block("bash", "true\n", 1, "shown", "")
    with pytest.raises(AssertionError, match="say why"):
        pages.Reader("page").read(silent)


def test_a_failing_block_fails_its_page() -> None:
    reader = pages.Reader("page")
    with pytest.raises(AssertionError, match="exit code 3"):
        reader.read(pages.Block("bash", "exit 3\n", 1))
    with pytest.raises(ZeroDivisionError):
        reader.read(pages.Block("python", "1 / 0\n", 1))


def test_shown_output_is_compared_with_what_the_block_before_it_printed() -> None:
    first, second = pages.blocks('```python\nprint("one", 2)\n```\n<!-- docs: output -->\n```text\none ...\n```\n')
    reader = pages.Reader("page")
    reader.read(first)
    reader.read(second)
    with pytest.raises(AssertionError, match="the page shows"):
        reader.read(pages.Block("text", "three\n", 1, "output"))


def test_python_blocks_of_a_page_share_one_namespace_and_know_their_lines() -> None:
    page = "intro\n```python\nx = 1\n```\ntext\n```python\nassert x == 1\n```\n"
    reader = pages.Reader("page")
    for block in pages.blocks(page):
        reader.read(block)
    assert [block.line for block in pages.blocks(page)] == [3, 7]
