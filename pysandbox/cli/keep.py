"""Keeping the plan of a run for the next one like it, which the launcher then starts (csrc/launcher), and knowing when
not to.

A plan is kept only when everything that `run` would do for it is in the Plan: an option or a part of a Plan that is not
listed here means that the next run comes this way too, also when it is added to the program and forgotten here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from pysandbox._native import ffi, lib
from pysandbox.audit import files
from pysandbox.audit.canonical import canonical
from pysandbox.audit.ending import LIMITS_SKIPPED, SPAWN
from pysandbox.audit.told import limit_values, spawn_record
from pysandbox.cli import console
from pysandbox.cli.descriptors import at_a_terminal
from pysandbox.cli.kept_imports import path_files
from pysandbox.cli.kept_services import (
    has_services,
    holds_only,
    keep_group,
    keep_services,
    may_come_later,
    place,
    served_digest,
)
from pysandbox.cli.note_lines import weaker_lines
from pysandbox.compile.environ import OWN, variables_of_doors
from pysandbox.events import LIMITS_NOT_ENFORCED, NOTE
from pysandbox.launch import native, plans
from pysandbox.launch.kept import KeptFile, can_hold
from pysandbox.launch.orders import DEFAULT_PATH, LONGEST_MS, candidates
from pysandbox.policy.model import every_grant, options
from pysandbox.policy.search import variables_in
from pysandbox.policy.summary import label, summary
from pysandbox.probe.paths import rows
from pysandbox.probe.state import audit_directory
from pysandbox.records.registry import private_directory
from pysandbox.shapes import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from argparse import Namespace

    from pysandbox.cli.policy_of import ResolvedRequest
    from pysandbox.compile.plan import Plan
    from pysandbox.policy.model import Policy
    from pysandbox.runtime.prepared import Prepared

LAUNCHER, SCRIPT = "pysandbox", "pysandbox-python"  # as they are installed, side by side

# Options whose whole effect is in the Plan. Of the others, the default is the only value that is kept.
IN_THE_PLAN = frozenset(field.name for field, described in options() if described.in_plan)
OF_THE_POLICY = frozenset(field.name for field, _ in options())

# What a command line asks besides, and the launcher does too, or that changes nothing. Of the rest, nothing is asked.
DONE = frozenset(("command", "recipe", "timeout", "pty", "no_audit", "interactive", "rm"))

# The parts of a Plan that an entry holds, or that say nothing to C.
HELD = frozenset((
    "isolation", "namespaces", "inside_uid", "inside_gid", "hostname_prefix", "staging", "mounts", "loopback",
    "landlock", "seccomp", "seccomp_late", "limits", "env", "cwd", "walltime", "grace", "output_cap", "notes",
    "unrooted", "watch", "notify", "net", "cgroup",
))  # fmt: skip

OURS = (
    "HOME",
    "XDG_CONFIG_HOME",
    "GIT_CONFIG_GLOBAL",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    files.VARIABLE,
)  # where our own files are, which no cage sees, and git's (probe.configured)
ACCOUNTS = "/etc/passwd"  # where ~ leads
RACY = 50_000_000  # ns: a file that changed later than this before we began may be newer than what we read of it


def save_plan(
    arguments: list[str], namespace: Namespace, asked: ResolvedRequest, prepared: Prepared,
    *, began: int, pty: bool, audited: bool, alone: bool,
) -> bool:  # fmt: skip
    """Keep what `arguments` led to since `began` (ns). `audited`: whether its runs are in the audit trail. `alone`: no
    Python may be started once its command runs (`kept_imports`). Whether it is kept."""
    flags, argv = split(arguments)
    beside = launcher()
    if beside is None or not _is_plain(asked.policy, prepared, alone=alone):
        return False
    believed = [path for path, _ in (*prepared.paths.repository.read, *prepared.paths.configured)]
    key = plans.key_of(beside, flags, argv[0], at_a_terminal=at_a_terminal())
    files_read = (*_program_files(beside), ACCOUNTS, *believed, *sorted(asked.looked.paths))
    stamps = [(path, stamp(path)) for path in files_read]
    if key is None or not can_hold(prepared.native) or any(was and was[-1] > began - RACY for _, was in stamps):
        return False
    file = KeptFile(key)
    file.plan(prepared.native)
    _keep_scalars(file, namespace, prepared, pty=pty, audited=audited)
    file.head.flags |= lib.PSB_KEPT_ALONE if alone else 0
    keep_services(file, prepared.plan)
    keep_group(file, prepared.plan)
    given = _given(namespace, prepared, flags)
    if given is None:
        return False
    _keep_command(file, asked.policy, prepared, argv[0], given)
    _keep_dependencies(file, asked, prepared, stamps)
    _keep_absences(file, prepared)
    _keep_limits(file, asked.policy, namespace.timeout)
    records = _records(asked, prepared, argv[0]) if audited else []
    file.rows(lib.PSB_KEPT_RECORDS, "psb_kept_record",
              [(file.text(kind), file.text(data), kind == SPAWN) for kind, data in records])  # fmt: skip
    return plans.save(key, file.content())


def launcher() -> str | None:
    """The launcher that has started this command, and will start the next one; None for `python -m pysandbox`."""
    directory, name = os.path.split(os.path.abspath(sys.argv[0]))
    path = os.path.join(os.path.realpath(directory), LAUNCHER)
    return path if name == SCRIPT and os.path.isfile(path) else None


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """The flags and the command, without knowing any flag, as the launcher does it (csrc/launcher/key.c)."""
    if arguments and not arguments[0].startswith("-"):
        return [], arguments
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


# ---- what is put by ------------------------------------------------------------------------------------------


def _keep_scalars(file: KeptFile, namespace: Namespace, prepared: Prepared, *, pty: bool, audited: bool) -> None:
    plan, head = prepared.plan, file.head
    head.flags = (lib.PSB_KEPT_TERMINAL if pty else 0) | (lib.PSB_KEPT_AUDITED if audited else 0)
    head.walltime_ms = 0 if plan.walltime is None else min(max(1, round(plan.walltime * 1000)), LONGEST_MS)
    head.grace_ms = min(round(plan.grace * 1000), LONGEST_MS)
    head.timeout_ns = 0 if namespace.timeout is None else max(1, round(namespace.timeout * 1e9))
    file.name(lib.PSB_TEXT_INIT, native.INIT_PATH)
    file.name(lib.PSB_TEXT_HOST_PREFIX, plan.hostname_prefix)
    file.name(lib.PSB_TEXT_CWD, plan.cwd)
    file.name(lib.PSB_TEXT_DIGEST, plan.digest)
    file.name(lib.PSB_TEXT_SERVED, served_digest(prepared.policy, plan))
    file.name(lib.PSB_TEXT_RECORDS, private_directory())
    file.name(lib.PSB_TEXT_AUDIT, os.path.abspath(files.chosen_path() or "") if audited else "")
    file.texts(lib.PSB_KEPT_WEAKER, [console.plain(line) for line in weaker_lines(plan.notes)])


def _given(namespace: Namespace, prepared: Prepared, flags: list[str]) -> dict[str, tuple[int, int]] | None:
    """The variables that the command line sets, each with the flag that says so and where: the flags are the same
    whenever this plan is found, and a secret that was typed is for no file. None: one is not found there as it is."""
    env, found = dict(prepared.plan.env), {}
    for name, typed in namespace.env or ():
        if typed is None:  # passed through
            continue
        said = f"{name}={env.get(name)}"
        at = next((at for at, flag in enumerate(flags) if flag in (said, f"--env={said}")), None)
        if at is None or name == "PATH":  # where the program was looked for would tell it
            return None
        found[name] = at, len(os.fsencode(flags[at])) - len(os.fsencode(said))
    return found


def _keep_command(
    file: KeptFile, policy: Policy, prepared: Prepared, program: str, given: dict[str, tuple[int, int]]
) -> None:
    """What is the same in every order. Of variables that are passed through the name is kept, and no value; of those
    that the command line sets, where it does."""
    plan, fixed = prepared.plan, {**dict(policy.env), **variables_of_doors(prepared.policy)}
    env = {name: value for name, value in plan.env if name in fixed or name not in policy.env_passthrough}
    file.texts(lib.PSB_KEPT_ENV, [f"{name}={value}" for name, value in env.items() if name not in given])
    file.rows(lib.PSB_KEPT_GIVEN, "psb_kept_given", list(given.values()))
    file.texts(lib.PSB_KEPT_PASSED, [name for name in policy.env_passthrough if name not in fixed])
    file.texts(lib.PSB_KEPT_PATHS, candidates(program, env.get("PATH", DEFAULT_PATH)))
    limits = ffi.from_buffer("struct psb_limit[]", prepared.limits)
    file.rows(lib.PSB_KEPT_LIMITS, "psb_limit", [(each.resource, each.pad, each.value) for each in limits])


def _keep_dependencies(
    file: KeptFile, asked: ResolvedRequest, prepared: Prepared, stamps: list[tuple[str, tuple[int, ...]]]
) -> None:
    text = file.text
    variables = [(text(name), text(os.environ.get(name))) for name in sorted(_variables(asked))]
    file.rows(lib.PSB_KEPT_VARIABLES, "psb_kept_pair", variables)
    file.rows(lib.PSB_KEPT_STAMPS, "psb_kept_stamp",
              [(text(path), bool(was), *(was or (0,) * 5)) for path, was in stamps])  # fmt: skip
    programs = [(text(path), text(real)) for path, real in sorted(asked.looked.programs.items())]
    file.rows(lib.PSB_KEPT_PROGRAMS, "psb_kept_pair", programs)
    file.rows(lib.PSB_KEPT_PLACES, "psb_kept_place", [place(file, path) for path in _kept_directories()])
    file.rows(
        lib.PSB_KEPT_SEEN,
        "psb_seen",
        [(file.pointer(path), dev, ino, 0, *how) for path, dev, ino, *how in rows(prepared.paths.facts.values())],
    )
    names: list[str] = []
    searched = []
    for directory, when, below, found in prepared.paths.searched:
        searched.append((text(directory), below, len(names), len(found), when))
        names += found
    file.rows(lib.PSB_KEPT_SEARCHED, "psb_kept_searched", searched)
    file.texts(lib.PSB_KEPT_NAMES, names)


def stamp(path: str) -> tuple[int, ...]:
    """What changes with a file's content, and when another takes its place; empty when there is no such name. A link
    that leads nowhere is a name."""
    try:
        found = os.stat(path)
    except OSError:
        try:
            found = os.lstat(path)
        except OSError:
            return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _keep_absences(file: KeptFile, prepared: Prepared) -> None:
    names = prepared.absences.names
    file.rows(lib.PSB_KEPT_ABSENT, "psb_absent", [(file.pointer(tree), file.pointer(name), 0) for tree, name in names])
    planted = [f"{tree}/{name}" for tree, name in names]
    file.rows(lib.PSB_KEPT_PLANTED, "psb_kept_planted", [
        (file.text(canonical(path)), file.text(console.plain(repr(path))), file.text(canonical(repr(path))[1:-1]))
        for path in planted
    ])  # fmt: skip


def _keep_limits(file: KeptFile, policy: Policy, timeout: float | None) -> None:
    """What `policy.violation` tells of a limit that such a run can hit."""
    limits = limit_values(policy)
    for which, value in (
        (lib.PSB_TEXT_LIMIT_WALLTIME, limits["walltime"]),
        (lib.PSB_TEXT_LIMIT_TIMEOUT, timeout),
        (lib.PSB_TEXT_LIMIT_SECCOMP, limits["seccomp"]),
    ):
        file.name(which, "" if value is None else canonical(value))


def _records(asked: ResolvedRequest, prepared: Prepared, program: str) -> Iterator[tuple[str, str]]:
    """What every run of this plan tells the audit when it begins, as `audit.told` does, with slots for what differs."""
    policy, notes = asked.policy, prepared.plan.notes
    name = os.path.basename(program)
    shown = label(name, "")
    before, after = shown.removesuffix("]"), f"]{summary(policy, name, '').removeprefix(shown)}"
    argv, short, whole = (os.urandom(16).hex() for _ in range(3))  # of no record's own text

    def told(data: dict[str, Any]) -> str:
        text = canonical(data).replace(f'"{argv}"', chr(lib.PSB_SLOT_ARGV))
        return text.replace(short, chr(lib.PSB_SLOT_SHORT_ID)).replace(whole, chr(lib.PSB_SLOT_ID))

    for note in notes:
        yield note.event or NOTE.name, told({"key": note.key, "reason": note.message})
    yield SPAWN, told({
        **spawn_record(policy, prepared, caged=True), **asked.labels, "cwd": prepared.plan.cwd,
        "cage_summary": f"{before}{short}{after}", "invocation_id": whole, "command": 1, "argv": argv,
    })  # fmt: skip
    for note in notes:
        if note.event == LIMITS_NOT_ENFORCED.name:
            yield LIMITS_SKIPPED, told({"invocation_id": whole, "reason": note.message})


# ---- whether it can be, and what it depends on ---------------------------------------------------------------


def asks_only_what_is_done(namespace: Namespace) -> bool:
    """Whether each flag is of the policy, is the launcher's too, or was not given."""
    return all(
        name in DONE or name in OF_THE_POLICY or value is None or value is False
        for name, value in vars(namespace).items()
    )


