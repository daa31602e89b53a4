"""Denied and masked names that are not there, and that the cage could make (T28).

Below a read-only tree the cage makes nothing. In a writable one a name that the policy spells out gets a placeholder:
a file of ours that is made before the cage, covered in it, and removed after its end (`launch.placeholder`). That takes
mounts, and a directory to make it in; otherwise the policy is refused, for a denial that cannot be made is an error. An
entry that is optional needs none, and is told. What a pattern will match some day is told as well, or refused by
`strict`: nobody knows the names. Pure.
"""

from __future__ import annotations

from pysandbox.compile.notes import not_coverable
from pysandbox.compile.plan import MountKind, Plan
from pysandbox.compile.shown import Exclusion, ShownTree, ViewDraft, nearest, parent
from pysandbox.errors import SandboxCompileError
from pysandbox.policy.model import Policy
from pysandbox.policy.option import Grant
from pysandbox.policy.paths_wanted import hidden_paths, hidden_patterns
from pysandbox.policy.patterns import may_match_in
from pysandbox.probe.facts import PathFact, PathFacts

HIDES = {"filesystem.deny": "deny", "filesystem.mask": "mask"}
ABSENT = ("missing", "placeholder")
COVERING = (MountKind.MASK_FILE, MountKind.MASK_DIR, MountKind.DENY_FILE, MountKind.DENY_DIR)


def is_absent(fact: PathFact) -> bool:
    return fact.kind in ABSENT


def placeholders(plan: Plan, paths: PathFacts) -> tuple[str, ...]:
    """The names that are to be there, as files of ours, while a cage of this plan lives."""
    covered = [step.target for step in plan.mounts if step.kind in COVERING]
    absent = {fact.real for fact in paths.facts.values() if fact.kind in ABSENT}
    return tuple([target for target in covered if target in absent])


def weigh_what_is_absent(view: ViewDraft, policy: Policy, paths: PathFacts) -> None:
    for key, grant, path in hidden_paths(policy, paths.cwd):
        fact = paths[path]
        tree = nearest(fact.real, view.trees)
        if is_absent(fact) and tree is not None and tree.writable and nearest(fact.real, view.holes) is None:
            _cover_or_tell(view, policy, key, grant, fact, tree)
    for key, _, pattern in hidden_patterns(policy, paths.cwd):
        _tell_of_later_matches(view, policy, key, pattern, len(paths.patterns[pattern].paths))


def _cover_or_tell(view: ViewDraft, policy: Policy, key: str, grant: Grant, fact: PathFact, tree: ShownTree) -> None:
    if tree.cow:  # what the cage makes of that name is never committed (`workspace.denied`)
        return
    message = f"{grant.path!r} does not exist, and the cage may create it in {tree.fact.path!r}"
    if grant.optional and not policy.strict:
        view.notes.append(not_coverable(key, message))
    elif policy.isolation != "full":
        raise _refused(f"{message}: without mounts nothing in a directory can be covered", key, policy)
    elif fact.links or fact.real != fact.path:
        raise _refused(f"{message}: {parent(fact.path)!r} is not there either, or leads elsewhere", key, policy)
    else:
        view.holes[fact.real] = Exclusion(fact, HIDES[key], key)


def _refused(message: str, key: str, policy: Policy) -> SandboxCompileError:
    otherwise = "leave strict out" if policy.strict else "say optional = true where it need not hold"
    return SandboxCompileError(message, key=key, suggestion=f"create it first, or {otherwise}")


def _tell_of_later_matches(view: ViewDraft, policy: Policy, key: str, pattern: str, found: int) -> None:
    for real, tree in view.trees.items():
        if tree.writable and tree.fact.kind == "dir" and may_match_in(pattern, real):
            message = (f"{pattern!r} covers what matches when the cage is made ({found}), and nothing that the cage or "
                       f"another program makes later in {tree.fact.path!r}")  # fmt: skip
            if policy.strict:
                suggestion = f"grant {tree.fact.path!r} read-only, spell the names out, or leave strict out"
                raise SandboxCompileError(message, key=key, suggestion=suggestion)
            view.notes.append(not_coverable(key, message))
            return
