"""A Run in sentences: what ran, how it ended, what was refused and what would allow each. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pysandbox.audit.runs import CommandRun, Refusal, Run
from pysandbox.policy.also import as_flag, as_python
from pysandbox.shapes import replace

NOT_WATCHED = (
    "No refusal was recorded. What a program is refused of files and system calls is only recorded when it is run with "
    "--why; without that the program alone sees the error."
)
NO_LINE = "nothing in a policy allows this by itself"


def refusals(run: Run) -> tuple[Refusal, ...]:
    """Each different refusal once, with how often it came, the first one first."""
    merged: dict[tuple[str, str, str, str], Refusal] = {}
    for each in run.refusals:
        key = each.kind, each.target, each.rule, each.fix
        known = merged.get(key)
        merged[key] = each if known is None else replace(known, count=known.count + each.count)
    return tuple(merged.values())


def fixes(run: Run) -> tuple[str, ...]:
    """The tables [[also]] that would allow what was refused, each once."""
    return tuple(dict.fromkeys(each.fix for each in run.refusals if each.fix))


def describe_run(run: Run) -> Iterator[str]:
    yield f"Run {run.id}"
    yield f"  {run.summary}"
    if not run.caged:
        yield f"  There was NO CAGE ({run.why_uncaged})."
    if run.recipes:
        yield f"  Recipes: {', '.join(run.recipes)}"
    for command in run.commands:
        yield ""
        yield from _command(command)
    yield from _listed("Weaker than the policy asks:", (f"{key}: {reason}" for key, reason in run.notes))
    yield from _listed("It made, and programs of this host act on:", run.planted)
    yield from _listed("The host's name servers, or the parent proxy, failed it:", dict.fromkeys(run.unanswered))
    yield from _listed("Limits that were hit:", (limit for _, limit, _ in run.violations))
    yield ""
    yield from _refused(run)


def _command(command: CommandRun) -> Iterator[str]:
    yield f"$ {' '.join(command.argv)}"
    yield f"  in {command.cwd}, {command.began}"
    yield f"  {outcome(command)}"


def outcome(command: CommandRun) -> str:
    """How a command ended, as one sentence."""
    if command.failed:
        return f"It never ran: {command.failed}."
    if command.exit_code is None:
        return "No end was recorded: it still runs, or the program that started it was killed first."
    how = f"Ended by force: {command.killed}" if command.killed else f"Ended: {command.reason}"
    spent = "" if command.duration_ms is None else f" after {command.duration_ms / 1000:.3f} s"
    processor = (command.user_ms + command.system_ms) / 1000
    return f"{how}, exit code {command.exit_code}{spent}; {processor:.3f} s of CPU, {command.max_rss_kb} KiB at most."


def _listed(heading: str, items: Iterable[str]) -> Iterator[str]:
    found = tuple(items)
    if found:
        yield ""
        yield heading
        yield from (f"  {each}" for each in found)


def _refused(run: Run) -> Iterator[str]:
    found = refusals(run)
    if not found:
        yield NOT_WATCHED
        return
    yield f"Refused ({sum(each.count for each in found)}):"
    for each in found:
        times = f"  ({each.count} times)" if each.count > 1 else ""
        yield f"  {each.kind} {each.target}{times}"
        yield f"    by: {each.rule or 'not recorded'}"
        yield from allowing(each.fix)


def allowing(fix: str) -> Iterator[str]:
    """What would allow it, in each way to write it down."""
    if not fix:
        yield f"    to allow: {NO_LINE}"
        return
    yield "    to allow, at the end of a recipe or pysandbox.toml:"
    yield from (f"        {line}" for line in fix.splitlines())
    if flag := as_flag(fix):
        yield f"    as a flag: {flag}"
    if said := as_python(fix):
        yield f"    in Python: {said}"
