"""The front door of the command line: picks the command, imports only that one, turns its end into an exit code.

Exit codes are documented and stable: the command's own; 124 out of time; 125 a failure of pysandbox itself or of what
it was asked; 126 found but not executable; 127 not found; 128+n ended by signal n. A command is a module with
`main(arguments, verbose) -> int`; to add one, write the module and its row in COMMANDS.
"""

from __future__ import annotations

import gc
import os
import sys

from pysandbox.cli import console
from pysandbox.errors import CageError
from pysandbox.exit_codes import BROKEN_PIPE, INTERRUPTED, OUR_FAILURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any


COMMANDS = {
    "run": "run one command in a cage",
    "up": "run a sandbox of the project's manifest, pysandbox.toml",
    "app": "install, run, replay and revoke apps that have their effects by capability",
    "recipe": "list, show, explain, suggest and trust recipes",
    "init": "fetch recipes from a repository or a directory",
    "update": "fetch them again",
    "ps": "list the cages that run",
    "top": "show what the cages use, live",
    "kill": "send a signal to everything in a cage",
    "pause": "stop everything in a cage",
    "resume": "let a paused cage go on",
    "attach": "go back to a command that was started with run --detach",
    "logs": "show what a detached command has written",
    "diff": "show what a kept copy-on-write workspace would change",
    "commit": "write a kept workspace to its tree, all of it, a part or hunk by hunk",
    "discard": "forget a kept workspace",
    "orphans": "list, or remove, what outlived its host",
    "explain": "say what a policy allows, or what a run did and why it was refused",
    "audit": "show and check the trail of what ran",
    "dlp": "find credentials in files, in plain or encoded",
    "check": "say what this host can do for a cage, and how to get the rest",
    "setup": "install the policy that AppArmor or SELinux needs for cages",
    "completion": "print the completions of bash, zsh or fish",
    "help": "explain a command: pysandbox help run",
}

# Commands whose module has another name.
MODULES: dict[str, str] = {"after-failure": "after_failure"}
BY_LAUNCHER = frozenset({"after-failure", "beside"})  # which nobody types

SELDOM = 100_000  # objects between two looks for garbage: a start makes nearly as many, and throws next to none away

HELP = """\
Usage: pysandbox [-v] COMMAND ...

Runs code that nobody has reviewed, in a cage, without root.

Commands:
{commands}

Options:
  -h, --help     show this text
  -V, --version  show the version
  -v             say more on standard error

Examples:
  pysandbox run -- python3 script.py
  pysandbox run --workdir read --memory-mb 512 -- make test
  pysandbox up
  pysandbox check

Exit codes: the command's own; 124 out of time; 125 pysandbox failed; 126 not executable; 127 not found;
128+n ended by signal n.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code. Everything printed has been flushed when this returns."""
    code = None
    try:
        code = _reported(list(sys.argv[1:] if argv is None else argv))
        if sys.stdout is not None:  # started with it closed
            sys.stdout.flush()
        return code
    except BrokenPipeError:  # whoever read our output has gone
        _write_nowhere()
        return BROKEN_PIPE
    except OSError as error:  # a full disk
        _write_nowhere()
        if code != OUR_FAILURE:  # else it has been said
            console.error(f"the output could not be written: {error.strerror}")
        return OUR_FAILURE


def _write_nowhere() -> None:
    """The interpreter flushes standard output once more at its exit: let that succeed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def script() -> None:
    """What the launcher hands over to (csrc/launcher/main.c): never returns."""
    gc.set_threshold(SELDOM)
    if not {*COMMANDS, *BY_LAUNCHER}.isdisjoint(sys.argv):  # --version and --help do without: a fifth of their time
        import_argparse_alone()
    sys.exit(main())


def import_argparse_alone() -> None:
    """In a process that is ours alone: argparse asks gettext for its own few words in the user's language, which brings
    locale, and seven regular expressions of both: a twentieth of a first run. All else here is English anyway."""
    if "argparse" in sys.modules or "gettext" in sys.modules:
        return
    words: Any = type(sys)("gettext")
    words.gettext, words.ngettext = str, lambda one, many, count: one if count == 1 else many
    sys.modules["gettext"] = words
    try:
        import argparse  # noqa: F401
    finally:
        del sys.modules["gettext"]  # whoever else asks for it gets the real one


def _reported(arguments: list[str]) -> int:
    try:
        return _dispatch(list(arguments))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except (CageError, OSError) as error:
        console.error(str(error))
    except Exception as error:
        console.error(_unforeseen(error))
        if "-v" in arguments:
            import traceback

            traceback.print_exc()
    return OUR_FAILURE


def _unforeseen(error: Exception) -> str:
    if isinstance(error, RuntimeError):
        from pysandbox.launch import no_thread

        if (why := no_thread.explained(error)) is not None:
            return why
    return f"internal error: {type(error).__name__}: {error}; please report it, with the output of -v"


def _dispatch(arguments: list[str]) -> int:
    verbose = False
    while arguments and arguments[0].startswith("-"):
        flag = arguments.pop(0)
        if flag in ("-h", "--help"):
            return _help([])
        if flag in ("-V", "--version"):
            console.out(f"pysandbox {console.version()}")
            return 0
        if flag not in ("-v", "--verbose"):
            known = ["--help", "--version", "--verbose"]
            return console.usage_error(f"unknown flag {flag!r}{console.meant(flag, known)}", "pysandbox --help")
        verbose = True
        console.in_lines_of_json()
    if not arguments:
        return console.usage_error("no command given", "pysandbox --help")
    name, *rest = arguments
    if name == "help":
        return _help(rest)
    if name not in COMMANDS and name not in BY_LAUNCHER:
        return console.usage_error(f"unknown command {name!r}{_meant(name)}", "pysandbox --help")
    if verbose:
        from pysandbox.cli.flags import tell_who

        tell_who(f"pysandbox {name}")
    return _command(name)(rest, verbose)


def _meant(name: str) -> str:
    from pysandbox.cli.other_words import COMMANDS as ELSEWHERE

    if name in ELSEWHERE:
        return f": that is pysandbox {ELSEWHERE[name]}"
    program = name if name.isprintable() and not name.startswith("-") else "PROGRAM"
    return f"{console.meant(name, COMMANDS)}; to run a program: pysandbox run -- {program}"


def _command(name: str) -> Callable[[list[str], bool], int]:
    from importlib import import_module

    module = import_module(f"pysandbox.cli.{MODULES.get(name, name)}")
    command: Callable[[list[str], bool], int] = module.main
    return command


def _help(topics: list[str]) -> int:
    if topics and topics[0] != "help":
        return _dispatch([topics[0], "--help"])
    commands = "\n".join(f"  {name:<10}  {text}" for name, text in COMMANDS.items())
    console.generated(HELP.format(commands=commands))
    return 0
