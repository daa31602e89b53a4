"""`pysandbox up [NAME]`: a sandbox of the project's manifest, run in the directory where the manifest lies.

The manifest comes with the project, and so may come from a stranger, or from what ran in a cage a moment ago: nothing
of it is run, neither its command nor its recipes nor what it grants, until the user has looked at it (`policy.review`).
Everything after the policy is what `run` does.
"""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pysandbox.cli import console
from pysandbox.cli.descriptors import fill_standard_descriptors
from pysandbox.cli.flags import Parser, UsageError, add_policy_flags, policy_values
from pysandbox.cli.policy_of import DEFAULTS, Asked, defaults, of_resolved, working_directory
from pysandbox.cli.run import add_no_sandbox_flag, add_run_flags, check_run_flags, failed, perform, wants_pty
from pysandbox.errors import CageError, PolicyError
from pysandbox.policy.manifest import Manifest, Sandbox
from pysandbox.policy.merge import merge_layers
from pysandbox.policy.model import MERGE_WORDS, coerced
from pysandbox.policy.review import Reviewed, named, review
from pysandbox.policy.way_out import way_out

if TYPE_CHECKING:
    from pysandbox.cli.run import MakeCage

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
    fill_standard_descriptors()
    try:
        manifest = _manifest()
        sandbox = manifest.sandbox(namespace.name) if namespace.name else manifest.first
        os.chdir(os.path.dirname(manifest.file or ""))  # its paths, and its command, begin where it lies
        reviewed = _reviewed(namespace, manifest, sandbox)
        if namespace.dry_run:
            return _describe(reviewed, as_json=namespace.json)
        if not namespace.trust:
            _demand_trust(reviewed, ask=not namespace.json)
    except (CageError, OSError) as error:
        return failed(error, [namespace.name or "up"], as_json=namespace.json)
    if not namespace.name:
        console.say(f"sandbox {sandbox.name!r} of {manifest.file}")
    return perform(namespace, list(sandbox.argv), lambda: _asked(reviewed), verbose or namespace.verbose, make_cage)


def parser() -> Parser:
    declared = Parser("pysandbox up", "Run a sandbox of the project's manifest.", EPILOG)
    declared.usage = "pysandbox up [NAME] [flags]"
    add = declared.add_argument
    add("name", nargs="?", default="", metavar="NAME", help="a [sandbox.NAME] of the manifest")
    add("--dry-run", action="store_true", help="Print the policy that would hold, and run nothing.")
    add("--trust", action="store_true", help="Run it, this once, without having trusted the manifest.")
    add_run_flags(declared)
    add_no_sandbox_flag(declared)
    add_policy_flags(declared, DEFAULTS, only=FLAGS)
    return declared


def _manifest() -> Manifest:
    from pysandbox.policy.manifest_file import load_manifest
    from pysandbox.probe.paths import home

    return load_manifest(working_directory(), home())


def _reviewed(namespace: Namespace, manifest: Manifest, sandbox: Sandbox) -> Reviewed:
    """The recipes, the overrides of the manifest, the flags. Every error names the sandbox."""
    try:
        extra = merge_layers(MERGE_WORDS, sandbox.overrides, coerced(policy_values(namespace)))
    except PolicyError as error:
        raise named(error, manifest, sandbox) from None
    return review(manifest, sandbox, extra=extra, defaults=defaults(pty=wants_pty(namespace)))


def _demand_trust(reviewed: Reviewed, *, ask: bool) -> None:
    """Raises PolicyError unless the user has looked at all that was read for this, or does so now."""
    from pysandbox.cli import trusting

    try:
        reviewed.demand_trust()
    except PolicyError as error:
        if not (ask and trusting.can_ask()):
            console.show(trusting.described(reviewed))
            raise named(error, reviewed.manifest, reviewed.sandbox) from None
        console.say(error.message)
        if not trusting.ask_for_trust(reviewed.manifest):
            raise named(error, reviewed.manifest, reviewed.sandbox) from None
        reviewed.demand_trust()  # what was shown was read again: the answer must be for what will be run


def _asked(reviewed: Reviewed) -> Asked:
    sandbox = reviewed.sandbox
    asked = of_resolved(reviewed.resolved, working_directory(), sandbox.recipes)
    return asked._replace(labels={**asked.labels, "subagent_name": sandbox.name})


def _describe(reviewed: Reviewed, *, as_json: bool) -> int:
    manifest, sandbox, policy = reviewed.manifest, reviewed.sandbox, _asked(reviewed).policy
    if not as_json:
        console.out(*_described(reviewed), "", *policy.to_toml().rstrip().split("\n"))
        return 0
    import json

    console.document({
        "manifest": manifest.file,
        "sandbox": sandbox.name,
        "argv": list(sandbox.argv),
        "recipes": list(sandbox.recipes),
        "policy": json.loads(policy.to_json()),
    })  # fmt: skip
    return 0


def _described(reviewed: Reviewed) -> Iterator[str]:
    sandbox, policy = reviewed.sandbox, reviewed.resolved.policy
    about = (
        ("sandbox", f"{sandbox.name} of {reviewed.manifest.file}"),
        ("about", sandbox.description),
        ("command", shlex.join(sandbox.argv)),
        ("recipes", ", ".join(sandbox.recipes)),
        ("system calls", f"profile {policy.seccomp}, as shipped"),
        ("network", {"none": "loopback only; no host can be reached"}.get(way_out(policy), policy.egress)),
    )
    return (f"# {name}: {value}" for name, value in about if value)
