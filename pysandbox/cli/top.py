"""`pysandbox top`: what the cages of this user use, once a second, until q or Ctrl-C; once when not on a terminal."""

from __future__ import annotations

import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager

from pysandbox.cli import cages, console
from pysandbox.cli.flags import Parser
from pysandbox.cli.ps import state
from pysandbox.live import stats
from pysandbox.live.stats import Stats
from pysandbox.records import registry
from pysandbox.records.registry import CageRecord

EPILOG = """\
Examples:
  pysandbox top                 a live table; q or Ctrl-C ends it
  pysandbox top --interval 5    every five seconds
  pysandbox top | head          once: the output is no terminal

CPU is the share of one processor since the last look, at the first look since the cage began.
"""
COLUMNS = "{id:<26}  {cpu:>6}  {memory:>8}  {io:>8}  {processes:>5}  {threads:>5}  {state:<8}  {command}"
WIDTH_BEFORE_COMMAND = 82
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # another screen, no cursor; and back
QUIT = b"qQ\x03\x04"

Look = dict[str, tuple[float, Stats]]


def main(arguments: list[str], verbose: bool) -> int:
    return cages.guarded("top", lambda: _show(max(0.1, parser().read(arguments).interval)))


def parser() -> Parser:
    declared = cages.parser("top", "Show what the cages use.", EPILOG, with_id=False)
    declared.add_argument("--interval", type=float, default=1.0, metavar="S", help="Seconds between two looks.")
    return declared


def _show(interval: float) -> int:
    if not (sys.stdout.isatty() and sys.stdin.isatty()):
        console.out(*table(registry.live(), {}, shutil.get_terminal_size((200, 24)).columns)[0])
        return 0
    before: Look = {}
    with _screen():
        while True:
            size = shutil.get_terminal_size()
            lines, before = table(registry.live(), before, size.columns)
            text = "".join(f"{console.plain(line)}{CLEAR_LINE}\r\n" for line in lines[: size.lines - 1])
            sys.stdout.write(HOME + text + CLEAR_BELOW)
            sys.stdout.flush()
            if _quits(interval):
                return 0


def table(live: list[CageRecord], before: Look, columns: int) -> tuple[list[str], Look]:
    """The lines, and what the next table needs of this look."""
    head = dict(zip(("id", "cpu", "memory", "io", "processes", "threads", "state", "command"),
                    ("ID", "CPU%", "MEMORY", "IO", "PROCS", "THR", "STATE", "COMMAND"), strict=True))  # fmt: skip
    lines, now = [COLUMNS.format(**head)], {}
    for record in live:
        used, moment = stats.of_tree(record.init.pid), time.time()
        now[record.id] = moment, used
        since, earlier = before.get(record.id, (record.started, Stats()))
        share = (used.cpu_seconds - earlier.cpu_seconds) / max(moment - since, 0.01)
        command = "; ".join(cages.command_lines(record)) or "(an open session)"
        lines.append(
            COLUMNS.format(
                id=record.id, cpu=f"{max(0.0, share) * 100:.1f}", memory=_size(used.memory_bytes),
                io=_size(used.io_bytes), processes=used.processes, threads=used.threads, state=state(record),
                command=cages.printable(command, max(20, columns - WIDTH_BEFORE_COMMAND)),
            )
        )  # fmt: skip
    return lines, now


def _size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "K", "M", "G"):
        if amount < 1024:
            return f"{amount:.0f}{unit}" if unit == "B" else f"{amount:.1f}{unit}"
        amount /= 1024
    return f"{amount:.1f}T"


@contextmanager
def _screen() -> Iterator[None]:
    """Keys arrive at once and unseen; the terminal is put back whatever happens."""
    saved = termios.tcgetattr(0)
    tty.setcbreak(0)
    sys.stdout.write(ENTER)
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, saved)
        sys.stdout.write(LEAVE)
        sys.stdout.flush()


def _quits(seconds: float) -> bool:
    ready, _, _ = select.select([0], [], [], seconds)
    return bool(ready) and (not (typed := os.read(0, 64)) or any(key in QUIT for key in typed))
