"""`pysandbox pause`: stops everything in a cage until `pysandbox resume`."""

from __future__ import annotations

from pysandbox.cli import cages
from pysandbox.cli.flags import Parser
from pysandbox.live import stopping

EPILOG = """\
Examples:
  pysandbox pause 7Q2M     nothing of the cage runs when this returns; its wall time runs on
"""


def main(arguments: list[str], verbose: bool) -> int:
    return cages.guarded("pause", lambda: _pause(parser().read(arguments).id))


def parser() -> Parser:
    return cages.parser("pause", "Stop everything in a cage.", EPILOG)


def _pause(text: str) -> int:
    record = cages.live(text)
    with cages.pinned(record) as pidfd:
        stopping.stop_below(record.id, record.init.pid, pidfd)
    return 0
