"""The one line on standard error after a command that failed: what the cage had to do with it, and the flag that helps.

Nothing here is asked while a command runs. What was recorded is told, the last refusal first, else that the host's
name servers kept silent. Without a record: an argument or a variable that names a file which is on this host and not in
the cage, or a host where the cage has no network (`no_network`), or what the program cannot do without (`needs`).
Without that: the switch that records more, but only where the end itself points at the cage. A command that fails
ordinarily (grep, test) is left alone.

An exit code of 0 says little: a shell swallows the failure of what it runs (`curl ... || true`, a script without
set -e). So a recorded refusal that a flag allows is told then as well; one that succeeds and was refused nothing has no
line. With --json the document says it, and with --monitor its own summary does.
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
from collections.abc import Iterable, Iterator, Sequence

from pysandbox.cli import needs, no_network
from pysandbox.compile.plan import MountKind
from pysandbox.events import UPSTREAM_UNREACHABLE
from pysandbox.exit_codes import NOT_EXECUTABLE, NOT_FOUND
from pysandbox.policy.match import covers
from pysandbox.policy.paths_wanted import denies
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.compile.plan import Plan
    from pysandbox.denial import Denial
    from pysandbox.policy.model import Policy
    from pysandbox.result import Result

# Signals by which somebody ended it, and what a reader who went away sends: nothing that a refusal does.
BY_SOMEBODY = frozenset({
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL, signal.SIGPIPE,
})  # fmt: skip
EMPTY = frozenset({MountKind.DIR, MountKind.TMPFS})  # directories of the cage's own, without the host's files
DENIED = frozenset({MountKind.DENY_FILE, MountKind.DENY_DIR})
PLACES = frozenset({"HOME", "PWD", "OLDPWD", "TMPDIR"})  # variables whose directory need not be there
LONGEST = 4096  # PATH_MAX
LAST = "pysandbox explain --last"


def line(result: Result, policy: Policy, plan: Plan, cwd: str, *, recorded: bool) -> str:
    """ "" where there is nothing to say. `recorded`: `pysandbox explain` knows the run."""
    if result.ok:
        return all_the_same(result.denials, recorded=recorded)
    if result.signal in BY_SOMEBODY or result.reason in ("timeout", "cancelled", "oom"):
        return ""
    if result.denials:
        return refused(result.denials, recorded=recorded)
    if result.network.get(UPSTREAM_UNREACHABLE.name):
        asked = "this host's name servers" if policy.proxy_parent is None else "the parent proxy or the name servers"
        return f"{asked} did not answer, or late; the sandbox refused nothing" + f"; see: {LAST}" * recorded
    code = result.exit_code
    told = without_record(result.argv, code, plan, cwd, policy, result.no_route)
    return told or pointer(result.reason, code, policy)


def all_the_same(denials: Sequence[Denial], *, recorded: bool) -> str:
    """What a command that has succeeded was refused, if a flag allows it. Programs try files that they can do without,
    so that any other refusal says more."""
    lifted = [denial for denial in denials if denial.flag]
    told = [denial for denial in lifted if denial.kind != "file"] or lifted
    return f"ended with exit code 0, and was {refused(told, recorded=recorded)}" if told else ""


def refused(denials: Sequence[Denial], *, recorded: bool) -> str:
    """The last one that a flag allows, else the last: what a program was refused before it gave up."""
    last = next((denial for denial in reversed(denials) if denial.flag), denials[-1])
    named = f" ({last.call}: {errno.errorcode.get(last.errno, last.errno)})" if last.call and last.errno else ""
    allow = f"; to allow it: {last.flag}" if last.flag else f"; by {last.rule}" if last.rule else ""
    others = len(denials) - 1
    more = f"; {others} more" if others else ""
    return f"refused: {last.kind} {last.target}{named}{allow}{more}{f'; see: {LAST}' * recorded}"


# ---- without a record --------------------------------------------------------------------------------------------


def without_record(
    argv: Sequence[str], code: int, plan: Plan, cwd: str, policy: Policy, no_route: bool
) -> str:  # fmt: skip
    """What the arguments alone tell, the exit code, and whether a host was looked for."""
    return (
        _of_a_descriptor(argv)
        or absent(_named_paths(argv, cwd, policy), plan, policy, cwd)
        or _elsewhere(argv, plan, cwd)
        or no_network.line(argv, policy, no_route)
        or needs.tracing(argv, policy)
        or needs.repository(code, plan)
    )


def _of_a_descriptor(argv: Sequence[str]) -> str:
    """About the first argument that a shell's <(...) or >(...) has made: the number is one of the shell's."""
    named = (each.partition("=")[2] if each.startswith("-") else each for each in argv[1:])
    theirs = (each for each in named if each.startswith("/dev/fd/") and each[8:].isdecimal())
    path = next((each for each in theirs if each[8:] not in ("0", "1", "2")), "")
    return path and (f"{path} is a descriptor of yours, as <(...) of a shell gives it, which the sandbox has not got; "
                     "pass it on standard input, or as a file")  # fmt: skip


def absent(named: Iterable[str], plan: Plan, policy: Policy, cwd: str) -> str:
    """About the first file of the host's which is named and the cage does not show."""
    for path in named:
        real = os.path.realpath(path)
        step = None if _is_shown(path, plan) else path
        hidden = step or (None if _is_shown(real, plan) else real)
        if hidden is None:
            continue
        if denies(policy, cwd, path, real) or any(
            each.kind in DENIED and covers(each.target, real) for each in plan.mounts
        ):
            return f"{path} is denied to the sandbox (filesystem.deny), and no grant shows it"
        if not os.access(real, os.R_OK):
            return f"{path} is not in the sandbox, and on the host you may not read it"
        quoted = shlex.quote(real)
        return f"{path} is not in the sandbox; to allow it: --allow {quoted}, or --allow-write {quoted} to change it"
    return ""


