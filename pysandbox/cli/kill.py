"""`pysandbox kill`: a signal to everything in a cage; SIGKILL ends the cage itself."""

from __future__ import annotations

import signal
from argparse import ArgumentTypeError

from pysandbox.cli import cages
from pysandbox.cli.flags import Parser
from pysandbox.live import stopping

EPILOG = """\
Examples:
  pysandbox kill 7Q2M              SIGTERM to every process of the cage whose id ends (or begins) so
  pysandbox kill 7Q2M --signal KILL    the cage and everything in it, at once

A paused cage sees other signals when it is resumed. A command line that waits for the cage sees it end as usual.
"""


def main(arguments: list[str], verbose: bool) -> int:
    def act() -> int:
        namespace = parser().read(arguments)
        return _kill(namespace.id, namespace.signal)

    return cages.guarded("kill", act)


def parser() -> Parser:
    declared = cages.parser("kill", "Send a signal to everything in a cage.", EPILOG)
    declared.add_argument("-s", "--signal", type=_number, default=signal.SIGTERM, metavar="S",
                        help="A name or a number. Default: TERM.")  # fmt: skip
    return declared


def _number(text: str) -> signal.Signals:
    name = text.upper().removeprefix("SIG")
    try:
        return signal.Signals(int(name)) if name.isdigit() else signal.Signals[f"SIG{name}"]
    except (ValueError, KeyError):
        raise ArgumentTypeError(f"{text!r} is not a signal: TERM, KILL, 15 and the like") from None


def _kill(text: str, number: signal.Signals) -> int:
    record = cages.live(text)
    with cages.pinned(record) as pidfd:
        if number == signal.SIGKILL:
            signal.pidfd_send_signal(pidfd, number)
        else:
            stopping.signal_below(record.init.pid, pidfd, number)
    return 0
