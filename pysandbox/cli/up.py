"""`pysandbox up [NAME]`: a sandbox of the project's manifest, run in the directory where the manifest lies.

The manifest comes with the project, and so may come from a stranger: what it grants beyond its recipes is refused until
the user has said that he has looked at it. Everything after the policy is what `run` does.
"""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pysandbox.cli import console
from pysandbox.cli.descriptors import fill_standard_descriptors
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.cli.policy_of import Asked, policy_of
from pysandbox.cli.run import add_run_flags, perform, wants_pty
from pysandbox.errors import CageError, PolicyError
from pysandbox.policy.manifest import Manifest, Sandbox
from pysandbox.policy.merge import merge_layers
from pysandbox.policy.model import MERGE_WORDS

if TYPE_CHECKING:
    from pysandbox.cli.run import MakeCage
    from pysandbox.policy.model import Policy

OUR_FAILURE = 125

EPILOG = """\
The manifest is pysandbox.toml, in this directory or the nearest one above it:

  [sandbox.test]
  recipes = ["python"]
  command = "pytest -q"

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
    except UsageError as wrong:
        return console.usage_error(str(wrong), "pysandbox up --help")
    except SystemExit as stop:  # argparse printed the help
        return int(stop.code or 0)
    fill_standard_descriptors()
    try:
        manifest = _manifest()
        sandbox = manifest.sandbox(namespace.name) if namespace.name else manifest.first
        root = os.path.dirname(manifest.file or "")
        os.chdir(root)  # the paths of a manifest, and its command, begin where it lies
        asked = _policy(namespace, manifest, sandbox)
    except (CageError, OSError) as error:
        console.error(str(error))
        return OUR_FAILURE
    if namespace.dry_run:
        print(_described(manifest, sandbox, asked.policy, as_json=namespace.json))
        return 0
    if not namespace.name:
        console.say(f"sandbox {sandbox.name!r} of {manifest.file}")
    return perform(namespace, list(sandbox.argv), lambda: asked, verbose or namespace.verbose, make_cage)


def parser() -> Parser:
    declared = Parser("pysandbox up", "Run a sandbox of the project's manifest.", EPILOG)
    declared.usage = "pysandbox up [NAME] [flags]"
    add = declared.add_argument
    add("name", nargs="?", default="", metavar="NAME", help="a [sandbox.NAME] of the manifest")
    add("--dry-run", action="store_true", help="Print the policy that would hold, and run nothing.")
    add("--trust", action="store_true", help="Grant what the manifest asks for beyond its recipes: you have read it.")
    add_run_flags(declared)
    add("-s", "--strict", action="store_true", default=None,
        help="Kill a process at its first refused system call; nothing may degrade.")  # fmt: skip
    return declared


def _manifest() -> Manifest:
    from pysandbox.policy.manifest_file import load_manifest
    from pysandbox.probe.paths import home

    return load_manifest(os.getcwd(), home())


def _policy(namespace: Namespace, manifest: Manifest, sandbox: Sandbox) -> Asked:
    """The recipes, the overrides of the manifest, the flags. Every error names the sandbox."""
    flags = {name: True for name in ("strict", "monitor") if getattr(namespace, name, None)}
    pty = wants_pty(namespace)
    try:
        _demand_trust(namespace, sandbox)
        extra = merge_layers(MERGE_WORDS, sandbox.overrides, flags)
        return policy_of(sandbox.recipes, command=sandbox.argv, extra=extra, pty=pty)
    except PolicyError as error:
        file = error.file or manifest.file
        key = f"sandbox.{sandbox.name}" + (f".{error.key}" if error.key and file == manifest.file else "")
        raise PolicyError(error.message, file=file, line=error.line, key=key, suggestion=error.suggestion) from None


def _demand_trust(namespace: Namespace, sandbox: Sandbox) -> None:
    """PolicyError where the overrides grant more than the recipes do, and the user has not said that they may."""
    if namespace.trust or namespace.dry_run or not sandbox.overrides:
        return
    recipes = policy_of(sandbox.recipes, command=sandbox.argv, extra={}).policy
    try:
        recipes.narrow(**_added(recipes, sandbox.overrides))
    except PolicyError as error:
        raise PolicyError(
            "the manifest grants more here than its recipes do", key=error.key,
            suggestion=f"look at it with `pysandbox up {sandbox.name} --dry-run`, then add --trust",
        ) from None  # fmt: skip


def _added(recipes: Policy, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The overrides as they are after the merge: lists hold the recipes' entries too."""
    merged = merge_layers(MERGE_WORDS, recipes.given, overrides)
    return {name: merged[name] for name in overrides}


def _described(manifest: Manifest, sandbox: Sandbox, policy: Policy, *, as_json: bool) -> str:
    if as_json:
        import json

        return json.dumps({
            "manifest": manifest.file,
            "sandbox": sandbox.name,
            "argv": list(sandbox.argv),
            "recipes": list(sandbox.recipes),
            "policy": json.loads(policy.to_json()),
        })  # fmt: skip
    about = (
        ("sandbox", f"{sandbox.name} of {manifest.file}"),
        ("about", sandbox.description),
        ("command", shlex.join(sandbox.argv)),
        ("recipes", ", ".join(sandbox.recipes)),
        ("system calls", f"profile {policy.seccomp}, as shipped"),
        ("network", {"none": "loopback only; no host can be reached"}.get(policy.egress, policy.egress)),
    )
    return "\n".join([*(f"# {name}: {value}" for name, value in about if value), "", policy.to_toml().rstrip()])
