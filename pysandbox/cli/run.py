"""`pysandbox run`: one command in a cage, its exit code ours.

Here are its flags, and who runs it: the launcher, where the plan can be kept (`cli.first_run`), else this process
(`cli.perform`).
"""

from __future__ import annotations

from argparse import ArgumentTypeError, BooleanOptionalAction, Namespace
from functools import cache

from pysandbox.cli import console
from pysandbox.cli.descriptors import wants_pty
from pysandbox.cli.flags import Parser, UsageError, add_policy_flags, policy_values
from pysandbox.cli.other_words import add_docker_flags, volume
from pysandbox.cli.policy_of import DEFAULTS, ResolvedRequest, policy_of
from pysandbox.descriptors import standard_streams
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.cli.perform import MakeCage

EPILOG = """\
The command sees the system's programs and libraries, the current directory (read and write) and nothing else; it has
no network but its own loopback, and none of your environment. Flags and recipes grant more, or take away.

Examples:
  pysandbox run -- python3 script.py                    run a script on the files in this directory
  pysandbox run --workdir read -- make test             the directory can be read, not changed
  pysandbox run --workdir cow -- make test              what it writes is kept apart: pysandbox diff, commit, discard
  pysandbox run --allow ~/.cargo --deny ~/.cargo/credentials.toml -- cargo build
  pysandbox run --memory-mb 512 --max-pids 64 --timeout 60 -- ./a.out
  pysandbox run --env CI=1 --env-passthrough LANG -- pytest -q
  pysandbox run -r team.toml -r ci.toml --json -- pytest -q
  pysandbox run -- bash -i                              a shell, with job control
  pysandbox run --detach -- ./server                    prints an id; pysandbox attach ID

Exit codes: the command's own; 124 out of time; 125 pysandbox failed; 126 not executable; 127 not found;
128+n ended by signal n.
"""


def main(arguments: list[str], verbose: bool, make_cage: MakeCage | None = None) -> int:
    """Run the command; tests bring a `make_cage` of their own."""
    try:
        namespace, argv = read_arguments(arguments)
    except UsageError as wrong:
        return console.usage_error(str(wrong), "pysandbox run --help")
    except SystemExit as stop:  # argparse printed the help
        return int(stop.code or 0)
    standard_streams.fill()
    verbose = verbose or namespace.verbose
    pty = wants_pty(namespace)

    @cache
    def asked() -> ResolvedRequest:
        return policy_of(namespace.recipe, command=argv, extra=policy_values(namespace), pty=pty)

    if not (verbose or make_cage):
        from pysandbox.cli.first_run import leave_to_launcher

        leave_to_launcher(arguments, namespace, asked, pty=pty)
    from pysandbox.cli.perform import perform

    return perform(namespace, argv, asked, verbose, make_cage)


def read_arguments(arguments: list[str]) -> tuple[Namespace, list[str]]:
    """The flags and the command. What follows the first `--` is the command's, whatever it looks like."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    namespace = parser().read(arguments[:at])
    if namespace.verbose and namespace.command and (advice := volume(namespace.command[0])):
        raise UsageError(advice)
    argv = [*namespace.command, *(arguments[at:] if namespace.command else arguments[at + 1 :])]
    if not argv or not argv[0]:
        raise UsageError("no command given: pysandbox run [flags] -- COMMAND [ARGUMENTS]")
    check_run_flags(namespace)
    if namespace.dry_run and namespace.detach:
        raise UsageError("--detach leaves nobody to show what a --dry-run has changed")
    if namespace.detach and (namespace.json or namespace.pty or namespace.timeout or namespace.no_sandbox):
        raise UsageError("--detach leaves nobody to wait, and keeps a cage: no --json, --pty, --timeout, --no-sandbox")
    if getattr(namespace, "output_mb", None) is not None and not (namespace.json or namespace.detach):
        raise UsageError("--output-mb is of the output that is kept, and nothing is: the command writes to your own "
                         "streams. Add --json, or cut them: `pysandbox run ... | head -c 1M`")  # fmt: skip
    return namespace, argv


def check_run_flags(namespace: Namespace) -> None:
    if namespace.json and namespace.pty:
        raise UsageError("--json captures the output, which --pty shows: choose one")


def parser() -> Parser:
    declared = Parser("pysandbox run", "Run one command in a cage.", EPILOG)
    declared.usage = "pysandbox run [flags] [--] COMMAND [ARGUMENTS]"
    add = declared.add_argument
    add("command", nargs="...", metavar="COMMAND", help="the program and its arguments")
    add_recipe_flag(declared)
    add_run_flags(declared)
    add("-d", "--detach", action="store_true",
        help="Print the id of the cage and return; the command runs on (pysandbox attach ID).")  # fmt: skip
    add("--dry-run", action="store_true",
        help="With --workdir cow: show what the command would change, and forget it.")  # fmt: skip
    add_no_sandbox_flag(declared)
    add_policy_flags(declared, DEFAULTS)
    add_docker_flags(declared)
    return declared


def add_run_flags(declared: Parser) -> None:
    """What is asked of a run, whatever its policy."""
    add = declared.add_argument
    add("--timeout", type=_seconds, metavar="S", help="End the command after S seconds (exit code 124).")
    add("--json", action="store_true", help="Capture the output and print one document about the run.")
    add("--pty", action=BooleanOptionalAction, default=None,
        help="Give the command a terminal of its own; the default when ours is one.")  # fmt: skip
    add("--no-audit", action="store_true", help="Leave no record of this run; as PYSANDBOX_AUDIT=off does.")


def add_no_sandbox_flag(declared: Parser) -> None:
    declared.add_argument("--no-sandbox", action="store_true",
        help="Run with NO cage at all, whatever the policy says.")  # fmt: skip


def add_recipe_flag(declared: Parser) -> None:
    declared.add_argument("-r", "--recipe", action="append", default=[], metavar="FILE",
        help="A policy: a TOML file, or the name of a shipped one. Repeatable; later ones win.")  # fmt: skip


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        unit = {"s": 1, "m": 60, "h": 3600}.get(text[-1:], 0)
        meant = f": write {int(text[:-1]) * unit}" if unit and text[:-1].isdecimal() else ", more than 0"
        raise ArgumentTypeError(f"{text!r} is not a number of seconds{meant}")
    return seconds
