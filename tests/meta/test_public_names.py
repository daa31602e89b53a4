"""What is public is what `__all__` names; the pages use nothing else, and say which modules have it."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module

from _support import pages
from _support.tree import REPOSITORY
from _support.tree import pages as all_pages

sys.path.append(str(REPOSITORY))
from tools.public_types import PUBLIC, judged


def imported() -> set[tuple[str, str]]:
    """(module, name) of each import from the package in the Python of a page."""
    blocks = (block for page in all_pages() for block in pages.blocks(page.read_text(encoding="utf-8")))
    trees = [ast.parse(block.text) for block in blocks if block.language == "python"]
    return {
        (node.module, alias.name)
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "pysandbox" and node.module
        for alias in node.names
    }


def test_the_pages_import_what_is_public_and_nothing_else() -> None:
    found = imported()
    assert len(found) > 15
    assert {each for each in found if each[1] not in getattr(import_module(each[0]), "__all__", ())} == set()
    assert {module for module, _ in found} <= set(PUBLIC)


def test_every_public_name_is_there() -> None:
    code = "import sys\nfor module in sys.argv[1:]:\n    exec(f'from {module} import *')"
    subprocess.run([sys.executable, "-c", code, *PUBLIC], check=True)


def test_the_page_names_the_modules() -> None:
    page = (REPOSITORY / "docs" / "python.md").read_text(encoding="utf-8").partition("## Types, and what is public")[2]
    assert {f"`{module}`" for module in PUBLIC} - {word.strip(",.") for word in page.split()} == set()


def test_a_name_without_a_type_is_told_and_what_only_echoes_it_is_not() -> None:
    def symbol(name: str, *messages: str) -> dict[str, object]:
        return {"name": name, "diagnostics": [{"message": message} for message in messages]}

    symbols = [symbol("p.A"), symbol("p.A.x", "Type is missing type\n annotation"), symbol("p.A._y", "Type is missing"),
               symbol("p.A.z", "Return type is partially unknown"), symbol("q.B.x", "Type is missing")]  # fmt: skip
    assert list(judged(symbols, {"p.A", "p.C"})) == [
        "p.C: pyright has not seen it",
        "p.A.x: Type is missing type annotation",
    ]
