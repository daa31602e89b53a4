"""One command in a cage, from its policy to its end, as `run` and `up` do it: the start, the watch over the running
command, the ending.

The command's standard output is never written to by us; with --json it is captured and the one document is printed
there. Where the plan of a `run` can be kept, the launcher does all of this instead (`cli.first_run`, csrc/launcher).
"""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from stat import S_ISFIFO, S_ISREG, S_ISSOCK

from pysandbox.cli import console
from pysandbox.cli.attend import Attendance, Signals
from pysandbox.cli.descriptors import can_ask, wants_pty
from pysandbox.cli.flags import UsageError
from pysandbox.cli.note_lines import end_lines, weaker_lines
from pysandbox.cli.trail import open_audit
from pysandbox.errors import CageError, PolicyError, StartError
from pysandbox.events import UNTRACKED
from pysandbox.exit_codes import NOT_EXECUTABLE, NOT_FOUND, OUR_FAILURE
from pysandbox.launch.stdio import DEVNULL
from pysandbox.policy.compose import located
from pysandbox.shapes import TYPE_CHECKING, Any, replace

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from pysandbox.cage import Cage
    from pysandbox.cli.decide import EndOfRun
    from pysandbox.cli.document import Document
    from pysandbox.cli.policy_of import ResolvedRequest
    from pysandbox.events import Event, Sink
    from pysandbox.policy.model import Policy
    from pysandbox.process import Process
    from pysandbox.result import Result
    from pysandbox.workspace.workspace import Workspace

    MakeCage = Callable[[Policy, Sink, bool], Cage]


def perform(
    namespace: Namespace,
    argv: list[str],
    asked: Callable[[], ResolvedRequest],
    verbose: bool,
    make_cage: MakeCage | None = None,
) -> int:
    """One command under the policy that `asked` makes, to its end; with --json the document is printed. The code."""
    wanted, ending = None, None
    try:
        wanted = asked()
        dry_run = getattr(namespace, "dry_run", False)
        if dry_run or _writes_apart(wanted.policy):
            from pysandbox.cli.decide import begin

            wanted, ending = begin(wanted, dry_run=dry_run, can_ask=not namespace.json and can_ask())
        make = make_cage or _cage_maker(wanted, audited=not namespace.no_audit)
        code, document = _run(namespace, argv, wanted, console.Log(verbose), make, ending)
    except PolicyError as error:
        return failed(located(error, wanted.layers) if wanted else error, argv, as_json=namespace.json)
    except (CageError, OSError) as error:
        return failed(error, argv, as_json=namespace.json, policy=wanted.policy if wanted else None)
    if namespace.json:
        console.document(document)
    return code


def _writes_apart(policy: Policy) -> bool:
    return policy.workdir == "cow" or bool(policy.cow)


# ---- the run -------------------------------------------------------------------------------------------------


def _run(
    namespace: Namespace,
    argv: list[str],
    asked: ResolvedRequest,
    log: console.Log,
    make_cage: MakeCage,
    ending: EndOfRun | None = None,
) -> tuple[int, Document | None]:
    """The exit code and, with --json, the document. `ending`: where it writes apart."""
    if getattr(namespace, "detach", False):
        return _detach(argv, asked, namespace.cwd)
    policy, pty = asked.policy, wants_pty(namespace)
    cage = make_cage(policy, lambda event: _say(log, event), namespace.no_sandbox)
    if not cage.caged:
        console.warning(f"NO CAGE: {argv[0]!r} runs with all the access that you have")
    elif policy.monitor:
        from pysandbox.cli import monitoring

        monitoring.say(monitoring.preview(policy))
    with Signals() as signals, ExitStack() as stack:
        stack.callback(cage.runtime.drain)  # when we return, nothing of the cage is left
        streams = _streams(capture=namespace.json, pty=pty, caged=cage.caged)
        process = stack.enter_context(cage.spawn(argv, **streams, **_directory(namespace)))
        if cage.caged and not (namespace.json or log.verbose):  # the document, or -v, says all of it
            console.weaker(weaker_lines(process.notes))
        attendance = Attendance(
            process, signals, grace=policy.grace_sec, timeout=namespace.timeout, may_stop=lambda: _holds_nothing(cage)
        )
        outlets = _outlets(process, attendance, stack, kept=policy.output_mb << 20)
        attendance.until_end()
        process.wait()
        attendance.let_through(process.relays)
        for outlet in outlets:
            outlet.drain()
        result = process.result()
    if cage.caged and policy.monitor:
        monitoring.say(monitoring.summary(result))
    lost = _tell_end(result, cage, ending)
    code = console.exit_code_after_loss(process.loss or lost, attendance.code(result.exit_code))
    if not namespace.json:
        return say_why(result, cage, code, getattr(namespace, "cwd", None)), None
    from pysandbox.cli.document import of_result

    return code, of_result(result, outlets[0], outlets[1], code)


def _holds_nothing(cage: Cage) -> bool:
    """Whether no limit of the cage's is held by this process."""
    return not cage.caged or cage.runtime.prepare(cage.policy, os.getcwd()).plan.watch is None


def _tell_end(result: Result, cage: Cage, ending: EndOfRun | None) -> OSError | None:
    """What has come up by its end, and what it wrote apart; why that is lost, if it is."""
    for message in end_lines(result.notes):
        console.warning(message)
    if cage.caged and ending is not None:
        from pysandbox.cli.decide import conclude

        asks = ending.asks_after(result.exit_code)
        return conclude(cage.workspace, dry_run=ending.dry_run, settled=_asker() if asks else None)
    return None


