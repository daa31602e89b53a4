"""What `diff`, `commit`, `discard` and the end of `run` share: a kept workspace by its id, its changes for a person."""

from __future__ import annotations

import os
import sys

from pysandbox.cli import console
from pysandbox.cli.cages import NEWEST, SHORTEST, parser_with_newest
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.errors import PolicyError
from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple, replace
from pysandbox.workspace.recovery import recover
from pysandbox.workspace.store import require_room
from pysandbox.workspace.summary import headline, legend, lines
from pysandbox.workspace.workspace import Workspace

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from pysandbox.cli.policy_of import ResolvedRequest
    from pysandbox.events import Event, Sink
    from pysandbox.workspace.bundle import Kept
    from pysandbox.workspace.changes import Change
    from pysandbox.workspace.workspace import WorkspaceOutcome


class EndOfRun(NamedTuple):
    """What is to become of what a run writes apart. `asks`: after which end somebody is asked, on_exit or on_error."""

    dry_run: bool = False
    asks: frozenset[str] = frozenset()

    def asks_after(self, exit_code: int) -> bool:
        return ("on_error" if exit_code else "on_exit") in self.asks


COLOURS = {"+": console.GREEN, "-": console.RED, "~": console.YELLOW, "!": console.YELLOW}


def parser(name: str, description: str, epilog: str) -> Parser:
    return parser_with_newest(name, description, epilog, "A kept workspace")


def add_paths(declared: Parser) -> None:
    declared.usage = f"{declared.prog} [flags] [ID|last [PATH ...]]"
    declared.add_argument("paths", metavar="PATH", nargs="*",
                          help="Only what is at or below it; relative to the tree.")  # fmt: skip
    declared.add_argument("--path", action="append", default=[], metavar="PATH",
                          help="As PATH, where no ID is given. Repeatable.")  # fmt: skip


def paths_of(namespace: Namespace) -> list[str] | None:
    """What add_paths asks for; None for all of it."""
    return [*namespace.paths, *namespace.path] or None


def found(text: str) -> str:
    """The id of a kept workspace. Raises UsageError."""
    tell_recovered()
    kept = Workspace.kept()
    if not kept:
        raise UsageError("no workspace is kept; `pysandbox run --workdir cow` makes one")
    if text == NEWEST:
        return kept[-1].id
    paths = "; a path comes after the id: last PATH" if "/" in text or os.path.lexists(text) else ""
    return by_id(text, [each.id for each in kept], "workspaces", f"; `pysandbox diff --list` lists them{paths}")


def by_id(text: str, names: Sequence[str], what: str, more: str = "") -> str:
    """The one of the names that begins or ends with the text, of which enough was given. Raises UsageError."""
    wanted = text.upper()
    found = [each for each in names if each.startswith(wanted) or each.endswith(wanted)]
    if len(wanted) < SHORTEST:
        raise UsageError(f"{text!r} is too short for an id: give {SHORTEST} letters or more{more}")
    if len(found) != 1:
        raise UsageError(f"{len(found)} {what} with the id {text!r}{more}")
    return found[0]


def opened(text: str, tell: Sink | None = None) -> Workspace:
    """Raises UsageError, OSError."""
    name = found(text)
    try:
        return Workspace.open(name, tell=tell)
    except ValueError as error:
        raise UsageError(f"{error}; `pysandbox discard {name[-8:]}` removes it") from None


def tell_recovered() -> None:
    """What a kill had left of a commit, and what became of it."""
    for each in recover(_to_the_trail):
        console.warning(f"a commit to {each.tree or 'a tree'} had been interrupted: {each.outcome}")


def _to_the_trail(event: Event) -> None:
    from pysandbox.cli.trail import open_audit

    audit = open_audit()
    if audit is not None:
        audit(event)


def listed(kept: Sequence[Kept], *, as_json: bool) -> None:
    if as_json:
        console.document([each._asdict() for each in kept])
        return
    for each in kept:
        console.out(f"{each.id[-8:]}  {', '.join(each.trees)}  {each.command}")