def may_be_kept(namespace: Namespace, arguments: list[str]) -> bool:
    """Whether a plan that these arguments lead to can be found by them, and is all that they ask for."""
    flags, argv = split(arguments)
    if flags and namespace.command:  # `run --flag program -- argument`: only the parser knows where the flags end
        return False
    return bool(argv) and asks_only_what_is_done(namespace)


def is_all_in_the_plan(policy: Policy) -> bool:
    """Whether each option has its whole effect there, as far as the policy alone can tell."""
    return policy.caged and policy.explicit.keys() <= IN_THE_PLAN and not OWN & {*policy.env_passthrough}


def _is_plain(policy: Policy, prepared: Prepared, *, alone: bool) -> bool:
    if prepared.placeholders or prepared.paths.patterns:  # made and searched for by Python
        return False
    if alone and has_services(prepared.plan):
        return False
    return is_all_in_the_plan(policy) and not prepared.uses_scratch and _is_held(prepared.plan)


def _is_held(plan: Plan) -> bool:
    return holds_only(plan, HELD) and may_come_later(plan)


def _variables(asked: ResolvedRequest) -> set[str]:
    named = variables_in(grant.path for grant in every_grant(asked.policy))
    return {*OURS, *asked.looked.variables, *named}


def _kept_directories() -> Iterator[str]:
    """The directories that no cage reaches once they exist (`Runtime`): of the audit trail in use, of everyone's, and
    of the records of live cages."""
    yield audit_directory()
    yield private_directory()
    yield os.path.dirname(private_directory())
    yield f"/run/user/{os.geteuid()}"  # once it is there, records are there
    if (chosen := files.chosen_path()) is not None:
        yield os.path.dirname(os.path.abspath(chosen))


def _program_files(beside: str) -> Iterator[str]:
    """This very build: each of our modules that had a part in it, the extension, cage-init, the launcher, Python."""
    yield from (native.INIT_PATH, beside, os.path.join(os.path.dirname(beside), SCRIPT), sys.executable)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "pysandbox" and getattr(module, "__file__", None):
            yield str(module.__file__)
    yield from _where_another_would_come_first()
    yield from path_files()


def _where_another_would_come_first() -> Iterator[str]:
    """The names by which another installation would be imported in place of this one, once it is there."""
    import site

    ours = os.path.dirname(native.PACKAGE)
    before = sys.path[: sys.path.index(ours)] if ours in sys.path else sys.path
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    for directory in (*before, *user):
        if os.path.abspath(directory) != ours:
            yield os.path.join(os.path.abspath(directory), "pysandbox", "__init__.py")
