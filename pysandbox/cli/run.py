"""`pysandbox run`: one command in a cage, its exit code ours.

Reads top to bottom: the flags, the start, the watch over the running command, the ending. The
command's standard output is never written to by us; with --json it is captured and the one document is printed there.
"""

from __future__ import annotations

import errno
import os
import time
from argparse import ArgumentTypeError, BooleanOptionalAction, Namespace
from contextlib import ExitStack
from stat import S_ISFIFO, S_ISREG, S_ISSOCK
from typing import TYPE_CHECKING, Any

from pysandbox.cli import console
from pysandbox.cli.attend import Attendance, Signals
from pysandbox.cli.descriptors import at_a_terminal, fill_standard_descriptors, input_of_ours
from pysandbox.cli.flags import Parser, UsageError, add_policy_flags, policy_values
from pysandbox.cli.policy_of import DEFAULTS, Asked, policy_of
from pysandbox.errors import CageError, PolicyError, StartError
from pysandbox.policy.compose import located

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pysandbox.audit import AuditLog
    from pysandbox.cage import Cage
    from pysandbox.cli.document import Document
    from pysandbox.compile.plan import Note
    from pysandbox.events import Sink
    from pysandbox.policy.model import Policy
    from pysandbox.process import Process

    MakeCage = Callable[[Policy, Sink, bool], Cage]

OUR_FAILURE, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127

EPILOG = """\
The command sees the system's programs and libraries, the current directory (read and write) and nothing else; it has
no network but its own loopback, and none of your environment. Flags and recipes grant more, or take away.

Examples:
  pysandbox run -- python3 script.py                    run a script on the files in this directory
  pysandbox run --workdir read -- make test             the directory can be read, not changed
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
    fill_standard_descriptors()
    keep = _Keeper(arguments) if make_cage is None and not (verbose or namespace.verbose) else None
    pty = wants_pty(namespace)

    def asked() -> Asked:
        return policy_of(namespace.recipe, command=argv, extra=policy_values(namespace), pty=pty)

    return perform(namespace, argv, asked, verbose or namespace.verbose, make_cage, keep)


def perform(
    namespace: Namespace,
    argv: list[str],
    asked: Callable[[], Asked],
    verbose: bool,
    make_cage: MakeCage | None = None,
    keep: _Keeper | None = None,
) -> int:
    """One command under the policy that `asked` makes, to its end; with --json the document is printed. The code."""
    wanted = None
    try:
        wanted = asked()
        make = make_cage or _cage_maker(wanted, audited=not namespace.no_audit)
        code, document = _run(namespace, argv, wanted, console.Log(verbose), make, keep)
    except PolicyError as error:
        return failed(located(error, wanted.layers) if wanted else error, argv, as_json=namespace.json)
    except (CageError, OSError) as error:
        return failed(error, argv, as_json=namespace.json)
    if namespace.json:
        console.document(document)
    return code


def read_arguments(arguments: list[str]) -> tuple[Namespace, list[str]]:
    """The flags and the command. What follows the first `--` is the command's, whatever it looks like."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    namespace = parser().read(arguments[:at])
    argv = [*namespace.command, *(arguments[at:] if namespace.command else arguments[at + 1 :])]
    if not argv or not argv[0]:
        raise UsageError("no command given: pysandbox run [flags] -- COMMAND [ARGUMENTS]")
    check_run_flags(namespace)
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
    add("--detach", action="store_true",
        help="Print the id of the cage and return; the command runs on (pysandbox attach ID).")  # fmt: skip
    add_no_sandbox_flag(declared)
    add_policy_flags(declared, DEFAULTS)
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
        raise ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def wants_pty(namespace: Namespace) -> bool:
    """Where all three streams are the user's terminal; a redirected one must stay what it is."""
    if namespace.pty is not None or namespace.json or getattr(namespace, "detach", False):
        return bool(namespace.pty)
    return at_a_terminal()


# ---- the run -------------------------------------------------------------------------------------------------


def _run(
    namespace: Namespace, argv: list[str], asked: Asked, log: console.Log, make_cage: MakeCage, keep: _Keeper | None
) -> tuple[int, Document | None]:
    """The exit code and, with --json, the document."""
    if getattr(namespace, "detach", False):
        return _detach(argv, asked)
    policy, pty = asked.policy, wants_pty(namespace)
    cage = make_cage(policy, lambda event: log.say(event.type, **event.data), namespace.no_sandbox)
    if not cage.caged:
        console.warning(f"NO CAGE: {argv[0]!r} runs with all the access that you have")
    elif policy.monitor:
        from pysandbox.cli import monitoring

        monitoring.say(monitoring.preview(policy))
    with Signals() as signals, ExitStack() as stack:
        stack.callback(cage.runtime.drain)  # when we return, nothing of the cage is left
        process = stack.enter_context(cage.spawn(argv, **_streams(capture=namespace.json, pty=pty, caged=cage.caged)))
        if cage.caged and not (namespace.json or log.verbose):  # the document, or -v, says all of it
            console.weaker(weaker_lines(process.notes))
        attendance = Attendance(process, signals, grace=policy.grace_sec, timeout=namespace.timeout)
        outlets = _outlets(process, attendance, stack, kept=policy.output_mb << 20)
        if keep is not None:
            keep(namespace, cage, asked, pty=pty)
        attendance.until_end()
        process.wait()
        attendance.let_through(process._stdio.relays)
        for outlet in outlets:
            outlet.drain()
        result = process.result()
    if cage.caged and policy.monitor:
        monitoring.say(monitoring.summary(result))
    for message in end_lines(result.notes):
        console.warning(message)
    code = console.told_of_loss(process._stdio.failure, attendance.code(result.exit_code))
    if not namespace.json:
        return code, None
    from pysandbox.cli.document import of_result

    return code, of_result(result, outlets[0], outlets[1], code)


