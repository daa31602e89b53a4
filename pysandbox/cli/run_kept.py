"""A run whose plan was kept a moment ago, and which the launcher could not start all the same. Nobody types it.

    pysandbox-python run-kept [flags of run] -- COMMAND ...

Another name than `run`, so that the two do not pass it to each other for ever (`cli.first_run`).
"""

from __future__ import annotations

from pysandbox.cli import run


def main(arguments: list[str], verbose: bool) -> int:
    return run.main(arguments, verbose, here=True)
