"""The maps are of this house: a file that a docstring, a comment or a page names is there, and every room is named."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.tree import PACKAGE, REPOSITORY, installed, modules, pages
from pysandbox.cli.main import COMMANDS

ARCHITECTURE = REPOSITORY / "docs" / "architecture.md"
FULL_PATH = re.compile(r"(?<![\w/.<{*-])((?:csrc|pysandbox|tests|docs|tools|bench)/[\w/-]+\.(?:py|c|h|md|def|toml))\b")
C_NAME = re.compile(r"(?<![\w/.<{*-])((?:[a-z_]+/)*[a-z_0-9]+\.[ch])\b")
C_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
MODULE_NAME = re.compile(r"(?<![\w/.-])([a-z_0-9]+\.py|[a-z_]+/)(?=[\s,;:.]|$)")
SPAN = re.compile(r"`([^`]+)`")
PLACE = re.compile(r"[\w./-]+/|[\w./-]+\.(?:py|c|h)")


def exists(path: str) -> bool:
    return installed(REPOSITORY / path).exists()


def c_files() -> list[Path]:
    return sorted(path for end in ("c", "h") for path in (REPOSITORY / "csrc").rglob(f"*.{end}"))


def rooms() -> set[str]:
    """The packages of pysandbox, and the folders of csrc that hold files."""
    packages = {f"pysandbox/{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    return packages | {f"{path.parent.relative_to(REPOSITORY).as_posix()}/" for path in c_files()} - {"csrc/"}


def document(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def packages() -> list[Path]:
    return [path.parent for path in modules() if path.name == "__init__.py"]


def name(package: Path) -> str:
    return package.relative_to(PACKAGE.parent).as_posix()


# ---- paths that are written out ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*pages(), *sorted((REPOSITORY / "tests").rglob("README.md"))],
                         ids=lambda path: path.relative_to(REPOSITORY).as_posix())  # fmt: skip
def test_a_page_names_no_file_that_is_gone(path: Path) -> None:
    assert not sorted({each for each in FULL_PATH.findall(path.read_text(encoding="utf-8")) if not exists(each)})


def test_no_source_names_a_file_that_is_gone() -> None:
    sources = [*modules(), *c_files(), *(REPOSITORY / "tools").glob("*.py")]
    gone = {(path.name, each) for path in sources for each in FULL_PATH.findall(path.read_text(encoding="utf-8"))
            if not exists(each) and not each.startswith("tools/x.")}  # fmt: skip
    assert len(sources) > 300 and not sorted(gone)


def test_no_comment_in_c_names_a_file_that_is_gone() -> None:
    """A file is named as `fork.c`, or with a folder or more above it: `spawn/passage.c`."""
    known = {"/".join(path.relative_to(REPOSITORY).parts[-count:]) for path in c_files() for count in (1, 2, 3, 4)}
    gone = {(path.name, each) for path in c_files()
            for comment in C_COMMENT.findall(path.read_text(encoding="utf-8"))
            for each in C_NAME.findall(comment)
            if each not in known}  # fmt: skip
    assert not sorted(gone)


# ---- the map of the architecture -----------------------------------------------------------------------------------


def rows() -> Iterator[list[str]]:
    """The places that each row of the table names, those of its first column first."""
    for line in ARCHITECTURE.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            yield [each for each in SPAN.findall(line) if PLACE.fullmatch(each)]


def test_the_architecture_names_what_is_there() -> None:
    """Each place from the root of the repository, or below the first one of its row."""
    found = list(rows())
    assert len(found) > 10
    gone = [each for first, *others in found
            for each in (first, *others)
            if not exists(each) and not exists(f"{first.rstrip('/')}/{each}")]  # fmt: skip
    assert not gone


def test_the_architecture_names_every_room() -> None:
    assert sorted(rooms() - {each for row in rows() for each in row}) == []


# ---- the maps of the packages --------------------------------------------------------------------------------------


def test_the_map_of_the_package_names_every_room() -> None:
    said = set(re.findall(r"(\w+)/(?=\s)", document(PACKAGE / "__init__.py")))
    assert said == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


@pytest.mark.parametrize("package", packages(), ids=name)
def test_a_package_names_no_file_that_is_gone(package: Path) -> None:
    """A file of its own as `paths.py`, a folder as `tcp/`, a module or a class in a module as `init.CageInit`."""
    text = document(package / "__init__.py")
    gone = [each for each in MODULE_NAME.findall(text) if not (package / each).exists() and f"/{each}" not in text]
    dotted = (each for each in SPAN.findall(text) if re.fullmatch(r"[a-z_0-9]+\.[A-Za-z_]\w*", each))
    gone += [each for each in dotted if not is_defined(package, *each.split("."))]
    assert not gone


@pytest.mark.parametrize("package", packages(), ids=name)
def test_the_map_of_a_package_names_each_module_of_it(package: Path) -> None:
    """By its name alone. Commands are in `cli.main.COMMANDS`; a generated table says itself what it is."""
    said = {*re.findall(r"\w+", document(package / "__init__.py"))}
    there = {path.stem for path in package.glob("*.py") if not path.name.startswith("__") and not is_generated(path)}
    there |= {path.parent.name for path in package.glob("*/__init__.py")}
    assert not sorted(there - said - (COMMANDS.keys() if package.name == "cli" else set()))


def is_generated(path: Path) -> bool:
    return "Written by tools/" in document(path)


def is_defined(package: Path, module: str, symbol: str) -> bool:
    for place in (package, PACKAGE):
        path = place / f"{module}.py"
        defined = re.compile(rf"^(?:class |def |async def )?{symbol}\b", re.MULTILINE)
        if path.exists() and defined.search(path.read_text(encoding="utf-8")):
            return True
        if (place / module / f"{symbol}.py").exists():
            return True
    return False
