"""`pysandbox explain`: what a policy would allow; or what a run did, what it was refused, and the line to allow it.

pysandbox explain -r python -- pytest     before: the policy, with what is weaker on this host
pysandbox explain --last                  after: the run; --apply writes the lines into a recipe, --html draws it
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from pysandbox.cli import console
from pysandbox.cli.flags import Parser, UsageError, add_policy_flags, policy_values
from pysandbox.cli.policy_of import DEFAULTS, policy_of, working_directory
from pysandbox.cli.run import add_recipe_flag
from pysandbox.exit_codes import OUR_FAILURE
from pysandbox.shapes import TYPE_CHECKING, asdict

if TYPE_CHECKING:
    from pysandbox.audit.runs import Run

Topics = tuple[tuple[str, tuple[str, ...]], ...]

MOST_LINES = 2_000  # of a patch on a page
EPILOG = """\
Examples:
  pysandbox explain -r python -- pytest -q       what pytest could do under the recipe
  pysandbox explain --workdir read --memory-mb 512
  pysandbox explain --last                       the last run: what it was refused, and the line for it
  pysandbox explain 01M80H --html report.html    a run as a page to look at
  pysandbox explain --last --apply team.toml     write the lines into a recipe, after showing the change
"""


def main(arguments: list[str], verbose: bool) -> int:
    try:
        namespace = _read(arguments)
    except UsageError as wrong:
        return console.usage_error(str(wrong), "pysandbox explain --help")
    except SystemExit as stop:  # argparse printed the help
        return int(stop.code or 0)
    if not _about_a_run(namespace):
        return _explain_policy(namespace)
    return _explain_run(namespace)


def _read(arguments: list[str]) -> Namespace:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    namespace = parser().read(arguments[:at])
    namespace.command = arguments[at + 1 :]
    if _about_a_run(namespace) and namespace.command:
        raise UsageError("either a run or a command: leave out what follows --")
    if namespace.html is not None and namespace.apply is not None:
        raise UsageError("--html draws, --apply writes: choose one")
    return namespace


def parser() -> Parser:
    parser = Parser("pysandbox explain", "Say what a policy allows, or what a run did.", EPILOG)
    parser.usage = "pysandbox explain [flags] [-- COMMAND [ARGUMENTS]]\n       pysandbox explain [flags] (RUN | --last)"
    add = parser.add_argument
    add("run", nargs="?", metavar="RUN", help="The id of a run, or enough letters of its beginning or end.")
    add("--last", action="store_true", help="The last run.")
    add("--path", metavar="FILE", help="Another audit stream.")
    add("--html", metavar="FILE", help="Write a report of the run, one page that needs nothing else.")
    add("--apply", metavar="FILE", help="Add what would allow what was refused to a recipe (name or file) or manifest.")
    add("--yes", action="store_true", help="With --apply: do not ask.")
    add("--json", action="store_true", help="Print one JSON document.")
    add_recipe_flag(parser)
    add_policy_flags(parser, DEFAULTS)
    return parser


def _about_a_run(namespace: Namespace) -> bool:
    return bool(namespace.run or namespace.last or namespace.html is not None or namespace.apply is not None)


# ---- a policy --------------------------------------------------------------------------------------------------


def _explain_policy(namespace: Namespace) -> int:
    from pysandbox.errors import UnsupportedError
    from pysandbox.events import said_elsewhere
    from pysandbox.note import weaker_sentences
    from pysandbox.policy.explain import topics
    from pysandbox.policy.summary import summary
    from pysandbox.runtime.runtime import Runtime

    asked = policy_of(namespace.recipe, command=namespace.command, extra=policy_values(namespace))
    policy = asked.policy
    try:
        plan = Runtime(warm=0, sink=said_elsewhere).prepare(policy, working_directory()).plan
        told = topics(policy, weaker_sentences(plan.notes))
    except UnsupportedError as error:
        told = (*topics(policy), ("On this host", (f"It cannot run: {error}.",)))
    told = _with_reason(told, asked.because)
    name = os.path.basename(namespace.command[0]) if namespace.command else "policy"
    line = summary(policy, name, "-")
    if namespace.json:
        console.document({"summary": line, "topics": dict(told)})
        return 0
    palette = console.Palette(sys.stdout)
    console.out(line)
    for heading, sentences in told:
        console.out("", palette.paint(console.BOLD, heading), *(f"  {sentence}" for sentence in sentences))
    return 0


def _with_reason(told: Topics, because: str) -> Topics:
    """What the command has added itself, under what is read."""
    if not because:
        return told
    return tuple((heading, (*sentences, because) if heading == "Reads" else sentences) for heading, sentences in told)


# ---- a run -----------------------------------------------------------------------------------------------------


def _explain_run(namespace: Namespace) -> int:
    from pysandbox.audit import files
    from pysandbox.audit.runs import find_run
    from pysandbox.audit.tell import describe_run

    path = namespace.path or files.chosen_path() or files.default_path()
    run = find_run(path, namespace.run)
    if namespace.html is not None:
        return _draw(run, namespace.html)
    if namespace.json:
        console.document(asdict(run))
    elif namespace.apply is None:
        console.out(*describe_run(run))
    return 0 if namespace.apply is None else _apply(run, namespace)


def _draw(run: Run, file: str) -> int:
    from pysandbox.audit.report import page

    with open(file, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(page(run, _patch(run)))
    console.out(f"{file}: run {run.id}")
    return 0


def _patch(run: Run) -> list[str]:
    """What is still kept of what it wrote apart, up to so many lines."""
    kept = [each.workspace for each in run.apart if each.workspace]
    if not kept:
        return []
    from pysandbox.workspace.workspace import Workspace

    try:
        workspace = Workspace.open(kept[-1])
    except (OSError, ValueError):  # forgotten since, or its tree has moved
        return []
    lines: list[str] = []
    try:
        for part in workspace.diff_lines():
            lines += part.split("\n")[:-1]
            if len(lines) > MOST_LINES:
                return [*lines[:MOST_LINES], f"... and more: pysandbox diff {kept[-1][-8:]}"]
    finally:
        workspace.close()
    return lines


def _apply(run: Run, namespace: Namespace) -> int:
    from pysandbox.audit.tell import fixes
    from pysandbox.cli.apply import Proposal

    lines = fixes(run)
    if not lines:
        console.error("nothing was refused that a policy would allow: there is nothing to add")
        return 1
    proposal = Proposal.of(_recipe_file(namespace.apply), lines, run.labels.get("subagent_name", ""))
    if proposal.nothing_new:
        console.out(f"{proposal.file} allows all of it already.")
        return 0
    console.out(*proposal.difference())
    if not namespace.yes and not _agreed(proposal.file):
        console.out("Nothing was written.")
        return 1
    try:
        proposal.write()
    except OSError as error:
        console.error(f"{proposal.file} cannot be written ({error.strerror}): its directory has to be there, and yours")
        return OUR_FAILURE
    console.out(f"{proposal.file} was written.")
    return 0


def _recipe_file(word: str) -> str:
    """As -r reads it: a name is a recipe's, unless a file is called so. Raises PolicyError for one that nobody has."""
    from pysandbox.policy.search import Search, is_file

    if is_file(word) or os.path.lexists(word):
        return word
    return next(Search.here(os.getcwd(), os.environ).asked([word])).path


def _agreed(file: str) -> bool:
    if not sys.stdin or not sys.stdin.isatty():
        console.error("there is no terminal to ask at; add --yes to write this")
        return False
    return input(console.plain(f"Write this to {file}? [y/N] ")).strip().lower() in ("y", "yes")
