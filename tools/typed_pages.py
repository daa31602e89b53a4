"""Checks the Python of README.md and docs/ with `mypy --strict` and pyright, as a user's editor does.

    python tools/typed_pages.py [DIRECTORY]    with mypy and pyright beside this interpreter (the `lint` extra)

The blocks of a page are one module, as they share one namespace where the suite runs them (tests/_support/pages.py),
and keep their lines. One that the page writes to a file is the module of that name, which others import. A block that
is wrong on purpose says so, `<!-- docs: wrong: REASON -->` on the line before it, and so does a line of tests/typing
that ends in `# wrong` or `# wrong for ONE: REASON`: there each checker, or that one, must find an error. DIRECTORY
keeps the modules; mypy's cache is in it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from _support.pages import blocks  # noqa: E402

BIN = Path(sys.executable).parent
MYPY_ERROR = re.compile(r"^(?P<file>[^:\n]+\.py):(?P<line>\d+): error: (?P<message>.*)$", re.MULTILINE)
WRONG = re.compile(r"# wrong(?: for (?P<only>\w+): .+)?$")
Error = tuple[str, int, str]  # module, line of the page, message


@dataclass(frozen=True)
class Page:
    """The Python of one page or of one file of it, and the lines in which there must be an error."""

    path: Path
    text: str
    wrong: list[tuple[range, str]]  # the second: "" for both checkers, or the only one that must find something

    def judge(self, errors: Sequence[tuple[int, str]], checker: str) -> Iterator[str]:
        where = self.path.relative_to(ROOT)
        for line, message in errors:
            if not any(line in lines for lines, _ in self.wrong):
                yield f"{where}:{line}: {message}"
        for lines, only in self.wrong:
            if only in ("", checker) and not any(line in lines for line, _ in errors):
                yield f"{where}:{lines.start}: marked as wrong, and {checker} finds nothing"


def pages() -> dict[str, Page]:
    """By the name of its module, all that people write and all of tests/typing."""
    found: dict[str, Page] = {}
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for module, page in _of_page(path):
            if module in found:
                sys.exit(f"{path.relative_to(ROOT)} and {found[module].path.name} both write {module}.py: rename one")
            found[module] = page
    return {**found, **{_name(path): _of_sample(path) for path in sorted((ROOT / "tests" / "typing").glob("*.py"))}}


def _name(path: Path) -> str:
    return re.sub(r"\W", "_", f"page_{path.relative_to(ROOT).with_suffix('')}")


def _of_page(path: Path) -> Iterator[tuple[str, Page]]:
    """Its modules: what it shows, and each file that it writes. A block has the lines that it has in the page."""
    lines: dict[str, list[str]] = {}
    wrong: dict[str, list[tuple[range, str]]] = {}
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.language != "python":
            continue
        module = block.rest.removesuffix(".py") if block.mark == "file" else _name(path)
        above = lines.setdefault(module, [])
        above += [""] * (block.line - 1 - len(above)) + block.text.splitlines()
        if block.mark == "wrong":
            wrong.setdefault(module, []).append((range(block.line, len(above) + 1), ""))
    for module, text in lines.items():
        yield module, Page(path, "\n".join(text) + "\n", wrong.get(module, []))


def _of_sample(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    marks = ((number, WRONG.search(line)) for number, line in enumerate(text.splitlines(), 1))
    return Page(path, text, [(range(number, number + 1), mark["only"] or "") for number, mark in marks if mark])


def mypy(directory: Path, names: list[str]) -> Iterator[Error]:
    command: list[str | Path] = [
        BIN / "mypy",
        "--strict",
        "--config-file=",
        "--follow-imports=silent",
        "--no-error-summary",
    ]
    command += ["--cache-dir", directory / "cache", "--hide-error-context", *(f"{name}.py" for name in names)]
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        sys.exit(f"mypy did not run: {done.stdout}{done.stderr}")
    for error in MYPY_ERROR.finditer(done.stdout):
        yield error["file"].removesuffix(".py"), int(error["line"]), f"mypy: {error['message']}"


def pyright(directory: Path, names: list[str]) -> Iterator[Error]:
    settings = {
        "include": [f"{name}.py" for name in names],
        "extraPaths": [str(ROOT)],
        "reportMissingModuleSource": False,
    }
    (directory / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run([BIN / "pyright", "--outputjson"], cwd=directory, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"pyright did not run: {done.stdout}{done.stderr}")
    for error in json.loads(done.stdout)["generalDiagnostics"]:
        if error["severity"] == "error":
            message = error["message"].replace("\n", " ")
            yield Path(error["file"]).stem, error["range"]["start"]["line"] + 1, f"pyright: {message}"


def check(directory: Path) -> list[str]:
    """What is wrong, a line for each."""
    found = pages()
    for name, page in found.items():
        (directory / f"{name}.py").write_text(page.text, encoding="utf-8")
    told: list[str] = []
    for checker in (mypy, pyright):
        errors = list(checker(directory, sorted(found)))
        for name, page in found.items():
            told += page.judge(
                [(line, message) for module, line, message in errors if module == name], checker.__name__
            )
    return told


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        told = check(Path(arguments[0] if arguments else temporary))
    print("\n".join(told) or "the Python of the pages passes mypy --strict and pyright")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
