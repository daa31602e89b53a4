"""Runs one page of the documentation: every python and bash block, in order, in one empty directory.

    python pages.py PAGE.md

Python blocks share one namespace, as a reader's session would. A comment on the line before a block says otherwise:

    <!-- docs: shown: REASON -->   not run; the reason is required (needs a terminal, installs something, ...)
    <!-- docs: file NAME -->       written to NAME, for the blocks after it
    <!-- docs: output -->          what the block before it prints; `...` stands for anything
    <!-- docs: exit N -->          a bash block that ends with exit code N

Blocks in any other language are only shown, except toml, which must parse. Stops at the first block that fails and
names its line. It runs in a process of its own: a page may leave its directory, its signals, its modules as it likes.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FENCE = re.compile(r"^(?P<indent> *)```(?P<language>[\w-]*) *$")
MARK = re.compile(r"^ *<!-- docs: (?P<word>shown|wrong|file|output|exit)(?::? +(?P<rest>.+?))? *-->$")
SECONDS = 60  # for one bash block


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int  # of its first line in the page, from 1
    mark: str = ""
    rest: str = ""


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, each with the mark on the line before it."""
    lines, mark = iter(enumerate(page.splitlines(), 1)), ("", "")
    for number, line in lines:
        if found := MARK.match(line):
            mark = found["word"], found["rest"] or ""
        elif line.lstrip().startswith("<!-- docs:"):
            raise SystemExit(f"line {number}: not a mark: {line.strip()}")
        elif fence := FENCE.match(line):
            body = []
            for _, inner in lines:
                if inner.strip() == "```":
                    break
                body.append(inner.removeprefix(fence["indent"]))
            yield Block(fence["language"], "\n".join(body) + "\n", number + 1, *mark)
            mark = ("", "")
        elif line.strip():
            mark = ("", "")


class Reader:
    """Runs blocks one after the other; `printed` is what the last one wrote to its stdout."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.printed = ""

    def read(self, block: Block) -> None:
        """Raises whatever the block raises; AssertionError when it does not do what the page says."""
        if block.mark == "shown":
            assert block.rest, "say why it is not run: <!-- docs: shown: REASON -->"
        elif block.mark == "file":
            Path(block.rest).parent.mkdir(parents=True, exist_ok=True)
            Path(block.rest).write_text(block.text, encoding="utf-8")
        elif block.mark == "output":
            self.compare(block.text)
        elif block.language == "python":
            self.printed = self.python(block)
        elif block.language == "bash":
            self.printed = self.bash(block, int(block.rest or 0))
        elif block.language == "toml":
            tomllib.loads(block.text)

    def python(self, block: Block) -> str:
        padded = "\n" * (block.line - 1) + block.text  # a traceback then names the line of the page
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(padded, self.page, "exec"), self.namespace)
        return out.getvalue()

    def bash(self, block: Block, expected: int) -> str:
        command = ["bash", "-eu", "-o", "pipefail", "-c", block.text]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == expected, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def compare(self, wanted: str) -> None:
        same = doctest.OutputChecker().check_output(wanted, self.printed, doctest.ELLIPSIS)
        assert same, f"the page shows:\n{wanted}\nprinted was:\n{self.printed}"


def main(arguments: list[str]) -> int:
    page = Path(arguments[0])
    reader = Reader(str(page))
    for block in blocks(page.read_text(encoding="utf-8")):
        try:
            reader.read(block)
        except BaseException:
            print(f"{page}:{block.line}: this {block.language} block failed", file=sys.stderr)
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
