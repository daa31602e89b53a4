"""`pysandbox up [NAME]`: a sandbox or a pipeline of the project's manifest, run in the directory where that lies.

The manifest comes with the project, and so may come from a stranger, or from what ran in a cage a moment ago: nothing
of it is run, neither its command nor its recipes nor what it grants, until the user has looked at it (`policy.review`).
Everything after the policy is what `run` does.
"""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Iterator, Sequence

from pysandbox.cli import console
from pysandbox.cli.descriptors import wants_pty
from pysandbox.cli.flags import Parser, UsageError, add_policy_flags, policy_values
from pysandbox.cli.perform import failed, perform
from pysandbox.cli.policy_of import DEFAULTS, ResolvedRequest, defaults, of_resolved, working_directory
from pysandbox.cli.run import add_no_sandbox_flag, add_run_flags, check_run_flags
from pysandbox.descriptors import standard_streams
from pysandbox.errors import CageError, PolicyError
from pysandbox.policy.manifest import Manifest, Sandbox
from pysandbox.policy.merge import merge_layers
from pysandbox.policy.model import MERGE_WORDS, coerced
from pysandbox.policy.review import Reviewed, named, review
from pysandbox.policy.way_out import effective_egress
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.cli.perform import MakeCage

FLAGS = ("strict", "monitor", "ports")  # of a policy: what may be asked for besides the manifest

EPILOG = """\
The manifest is pysandbox.toml, in this directory or the nearest one above it:

  [sandbox.test]
  recipes = ["python"]
  command = "pytest -q"

It is run when you have looked at it. At a terminal you are asked; else say so beforehand, or add --trust:
  pysandbox recipe trust pysandbox.toml

Examples:
  pysandbox up                   the alphabetically first sandbox
  pysandbox up test              the one of that name
  pysandbox up publish           [pipeline.publish]: its stages, each in its own cage, joined by pipes
  pysandbox up --list            what sandboxes there are
  pysandbox up test --dry-run    print its policy and run nothing
  pysandbox up test --strict     kill it at its first refused system call

Exit codes are those of pysandbox run.
"""


def main(arguments: list[str], verbose: bool, make_cage: MakeCage | None = None) -> int:
    """Run the sandbox; tests bring a `make_cage` of their own."""
    try:
        namespace = parser().read(arguments)
        check_run_flags(namespace)
    except UsageError as wrong:
        return console.usage_error(str(wrong), "pysandbox up --help")
    except SystemExit as stop:  # argparse printed the help
        return int(stop.code or 0)
    standard_streams.fill()
    try:
        manifest = _manifest()
        if namespace.list:
            return _list(manifest, as_json=namespace.json)
        chosen = manifest.stages(namespace.name or manifest.first.name)
        if namespace.name in manifest.pipelines:
            from pysandbox.cli.up_pipeline import check_pipeline_flags, perform_pipeline

            check_pipeline_flags(namespace)
        os.chdir(os.path.dirname(manifest.file or ""))  # its paths, and its command, begin where it lies
        reviewed = [_reviewed(namespace, manifest, each) for each in chosen]
        if namespace.dry_run:
            return _describe(reviewed, as_json=namespace.json)
        for each in reviewed:
            if not namespace.trust:
                _require_trust(each, ask=not namespace.json)
    except UsageError as wrong:
        return console.usage_error(str(wrong), "pysandbox up --help")
    except (CageError, OSError) as error:
        return failed(error, [namespace.name or "up"], as_json=namespace.json)
    verbose = verbose or namespace.verbose
    if namespace.name in manifest.pipelines:
        return perform_pipeline(namespace, [(list(each.sandbox.argv), _asked(each)) for each in reviewed], verbose)
    if not namespace.name:
        console.say(f"sandbox {chosen[0].name!r} of {manifest.file}")
    return perform(namespace, list(chosen[0].argv), lambda: _asked(reviewed[0]), verbose, make_cage)


def parser() -> Parser:
    declared = Parser("pysandbox up", "Run a sandbox of the project's manifest.", EPILOG)
    declared.usage = "pysandbox up [NAME] [flags]"
    add = declared.add_argument
    add("name", nargs="?", default="", metavar="NAME", help="a [sandbox.NAME] or [pipeline.NAME] of the manifest")
    add("--list", action="store_true", help="Say which sandboxes and pipelines the manifest has, and run nothing.")
    add("--dry-run", action="store_true", help="Print the policy that would hold, and run nothing.")
    add("--trust", action="store_true", help="Run it, this once, without having trusted the manifest.")
    add_run_flags(declared)
    add_no_sandbox_flag(declared)
    add_policy_flags(declared, DEFAULTS, only=FLAGS)
    return declared


