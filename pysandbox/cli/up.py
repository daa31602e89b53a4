"""`pysandbox up [NAME]`: a sandbox of the project's manifest, run in the directory where the manifest lies.

The manifest comes with the project, and so may come from a stranger: what it grants beyond its recipes is refused until
the user has said that he has looked at it. Everything after the policy is what `run` does.
"""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from typing import TYPE_CHECKING

from pysandbox.cli import console
from pysandbox.cli.descriptors import fill_standard_descriptors
from pysandbox.cli.flags import Parser, UsageError
from pysandbox.cli.policy_of import Asked, policy_of, working_directory
from pysandbox.cli.run import add_run_flags, perform, wants_pty
from pysandbox.errors import CageError, PolicyError
from pysandbox.policy.compose import loosened_by
from pysandbox.policy.manifest import Manifest, Sandbox
from pysandbox.policy.merge import merge_layers
from pysandbox.policy.model import MERGE_WORDS, coerced
from pysandbox.policy.recipe import with_base
from pysandbox.policy.way_out import way_out

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
    add("--trust", action="store_true", help="Grant, this once, what the manifest asks for beyond its recipes.")
    add_run_flags(declared)
    add("-s", "--strict", action="store_true", default=None,
        help="Kill a process at its first refused system call; nothing may degrade.")  # fmt: skip
    add("-m", "--monitor", action="store_true", default=None,
        help="Let pass, and tell, what would be refused. For learning, not for safety.")  # fmt: skip
    return declared


def _manifest() -> Manifest:
    from pysandbox.policy.manifest_file import load_manifest
    from pysandbox.probe.paths import home

    return load_manifest(working_directory(), home())


def _policy(namespace: Namespace, manifest: Manifest, sandbox: Sandbox) -> Asked:
    """The recipes, the overrides of the manifest, the flags. Every error names the sandbox."""
    try:
        flags = coerced({name: True for name in ("strict", "monitor") if getattr(namespace, name)})
        pty = wants_pty(namespace)
        extra = merge_layers(MERGE_WORDS, sandbox.overrides, flags)
        asked = policy_of(sandbox.recipes, command=sandbox.argv, extra=extra, extra_why="manifest", pty=pty)
        if not (namespace.trust or namespace.dry_run):
            without = policy_of(sandbox.recipes, command=sandbox.argv, extra=flags, pty=pty)
            _demand_trust(manifest, sandbox, without.policy, asked.policy)
    except PolicyError as error:
        file = error.file or manifest.file
        key = f"sandbox.{sandbox.name}" + (f".{error.key}" if error.key and file == manifest.file else "")
        raise PolicyError(error.message, file=file, line=error.line, key=key, suggestion=error.suggestion) from None
    return asked._replace(labels={**asked.labels, "subagent_name": sandbox.name})


def _demand_trust(manifest: Manifest, sandbox: Sandbox, without: Policy, policy: Policy) -> None:
    """PolicyError where the overrides grant more than the recipes do, and the user has not looked at this manifest."""
    keys = loosened_by(with_base(without), with_base(policy)) if sandbox.overrides else ()
    if not keys:
        return
    from pysandbox.policy.trust import pins

    path, known = os.path.realpath(manifest.file or ""), pins()
    if known.get(path) == manifest.digest:
        return
    state = "the manifest has changed since you trusted it, and" if path in known else "the manifest"
    raise PolicyError(
        f"{state} grants more here than its recipes do ({', '.join(keys)})",
        suggestion=f"read it, then run: pysandbox recipe trust {shlex.quote(path)}; or, this once, add --trust",
    )


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
        ("network", {"none": "loopback only; no host can be reached"}.get(way_out(policy), policy.egress)),
    )
    return "\n".join([*(f"# {name}: {value}" for name, value in about if value), "", policy.to_toml().rstrip()])