def _elsewhere(argv: Sequence[str], plan: Plan, cwd: str) -> str:
    """About the first argument that names a file from here, where the command begins somewhere else."""
    if plan.cwd == cwd:
        return ""
    named = (each for each in argv[1:] if each and not each.startswith(("/", "-")) and each.isprintable())
    path = next((each for each in named if len(each) < LONGEST and os.path.isfile(os.path.join(cwd, each))), None)
    if path is None or os.path.lexists(os.path.join(plan.cwd, path)):
        return ""
    whole = shlex.quote(os.path.normpath(os.path.join(cwd, path)))
    return f"the command begins in {plan.cwd}, where there is no {path}; name it from the root on: {whole}"


def _named_paths(argv: Sequence[str], cwd: str, policy: Policy) -> Iterator[str]:
    """By an argument, or from the root on by a variable that the policy sets (GIT_SSL_CAINFO, NODE_PATH)."""
    arguments = [each.partition("=")[2] if each.startswith("-") else each for each in argv[1:]]
    variables = [value for name, value in policy.env if name not in PLACES and value.startswith("/")]
    for text in (*arguments, *variables):
        if text and len(text) < LONGEST and text.isprintable() and os.path.lexists(path := os.path.join(cwd, text)):
            yield os.path.normpath(path)


def _is_shown(path: str, plan: Plan) -> bool:
    """Whether the cage shows the host's file, or some of what is below it."""
    if not plan.mounts:
        rules = plan.landlock.rules if plan.landlock is not None else ()
        return plan.landlock is None or any(
            rule.path and (covers(rule.path, path) or covers(path, rule.path)) for rule in rules
        )
    if any(covers(path, step.target) for step in plan.mounts if step.kind not in DENIED):
        return True
    over = [step for step in plan.mounts if covers(step.target, path) and step.kind.name not in ("PROTECT", "PIN")]
    nearest = max(over, key=lambda step: len(step.target), default=None)
    return nearest is not None and nearest.kind not in EMPTY | DENIED | {MountKind.UNPROTECT_ROOT}


def pointer(reason: str, code: int, policy: Policy) -> str:
    """Only where a refusal is likely: the end of strict, and the shell's word for a program that it could not run."""
    if reason == "seccomp":
        return "ended at a system call that no profile allows, or strict refuses; without --strict, --why names it"
    if code in (NOT_EXECUTABLE, NOT_FOUND) and not policy.why:
        return "a program was not found, or could not be run; if the sandbox may be why: pysandbox run --why ..."
    return ""
