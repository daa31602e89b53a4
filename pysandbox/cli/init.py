"""`pysandbox init`: what it does is in `cli.fetch`."""

from __future__ import annotations

from pysandbox.cli.fetch import fetch, parser_of
from pysandbox.cli.flags import Parser


def main(arguments: list[str], verbose: bool) -> int:
    return fetch("init", arguments)


def parser() -> Parser:
    return parser_of("init")