def weaker_lines(notes: Iterable[Note]) -> list[str]:
    from pysandbox.compile.notes import worth_saying

    return [f"{note.key}: {note.message}" for note in worth_saying(notes)]


def end_lines(notes: Iterable[Note]) -> list[str]:
    if not notes:
        return []
    from pysandbox.compile.notes import last_words

    return [note.message for note in last_words(notes)]


class _Keeper:
    """Keeps the plan of a command that runs, so that the next one like it starts from there (`cli.warm`)."""

    def __init__(self, arguments: list[str]) -> None:
        self._arguments = arguments
        self._began = time.time_ns()

    def __call__(self, namespace: Namespace, cage: Cage, asked: Asked, *, pty: bool) -> None:
        from pysandbox.audit import files
        from pysandbox.cli.keep import keep_plan

        wanted = not namespace.no_audit and files.chosen_path() is not None
        if not cage.caged or wanted != cage.runtime.audited:  # a trail that cannot be written is warned of each time
            return
        try:
            prepared = cage.runtime.prepare(cage.policy, os.getcwd())
        except (CageError, OSError):  # something has changed since: then there is nothing to keep
            return
        keep_plan(self._arguments, namespace, asked, prepared, began=self._began, pty=pty, audited=wanted)


def _detach(argv: list[str], asked: Asked) -> tuple[int, None]:
    from pysandbox.cage import Cage

    kind = os.fstat(0).st_mode
    if S_ISFIFO(kind) or S_ISSOCK(kind):
        console.say(
            "the detached command reads nothing from this pipe, whose writer it outlives; give it a file (< FILE)"
        )
    stdin = 0 if S_ISREG(kind) else None
    command = Cage(asked.policy, labels=asked.labels).detach(argv, stdin=stdin)
    console.weaker(weaker_lines(command.notes))
    console.out(command.id)
    return 0, None


def _cage_maker(asked: Asked, *, audited: bool) -> MakeCage:
    def make(policy: Policy, sink: Sink, no_sandbox: bool) -> Cage:
        from pysandbox.cage import Cage
        from pysandbox.launch.runtime import Runtime

        audit = open_audit() if audited else None
        # No cages ahead: there will be no second command.
        runtime = Runtime(sink=sink, audit=audit, warm=0, no_sandbox=no_sandbox)
        return Cage(policy, runtime=runtime, labels=asked.labels)

    return make


def open_audit() -> AuditLog | None:
    """The stream that the environment names. Without a place for the default one (no home directory, a read-only one)
    a command runs all the same, with a warning; one that was asked for by name must work."""
    from pysandbox.audit import AuditLog, files
    from pysandbox.errors import AuditError

    path = files.chosen_path()
    if path is None:
        return None
    try:
        return AuditLog(path)
    except AuditError as error:
        if os.environ.get(files.VARIABLE):
            raise
        console.warning(f"{error}; this run is not recorded")
        return None


def _streams(*, capture: bool, pty: bool, caged: bool) -> dict[str, Any]:
    """What spawn is told about the descriptors; stdin has to be granted, as it may be anything of the user's."""
    if pty:
        from termios import tcgetwinsize

        return {"pty": tcgetwinsize(1) if os.isatty(1) else True}  # from its first look on, the command sees that size
    stdin = input_of_ours() if caged else 0
    if not capture:
        return {"stdin": stdin}
    from pysandbox import PIPE

    return {"stdin": stdin, "stdout": PIPE, "stderr": PIPE}


def _outlets(process: Process, attendance: Attendance, stack: ExitStack, *, kept: int) -> list[Any]:
    """Where the command's output goes, other than straight to our own descriptors."""
    if process.pty_fd is not None:
        from pysandbox.cli.terminal import RawMode, Relay

        stack.enter_context(RawMode(0))
        return [Relay(attendance, process.pty_fd)]
    if process.stdout is None or process.stderr is None:
        return []
    from pysandbox.cli.document import Capture

    return [Capture(attendance, stream, kept) for stream in (process.stdout, process.stderr)]


# ---- when it did not start -----------------------------------------------------------------------------------


def failed(error: CageError | OSError, argv: list[str], *, as_json: bool) -> int:
    """Tells why, and answers the exit code."""
    code, message = _meaning(error, argv[0])
    console.error(message)
    if as_json:
        from pysandbox.cli.document import of_failure

        console.document(of_failure(argv, code, message))
    return code


def _meaning(error: CageError | OSError, program: str) -> tuple[int, str]:
    """The exit code of a failure to start (as of env(1) and the shells) and what the reader can do."""
    if not isinstance(error, StartError) or error.step != "exec":
        return OUR_FAILURE, str(error)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        from pysandbox.cli.not_found import why

        return NOT_FOUND, why(program)
    reason = f"{errno.errorcode.get(error.errno or 0)}: {error.strerror}"
    hint = "check that it is an executable file, and the recipe's allow_execve"
    return NOT_EXECUTABLE, f"{program!r} cannot be executed in the cage ({reason}); {hint}"
