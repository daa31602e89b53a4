"""A command whose first argument chooses among several actions: `recipe`, `app`.

Each action is a function, what declares its flags, and a line about it. All of them take --json.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping

from pysandbox.cli import console
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.shapes import Any, TypeAlias

Action: TypeAlias = tuple[Callable[[Namespace], int], Callable[[Parser], object], str]


def act(command: str, help_text: str, actions: Mapping[str, Action], arguments: list[str]) -> int:
    """Carries out the action that the first argument names; returns the exit code."""
    if arguments[:1] and arguments[0] in ("-v", "--verbose"):
        arguments = [*arguments[1:2], "-v", *arguments[2:]]
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        console.generated(help_text)
        return 0 if arguments else 125
    name, *rest = arguments
    if name not in actions:
        hint = console.meant(name, actions)
        return console.usage_error(f"unknown action {name!r}{hint}", f"pysandbox {command} --help")
    try:
        return actions[name][0](parser_of(command, name, actions[name]).read(rest))
    except UsageError as wrong:
        return console.usage_error(str(wrong), f"pysandbox {command} {name} --help")
    except SystemExit as stop:  # argparse printed the help
        return int(stop.code or 0)


def parser_of(command: str, name: str, action: Action) -> Parser:
    _, declare, description = action
    declared = Parser(f"pysandbox {command} {name}", description, "")
    declared.add_argument("--json", action="store_true", help="Print one JSON document.")
    declare(declared)
    return declared


def answer(namespace: Namespace, document: Any, text: Iterable[str]) -> int:
    """Prints what an action found: the document where --json was given, else the lines."""
    if namespace.json:
        console.document(document, indent=2)
    else:
        console.out(*text)
    return 0
