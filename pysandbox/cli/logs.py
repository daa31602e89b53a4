"""`pysandbox logs`: what a detached command has written."""

from __future__ import annotations

import os

from pysandbox.cli import cages, console
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.detached import STREAMS, Detached
from pysandbox.records.orphans import find_orphans

EPILOG = """\
Examples:
  pysandbox logs             the newest detached command's output so far
  pysandbox logs 7Q2M        of that one: its standard output and standard error so far, each on ours
  pysandbox logs 7Q2M -f     and what it writes, until it ends
"""
DETACHED = "A detached cage"
LOOK = 0.1  # seconds between two looks at the files


def main(arguments: list[str], verbose: bool) -> int:
    def act() -> int:
        namespace = parser().read(arguments)
        output = Output(detached(namespace.id))
        output.show()
        if namespace.follow:
            output.follow()
        output.tell_what_lacks()
        return 0

    return cages.guarded("logs", act)


def parser() -> Parser:
    declared = cages.parser_with_newest("logs", "Show what a detached command has written.", EPILOG, DETACHED)
    declared.add_argument("-f", "--follow", action="store_true", help="Go on until it ends.")
    return declared


def detached(text: str) -> Detached:
    """By the beginning or end of its id, or the newest; running or ended. Raises UsageError."""
    ids = [each.id for each in find_orphans() if each.kind in ("detached", "spool")]
    if not ids:
        raise UsageError("there is no detached cage; `pysandbox run --detach` makes one")
    return Detached.attach(max(ids) if text == cages.NEWEST else cages.find(text, ids))  # an id begins with its time


class Output:
    """What has been shown of a detached command's output."""

    def __init__(self, command: Detached) -> None:
        self._command = command
        self._shown = dict.fromkeys(STREAMS, 0)

    def show(self) -> None:
        """What is there and was not shown yet."""
        for fd, stream in enumerate(STREAMS, 1):
            piece = memoryview(self._command.output(stream, self._shown[stream]))
            self._shown[stream] += len(piece)
            while piece:
                piece = piece[os.write(fd, piece) :]

    def tell_what_lacks(self) -> None:
        """Where a command has ended, since an output that is not whole looks like one that is."""
        if self._command.poll() is not None and self._command.result().truncated:
            console.warning(
                "its output is not whole: it was more than resources.output_mb, or there was no room for it"
            )

    def follow(self) -> None:
        """Until it ends."""
        ended = False
        while not ended:
            try:
                self._command.wait(LOOK)
                ended = True
            except TimeoutError:
                pass
            self.show()
