"""`pysandbox update`: what it does is in `cli.fetch`."""

from __future__ import annotations

from pysandbox.cli.fetch import fetch


def main(arguments: list[str], verbose: bool) -> int:
    return fetch("update", arguments)
