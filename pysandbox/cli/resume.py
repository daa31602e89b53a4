"""`pysandbox resume`: lets a paused cage go on."""

from __future__ import annotations

import signal

from pysandbox.cli import cages
from pysandbox.cli.flags import Parser
from pysandbox.live import stopping

EPILOG = """\
Examples:
  pysandbox resume 7Q2M     everything in the cage goes on
"""


def main(arguments: list[str], verbose: bool) -> int:
    return cages.guarded("resume", lambda: _resume(parser().read(arguments).id))


def parser() -> Parser:
    return cages.parser("resume", "Let a paused cage go on.", EPILOG)


def _resume(text: str) -> int:
    record = cages.live(text)
    with cages.pinned(record) as pidfd:
        stopping.signal_below(record.init.pid, pidfd, signal.SIGCONT)
    return 0
