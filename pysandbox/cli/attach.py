"""`pysandbox attach`: back to a detached command: its output, its end, its exit code."""

from __future__ import annotations

from pysandbox.cli import cages, console
from pysandbox.cli.flags import Parser
from pysandbox.cli.logs import DETACHED, Output, detached
from pysandbox.cli.note_lines import end_lines
from pysandbox.detached import Detached
from pysandbox.exit_codes import INTERRUPTED

EPILOG = """\
Examples:
  pysandbox attach               to the newest: its output from the beginning, until it ends; its exit code becomes ours
  pysandbox attach 7Q2M          to that one
  pysandbox attach 7Q2M --close  the same, and what is kept of it is removed in the end

Ctrl-C leaves it running.
"""


def main(arguments: list[str], verbose: bool) -> int:
    def act() -> int:
        namespace = parser().read(arguments)
        return _attach(detached(namespace.id), closing=namespace.close)

    return cages.guarded("attach", act)


def parser() -> Parser:
    declared = cages.parser_with_newest("attach", "Go back to a detached command.", EPILOG, DETACHED)
    declared.add_argument("--close", action="store_true", help="Remove its output and its outcome when it has ended.")
    return declared


def _attach(command: Detached, *, closing: bool) -> int:
    output = Output(command)
    try:
        output.show()
        output.follow()
    except KeyboardInterrupt:
        console.warning(f"it runs on: pysandbox attach {command.id}, or pysandbox kill {command.id}")
        return INTERRUPTED
    result = command.result()
    output.tell_what_lacks()
    for message in end_lines(result.notes):
        console.warning(message)
    if closing:
        command.close()
    return result.exit_code
