"""The flags that follow from the policy's options, and the parser that holds them.

No flag of a policy is written here: each comes from the declaration beside its field in `pysandbox.policy.model`.
A flag that is not given leaves no trace, so that a recipe's value stands.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from functools import partial

from pysandbox.policy.model import Grant, Option, options
from pysandbox.shapes import Any, NoReturn

SECTIONS = {
    "filesystem": "files",
    "process": "processes",
    "resources": "resources",
    "workspace": "workspace",
    "syscalls": "system calls",
    "network": "network",
    "network.dlp": "leaks of credentials",
    "": "isolation",
}
SHORT = {"--strict": ("-s",), "--port": ("-p",), "--env": ("-e",)}
ELSEWHERE = {"--host": "network"}  # whose section is not where one would look for it
OPENING = frozenset({"--no-sandbox", "--unsafe-direct"})  # are proposed to nobody who has misspelt another flag
METAVARS = {"Grant": "PATH", "HostRule": "NAME[:PORT]", "tuple[str, str]": "NAME=VALUE", "int": "N", "float": "N"}


class UsageError(Exception):
    """The command line is wrong; `str()` says how. Never leaves `pysandbox.cli`."""


class Parser(argparse.ArgumentParser):
    """argparse that neither guesses abbreviations nor exits with its own code."""

    def __init__(self, prog: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=prog, description=description, epilog=epilog, formatter_class=_Help, allow_abbrev=False,
            usage=f"{prog} [flags]",
        )  # fmt: skip
        self.add_argument("-v", "--verbose", action="store_true", help="Say more on standard error.")
        self.takes_command = False  # after the first `--`, whatever it looks like

    def declared(self) -> list[argparse.Action]:
        """The flags and arguments, in the order in which they were added."""
        return self._actions

    def error(self, message: str) -> NoReturn:
        if message.startswith("argument --workdir: invalid choice"):
            message += "; the directory in which the command begins is -w DIR"
        if message.startswith("argument -m/--memory: expected"):
            message += ", such as 512m; --monitor is written out"
        raise UsageError(message)

    def read(self, arguments: list[str]) -> argparse.Namespace:
        """The namespace; UsageError with a suggestion for a flag that does not exist."""
        from pysandbox.cli.console import in_lines_of_json

        takes_many = any(each.nargs == "*" for each in self._get_positional_actions())
        parse = self.parse_known_intermixed_args if takes_many else self.parse_known_args
        at = arguments.index("--") if self.takes_command and "--" in arguments else len(arguments)
        namespace, unknown = parse(arguments[:at])
        if self.takes_command:
            namespace.command = arguments[at + 1 :]
        if unknown:
            raise UsageError(self._unknown(unknown[0].partition("=")[0]))
        if namespace.verbose:
            in_lines_of_json()
            tell_who(self.prog)
        return namespace

    def _unknown(self, flag: str) -> str:
        """What to say of it: the flag that means the same, else one that is spelled much like it."""
        from pysandbox.cli.console import meant
        from pysandbox.cli.other_words import FLAGS, OF_COMMANDS, VERSION

        known = self._option_string_actions
        if not flag.startswith("-"):
            return f"it takes no argument {flag!r}"
        if flag in VERSION:
            return f"unknown flag {flag!r}: pysandbox --version says it"
        if flag in (own := OF_COMMANDS.get(self.prog, {})):
            return f"unknown flag {flag!r}: {own[flag]}"
        if flag in FLAGS and "--allow" in known:  # for a parser that has the flags of policies
            return f"unknown flag {flag!r}: {FLAGS[flag]}"
        return f"unknown flag {flag!r}{meant(flag, [each for each in known if each not in OPENING])}"


def tell_who(command: str) -> None:
    """With -v, first of all: which program speaks, where. Not of a command in a cage: its events say more."""
    import sys

    if command in ("pysandbox run", "pysandbox up"):
        return

    from pysandbox.cli import console

    log = console.Log(True)
    log.say("cli.command", command=command, version=console.version(), python=sys.executable, directory=_directory())


def _directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "(deleted)"


class _Help(argparse.RawDescriptionHelpFormatter):
    """argparse asks shutil for the width, even when no help is printed: an import this start can do without."""

    def __init__(self, prog: str) -> None:
        try:
            columns = os.get_terminal_size().columns
        except OSError:
            columns = 80
        super().__init__(prog, max_help_position=32, width=min(columns, 120) - 2)


def add_policy_flags(
    parser: argparse.ArgumentParser, defaults: Mapping[str, Any], only: tuple[str, ...] | None = None
) -> None:
    """One flag per option that has one, in the groups of SECTIONS; `defaults`: those that differ, for the help. With
    `only`, the flags of these fields and no others."""
    groups = {section: parser.add_argument_group(title) for section, title in SECTIONS.items()}
    for field, described in options():
        if described.flag and (only is None or field.name in only):
            names = (*SHORT.get(described.flag, ()), described.flag)
            default = defaults.get(field.name, field.default)
            groups[ELSEWHERE.get(described.flag, described.section)].add_argument(
                *names, dest=field.name, default=None, **_argument(str(field.type), described, default)
            )


def _argument(kind: str, described: Option, default: Any) -> dict[str, Any]:
    explained = described.doc.replace("%", "%%")
    if kind == "bool":
        # What merges by `or` cannot be taken back, so there is no --no- that would only seem to.
        if described.merge == "or":
            return {"action": "store_true", "help": explained}
        return {"action": argparse.BooleanOptionalAction, "help": f"{explained} Default: {'yes' if default else 'no'}."}
    if kind == "bool | None":
        return {"action": argparse.BooleanOptionalAction, "help": explained}
    if kind.startswith("tuple["):
        kind = kind.removeprefix("tuple[").removesuffix(", ...]")
        metavar = METAVARS.get(kind) or described.item.upper()
        explained += " Repeatable."
        return {"action": "append", "type": TYPES.get(kind, str), "metavar": metavar, "help": explained}
    if default is not None:
        explained += f" Default: {default:g}." if isinstance(default, float) else f" Default: {default}."
    if described.choices:
        return {"choices": described.choices, "help": explained}
    kind = kind.removesuffix(" | None")
    read = partial(_whole, unit=described.unit) if kind == "int" else TYPES[kind]
    return {"type": read, "metavar": described.unit or METAVARS[kind], "help": explained}


def _path(text: str) -> Grant:
    """As in a recipe, but `../x` means what it means to the shell: whoever types it may point out of this directory."""
    if not text:
        raise argparse.ArgumentTypeError("an empty path")
    if text[0] in "/~$":
        return Grant(text)
    here = os.getcwd().replace("$", "$$")  # only what was typed is expanded later
    return Grant(os.path.normpath(f"{here}/{text}"))


def _variable(text: str) -> tuple[str, str | None]:
    """A variable and its value; None is the caller's own, as docker has it."""
    name, equals, value = text.partition("=")
    if not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE, nor the NAME of a variable of yours")
    return name, value if equals else None