def shown(changes: Sequence[Change], trees: Sequence[str]) -> None:
    """On standard error, in colours where that is a terminal; tree by tree where there are several."""
    console.say(headline(changes))
    for tree in trees:
        here = [each for each in changes if each.tree == tree]
        if here and len(trees) > 1:
            console.show([f"  in {tree}:"])
        _show_lines(here)
    for said in legend(changes):
        console.show([f"    {said}"])


def _show_lines(changes: Sequence[Change]) -> None:
    palette = console.Palette(sys.stderr)
    for line in lines(changes):
        marks = f"  [{', '.join(line.risk)}]" if line.risk else ""
        sign = palette.paint(COLOURS.get(line.sign, console.BOLD), line.sign)
        console.show_parts("  ", sign, " ", line.text, palette.paint(console.RED, marks) if marks else "")


def begin(asked: ResolvedRequest, *, dry_run: bool, can_ask: bool) -> tuple[ResolvedRequest, EndOfRun]:
    """What a kill had left of a commit is told first. After a dry run everything is forgotten, whatever the policy
    says; where somebody can be asked, nothing is done before. Raises PolicyError, and StartError where what is to be
    kept could not be."""
    policy = asked.policy
    if policy.workdir != "cow" and not policy.cow:
        raise PolicyError("--dry-run without a copy-on-write directory would change the real one",
                          suggestion="add --workdir cow")  # fmt: skip
    tell_recovered()
    if not dry_run and {policy.on_exit, policy.on_error} != {"abort"}:
        require_room()
    deferred: dict[str, Any] = {name: "defer" for name in ("on_exit", "on_error")
                if dry_run or (can_ask and getattr(policy, name) == "ask")}  # fmt: skip
    if not deferred:
        return asked, EndOfRun()
    ending = EndOfRun(dry_run, frozenset() if dry_run else frozenset(deferred))
    return asked._replace(policy=replace(policy, **deferred)), ending


def conclude(
    workspace: Workspace, *, dry_run: bool = False, settled: Callable[[Workspace], bool] | None = None
) -> OSError | None:
    """The end of a run: what was written apart, and what to do with it, or what was done. `settled` asks, and says
    whether nothing is left to be kept. Raises nothing, as the command has ended and its exit code is to be told: where
    what it wrote is lost, why."""
    done = workspace.outcome
    if done is not None:
        _tell_outcome(done, workspace.trees)
        return OSError(f"what it wrote apart is lost: {done.reason}") if done.action == "failed" else None
    try:
        if _is_settled(workspace, dry_run=dry_run, settled=settled):
            return None
    except OSError as error:
        console.warning(f"what it wrote apart cannot be shown or written: {error}")
        if dry_run:
            workspace.abort()
            return None
    return _keep(workspace)


def _keep(workspace: Workspace) -> OSError | None:
    """Why it could not be kept, if so."""
    try:
        name = workspace.keep()[-8:]
    except OSError as error:
        return OSError(f"what it wrote apart could not be kept, and is lost: {error}")
    console.say(f"kept as {name}: pysandbox diff shows it, pysandbox commit writes it, pysandbox discard forgets it")
    return None


def _is_settled(workspace: Workspace, *, dry_run: bool, settled: Callable[[Workspace], bool] | None) -> bool:
    changes = workspace.changes()
    shown(changes, workspace.trees)
    if dry_run or not changes:
        workspace.abort()
        if changes:
            console.say("forgotten: this was a dry run")
        return True
    return settled is not None and settled(workspace)


def _tell_outcome(done: WorkspaceOutcome, trees: Sequence[str]) -> None:
    """What on_exit or on_error has done."""
    if done.changes or done.action != "failed":  # then what was changed is not known
        shown(done.changes, trees)
    if done.reason and done.action != "failed":
        console.warning(done.reason)
    if done.action == "aborted":
        console.say("forgotten, as the policy asks")
    if done.left_out:
        console.say(f"left out: {len(done.left_out)} of __pycache__, which Python makes again from the sources")
    for name in done.commits:
        console.say(f"written; for an hour, this takes it back: pysandbox commit --undo {name[-8:]}")
    if done.kept:
        console.say(f"kept as {done.kept[-8:]}: pysandbox diff shows it, pysandbox commit writes it, pysandbox discard "
                    "forgets it")  # fmt: skip