def _asker() -> Callable[[Workspace], bool]:
    from pysandbox.cli.ask import settled

    return settled


def _say(log: console.Log, event: Event) -> None:
    """What happens to this run; what others have left behind is for `pysandbox orphans`."""
    if event.type != UNTRACKED.name:
        log.say(event.type, **event.data)


def say_why(result: Result, cage: Cage, code: int, directory: str | None = None) -> int:
    """One line about a command that failed, where the cage may have been why, or that was refused something on its way
    to success. `directory`: where it began, if that was said. Returns the exit code."""
    if not (code or result.denials) or not cage.caged or cage.policy.monitor:
        return code
    from pysandbox.cli import why_failed

    prepared = cage.runtime.prepare(cage.policy, os.getcwd())
    plan = prepared.plan if directory is None else replace(prepared.plan, cwd=os.path.abspath(directory))
    line = why_failed.line(result, prepared.policy, plan, os.getcwd(), recorded=cage.runtime.audited)
    if line and (sandbox := cage.labels.get("subagent_name")):  # `up` was typed, which has no such flags
        from pysandbox.cli.in_manifest import in_manifest

        line = in_manifest(line, str(sandbox))
    if line:
        console.say(line)
    return code


def _detach(argv: list[str], asked: ResolvedRequest, cwd: str | None) -> tuple[int, None]:
    from pysandbox.cage import Cage

    if os.getpid() == 1:
        raise UsageError("--detach as PID 1 of a container, or of another PID namespace, would keep nothing: the "
                         "kernel ends all that is in it as soon as this program has returned. Leave out --detach, "
                         "which runs it in the foreground; or start this from a PID 1 that stays")  # fmt: skip
    kind = os.fstat(0).st_mode
    if S_ISSOCK(kind):
        console.say(
            "the detached command reads nothing from this socket, whose writer it outlives; give it a file (< FILE)"
        )
    stdin = 0 if S_ISREG(kind) or S_ISFIFO(kind) else None
    command = Cage(asked.policy, labels=asked.labels).detach(argv, stdin=stdin, cwd=cwd)
    console.weaker(weaker_lines(command.notes))
    console.out(command.id)
    return 0, None


def _cage_maker(asked: ResolvedRequest, *, audited: bool) -> MakeCage:
    """Makes the Cage of a run of its own."""

    def make(policy: Policy, sink: Sink, no_sandbox: bool) -> Cage:
        from pysandbox.cage import Cage
        from pysandbox.events import ignore, said_elsewhere
        from pysandbox.runtime.runtime import Runtime

        audit = open_audit() if audited else None
        told = said_elsewhere if sink is ignore else sink
        # No cages ahead: there will be no second command.
        runtime = Runtime(sink=told, audit=audit, warm=0, no_sandbox=no_sandbox)
        return Cage(policy, runtime=runtime, labels=asked.labels)

    return make


def _directory(namespace: Namespace) -> dict[str, Any]:
    """Where the command begins, if that was said."""
    directory = getattr(namespace, "cwd", None)
    return {} if directory is None else {"cwd": directory}


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


def input_of_ours() -> int:
    """What a command without a terminal of its own reads: our stdin, but for the user's terminal, which no cage holds
    and which somebody else (`pysandbox run -- x | less`) reads from."""
    return DEVNULL if os.isatty(0) else 0


def _outlets(process: Process, attendance: Attendance, stack: ExitStack, *, kept: int) -> list[Any]:
    """Where the command's output goes, other than straight to our own descriptors."""
    if process.pty_fd is not None:
        from pysandbox.cli.terminal import RawMode, TerminalRelay

        raw = stack.enter_context(RawMode(0))
        return [TerminalRelay(attendance, raw, process.pty_fd)]
    if process.stdout is None or process.stderr is None:
        return []
    from pysandbox.cli.document import Capture

    return [Capture(attendance, stream, kept) for stream in (process.stdout, process.stderr)]


# ---- when it did not start -----------------------------------------------------------------------------------


def failed(error: CageError | OSError, argv: list[str], *, as_json: bool, policy: Policy | None = None) -> int:
    """Tells why, and answers the exit code."""
    code, message = _meaning(error, argv[0], policy)
    console.error(message)
    if as_json:
        from pysandbox.cli.document import of_failure

        console.document(of_failure(argv, code, message))
    return code


def _meaning(error: CageError | OSError, program: str, policy: Policy | None) -> tuple[int, str]:
    """The exit code of a failure to start (as of env(1) and the shells) and what the reader can do."""
    if not isinstance(error, StartError) or error.step != "exec":
        return OUR_FAILURE, str(error)
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        from pysandbox.cli.not_found import why

        return NOT_FOUND, why(program, policy)
    if os.path.isdir(program):
        return NOT_EXECUTABLE, f"{program!r} is a directory; the command follows the flags: pysandbox run -- PROGRAM"
    reason = f"{errno.errorcode.get(error.errno or 0)}: {error.strerror}"
    hint = "check that it is an executable file, and the recipe's allow_execve"
    return NOT_EXECUTABLE, f"{program!r} cannot be executed in the cage ({reason}); {hint}"