# What is written behind a number elsewhere, in the unit of a flag.
SUFFIXES = {"MiB": {"m": 1, "g": 1 << 10, "t": 1 << 20}, "GiB": {"g": 1, "t": 1 << 10}, "%": {"%": 1}}


def _whole(text: str, unit: str = "") -> int:
    try:
        return int(text)
    except ValueError:
        number = text.rstrip("bBgGiIkKmMtT%")
        factor = SUFFIXES.get(unit, {}).get(text[len(number) :].lower().removesuffix("b").removesuffix("i"))
        meant = f": write {int(number) * factor} ({unit})" if factor and number.isdecimal() else ""
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number{meant}") from None


TYPES = {"Grant": _path, "tuple[str, str]": _variable, "int": _whole, "float": float}


def policy_values(namespace: argparse.Namespace) -> dict[str, Any]:
    """The fields of the policy that the command line gave, and only those."""
    values = ((field.name, getattr(namespace, field.name, None)) for field, _ in options())
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in values if value is not None}
    own = tuple(name for name, value in given.get("env", ()) if value is None)
    if own:  # `--env NAME`
        given["env_passthrough"] = (*given.get("env_passthrough", ()), *own)
        given["env"] = tuple(pair for pair in given["env"] if pair[1] is not None)
    return {name: value for name, value in given.items() if name != "env" or value}
