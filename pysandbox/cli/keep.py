"""Keeping the plan of a run for the next one like it (`cli.warm`), and knowing when not to.

A plan is kept only when everything that `run` would do for it is in the Plan: an option or a part of a Plan that is not
listed here means the long way, also when it is added to the program and forgotten here.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pysandbox.audit import files
from pysandbox.audit.told import limit_values, told_of_plan
from pysandbox.cli.run import weaker_lines
from pysandbox.cli.warm import key_of, place, split, stamp
from pysandbox.events import LIMITS_NOT_ENFORCED, NOTE
from pysandbox.launch import native, plans
from pysandbox.launch.image import image_of
from pysandbox.launch.registry import private_directory
from pysandbox.policy.summary import label, summary
from pysandbox.probe.paths import rows
from pysandbox.probe.state import audit_directory

if TYPE_CHECKING:
    from argparse import Namespace

    from pysandbox.cli.policy_of import Asked
    from pysandbox.compile.plan import Plan
    from pysandbox.launch.runtime import Prepared
    from pysandbox.policy.model import Policy

# Options whose whole effect is in the Plan. Of the others, the default is the only value that is kept.
IN_THE_PLAN = frozenset((
    "allow", "allow_write", "deny", "mask", "workdir", "unguarded", "base", "env", "env_passthrough", "run_as",
    "walltime_sec", "grace_sec", "address_space_gb", "open_files", "file_size_gb", "tmp_mb", "output_mb",
    "limits_required", "seccomp", "seccomp_mode", "allow_syscalls", "deny_syscalls", "strict", "isolation",
))  # fmt: skip

# The parts of a Plan that an entry holds, or that say nothing to C.
HELD = frozenset((
    "isolation", "namespaces", "inside_uid", "inside_gid", "hostname_prefix", "staging", "mounts", "loopback",
    "landlock", "seccomp", "seccomp_late", "limits", "env", "cwd", "walltime", "grace", "output_cap", "notes",
    "unrooted",
))  # fmt: skip

PLACES = frozenset(("PATH", "HOME", "TMPDIR"))  # variables that a plan gives a value of its own
OURS = (
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    files.VARIABLE,
)  # where our own files are, which no cage sees
ACCOUNTS = "/etc/passwd"  # where ~ leads
RACY = 50_000_000  # ns: a file that changed later than this before we began may be newer than what we read of it
_NAME = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)")


def keep_plan(
    arguments: list[str], namespace: Namespace, asked: Asked, prepared: Prepared,
    *, began: int, pty: bool, audited: bool,
) -> bool:  # fmt: skip
    """Keep what `arguments` led to since `began` (ns). `audited`: whether this run is in the audit trail, and so the
    next ones. Whether it is kept."""
    policy = asked.policy
    flags, argv = split(arguments)
    if not argv or not _is_plain(namespace, policy, prepared, flags):
        return False
    image = image_of(prepared.native)
    stamps = [(path, stamp(path)) for path in (*_program_files(), ACCOUNTS, *sorted(asked.looked.paths))]
    if image is None or any(was and was[-1] > began - RACY for _, was in stamps):
        return False
    plan = prepared.plan
    set_by_policy = dict(policy.env)
    entry = {
        "image": image,
        "digest": plan.digest,
        "hostname_prefix": plan.hostname_prefix,
        "env": {name: value for name, value in plan.env if name in set_by_policy or name not in policy.env_passthrough},
        "weaker": weaker_lines(plan.notes),
        "passed": [name for name in policy.env_passthrough if name not in set_by_policy],
        "cwd": plan.cwd,
        "limits": prepared.limits,
        "n_limits": len(plan.limits),
        "walltime": plan.walltime,
        "grace": plan.grace,
        "timeout": namespace.timeout,
        "pty": pty,
        "audit": _told(asked, prepared, argv[0]) if audited else None,
        "variables": [(name, os.environ.get(name)) for name in sorted(_variables(asked))],
        "programs": sorted(asked.looked.programs.items()),
        "places": [(path, place(path)) for path in _kept_directories()],
        "stamps": stamps,
        "absent": list(prepared.absences.names),
        "seen": rows(prepared.paths.facts.values()),
        "searched": prepared.paths.searched,
    }
    key = key_of(flags, argv[0])
    return key is not None and plans.keep(key, entry)


def _is_plain(namespace: Namespace, policy: Policy, prepared: Prepared, flags: list[str]) -> bool:
    if namespace.json or namespace.verbose or namespace.no_sandbox:
        return False
    if flags and namespace.command:  # `run --flag program -- argument`: only the parser knows where the flags end
        return False
    if namespace.env or PLACES & {*policy.env_passthrough}:  # a secret typed as --env is not for a file
        return False
    return policy.given.keys() <= IN_THE_PLAN and not prepared.uses_scratch and _is_held(prepared.plan)


def _is_held(plan: Plan) -> bool:
    """A part that is not listed may be there if it is empty: then there is nothing to hold."""
    return all(each.name in HELD or not getattr(plan, each.name) for each in fields(plan))


def _variables(asked: Asked) -> set[str]:
    policy = asked.policy
    grants = (*policy.allow, *policy.allow_write, *policy.deny, *policy.mask, *policy.unix_sockets)
    return {*OURS, *asked.looked.variables, *(name for grant in grants for name in _NAME.findall(grant.path))}


def _kept_directories() -> Iterator[str]:
    """Those that no cage reaches once they exist (`Runtime`): of the audit trail that is written, of everyone's, and of
    the records of live cages."""
    yield audit_directory()
    yield private_directory()
    yield os.path.dirname(private_directory())
    if (chosen := files.chosen_path()) is not None:
        yield os.path.dirname(os.path.abspath(chosen))


def _told(asked: Asked, prepared: Prepared, program: str) -> dict[str, Any]:
    """What every run of this plan tells the audit, as by the long way (`audit.told`), but for its id and arguments."""
    policy, notes = asked.policy, prepared.plan.notes
    name = os.path.basename(program)
    shown = label(name, "")
    return {
        "limits": dict(limit_values(policy)),
        "spawn": {**told_of_plan(policy, prepared, caged=True), **asked.labels, "cwd": prepared.plan.cwd or "/"},
        "summary": (shown.removesuffix("]"), f"]{summary(policy, name, '').removeprefix(shown)}"),
        "notes": [(note.event or NOTE.name, {"key": note.key, "reason": note.message}) for note in notes],
        "skipped": [note.message for note in notes if note.event == LIMITS_NOT_ENFORCED.name],
    }


def _program_files() -> Iterator[str]:
    """This very build: each of our modules that had a part in it, the extension and cage-init."""
    yield native.INIT_PATH
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "pysandbox" and getattr(module, "__file__", None):
            yield str(module.__file__)
