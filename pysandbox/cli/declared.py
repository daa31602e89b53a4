"""What the command line offers, as data: read from the table of commands and each command's parser.

The completions and the reference page are made of it, so that neither is a second list. A command's module has
`parser()`, or `actions()` where its first argument chooses among several.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from importlib import import_module

from pysandbox.cli.flags import Parser
from pysandbox.cli.main import COMMANDS, MODULES
from pysandbox.shapes import NamedTuple

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


class Subcommand(NamedTuple):
    name: str
    help: str
    flags: tuple[Flag, ...]
    words: tuple[str, ...]  # what its first argument may be, where that is known
    runs: bool  # whether a program and its arguments follow
    usage: str
    actions: tuple[Subcommand, ...] = ()


def commands() -> Iterator[Subcommand]:
    for name, line in COMMANDS.items():
        if name == "help":  # it is the front door's own
            yield Subcommand(name, line, (), tuple(each for each in COMMANDS if each != name), False, "")
            continue
        module = import_module(f"pysandbox.cli.{MODULES.get(name, name)}")
        yield (
            _with_actions(name, line, module.actions())
            if hasattr(module, "actions")
            else _command(name, line, module.parser())
        )


def _command(name: str, line: str, parser: Parser) -> Subcommand:
    runs = any(action.nargs == "..." for action in parser.declared())
    return Subcommand(name, line, tuple(_flags(parser)), tuple(_words(parser)), runs, parser.usage or parser.prog)


def _with_actions(name: str, line: str, parsers: Mapping[str, Parser]) -> Subcommand:
    """A command with actions has the flags of all of them, each once; which action takes which, the reference tells."""
    actions = tuple(_command(f"{name} {each}", parser.description or "", parser) for each, parser in parsers.items())
    flags = {flag.names: flag for action in actions for flag in action.flags}
    usage = f"pysandbox {name} ACTION ..."
    return Subcommand(name, line, tuple(flags.values()), tuple(parsers), False, usage, actions)


def _flags(parser: Parser) -> Iterator[Flag]:
    for action in parser.declared():
        if not action.option_strings or action.help == argparse.SUPPRESS:
            continue
        value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
        explained = (action.help or "").replace("%%", "%")
        yield Flag(tuple(action.option_strings), explained, value, tuple(map(str, action.choices or ())))


def _words(parser: Parser) -> Iterator[str]:
    for action in parser.declared():
        if not action.option_strings and action.choices:
            yield from map(str, action.choices)
            return