def _manifest() -> Manifest:
    from pysandbox.policy.manifest_file import load_manifest
    from pysandbox.policy.user_home import home

    return load_manifest(working_directory(), home())


def _list(manifest: Manifest, *, as_json: bool) -> int:
    """What the manifest says of itself; none of it is judged, and none of it is run."""
    if as_json:
        rows = [
            {"name": each.name, "description": each.description, "argv": list(each.argv), "recipes": list(each.recipes)}
            for each in manifest.sandboxes.values()
        ]
        pipelines = [
            {"name": name, "description": each.description, "stages": [
                {"sandbox": stage.name, "argv": list(stage.argv)} for stage in manifest.stages(name)
            ]} for name, each in manifest.pipelines.items()
        ]  # fmt: skip
        console.document(
            {"manifest": manifest.file, "first": manifest.first.name, "sandboxes": rows, "pipelines": pipelines}
        )
        return 0
    width = max(map(len, (*manifest.sandboxes, *manifest.pipelines)))
    for each in manifest.sandboxes.values():
        about = f"{each.description}: " if each.description else ""
        console.out(f"{each.name:{width}}  {about}{shlex.join(each.argv)}")
    for name, pipeline in manifest.pipelines.items():
        about = f"{pipeline.description}: " if pipeline.description else ""
        joined = " | ".join(shlex.join(each.argv) for each in manifest.stages(name))
        console.out(f"{name:{width}}  {about}{joined}")
    return 0


def _reviewed(namespace: Namespace, manifest: Manifest, sandbox: Sandbox) -> Reviewed:
    """The recipes, the overrides of the manifest, the flags. Every error names the sandbox."""
    try:
        extra = merge_layers(MERGE_WORDS, sandbox.overrides, coerced(policy_values(namespace)))
    except PolicyError as error:
        raise named(error, manifest, sandbox) from None
    return review(manifest, sandbox, extra=extra, defaults=defaults(pty=wants_pty(namespace)))


def _require_trust(reviewed: Reviewed, *, ask: bool) -> None:
    """Raises PolicyError unless the user has looked at all that was read for this, or does so now."""
    from pysandbox.cli import trusting

    try:
        reviewed.require_trust()
    except PolicyError as error:
        if not (ask and trusting.can_ask()):
            console.show(trusting.described(reviewed))
            raise named(error, reviewed.manifest, reviewed.sandbox) from None
        console.say(error.message)
        if not trusting.ask_for_trust(reviewed.manifest):
            raise named(error, reviewed.manifest, reviewed.sandbox) from None
        reviewed.require_trust()  # what was shown was read again: the answer must be for what will be run


def _asked(reviewed: Reviewed) -> ResolvedRequest:
    sandbox = reviewed.sandbox
    asked = of_resolved(reviewed.resolved, working_directory(), sandbox.recipes)
    return asked._replace(labels={**asked.labels, "subagent_name": sandbox.name})


def _describe(reviewed: Sequence[Reviewed], *, as_json: bool) -> int:
    """The policy of each; of several, one after the other."""
    for number, each in enumerate(reviewed):
        policy = _asked(each).policy
        if not as_json:
            console.out(*([""] if number else []), *_described(each), "", *policy.to_toml().rstrip().split("\n"))
    if as_json:
        documents = [_document(each) for each in reviewed]
        console.document(documents[0] if len(documents) == 1 else {"stages": documents})
    return 0


def _document(reviewed: Reviewed) -> dict[str, object]:
    import json

    sandbox = reviewed.sandbox
    return {
        "manifest": reviewed.manifest.file,
        "sandbox": sandbox.name,
        "argv": list(sandbox.argv),
        "recipes": list(sandbox.recipes),
        "policy": json.loads(_asked(reviewed).policy.to_json()),
    }


def _described(reviewed: Reviewed) -> Iterator[str]:
    sandbox, policy = reviewed.sandbox, reviewed.resolved.policy
    about = (
        ("sandbox", f"{sandbox.name} of {reviewed.manifest.file}"),
        ("about", sandbox.description),
        ("command", shlex.join(sandbox.argv)),
        ("recipes", ", ".join(sandbox.recipes)),
        ("system calls", f"profile {policy.seccomp}, as shipped"),
        ("network", {"none": "loopback only; no host can be reached"}.get(effective_egress(policy), policy.egress)),
    )
    return (f"# {name}: {value}" for name, value in about if value)
