"""What the command line offers, as data: read from the table of commands and each command's parser.

The completions and the reference page are made of it, so that neither is a second list. A command whose module has no
`parser()` is known by its name and its line of help alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

from pysandbox.cli.main import COMMANDS, MODULES

PATHS = ("PATH", "FILE", "DIR")  # metavars of what the shell can complete by itself


class Flag(NamedTuple):
    """`names` as they are typed, the long one last; `value` is "" for a flag that takes none."""

    names: tuple[str, ...]
    help: str
    value: str
    choices: tuple[str, ...]

    @property
    def takes_path(self) -> bool:
        return self.value in PATHS


class Command(NamedTuple):
    name: str
    help: str
    flags: tuple[Flag, ...]
    words: tuple[str, ...]  # what its first argument may be, where that is known
    runs: bool  # whether a program and its arguments follow
    usage: str


def commands() -> Iterator[Command]:
    for name, line in COMMANDS.items():
        parser = _parser(name)
        if parser is None:
            words = tuple(each for each in COMMANDS if each != name) if name == "help" else ()
            yield Command(name, line, (), words, False, "")
        else:
            runs = any(action.nargs == "..." for action in parser._actions)
            yield Command(name, line, tuple(_flags(parser)), tuple(_words(parser)), runs, parser.usage or parser.prog)


def _parser(name: str) -> argparse.ArgumentParser | None:
    if name == "help":  # it is the front door's own
        return None
    module = import_module(f"pysandbox.cli.{MODULES.get(name, name)}")
    declared: argparse.ArgumentParser | None = module.parser() if hasattr(module, "parser") else None
    return declared


def _flags(parser: argparse.ArgumentParser) -> Iterator[Flag]:
    for action in parser._actions:
        if not action.option_strings or action.help == argparse.SUPPRESS:
            continue
        value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
        explained = (action.help or "").replace("%%", "%")
        yield Flag(tuple(action.option_strings), explained, value, tuple(map(str, action.choices or ())))


def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if not action.option_strings and action.choices:
            yield from map(str, action.choices)
            return
