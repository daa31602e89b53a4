"""What a Policy holds: every option, each already valid. `model.Policy` is this, with the doors to texts and recipes.

Every option is declared once, in `declared` or below, with all that is said of it beside it (`option.Option`): the
document, TOML key, CLI flag, merge rule, what is tighter, what `explain` and the audit tell. The TOML reader, the CLI,
`to_toml`, the merge, `narrow`, `explain`, the spawn record and the reference page follow from these declarations. No
option may be read anywhere that is not declared, and a test fails for an option that nobody reads.

Whatever reads, merges, tightens or writes policies stands between the two and imports this file, not `model`: it takes
the class that it is to make. What an option may hold is in `validate`. This file imports neither os nor subprocess.
"""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.errors import PolicyError
from pysandbox.policy.contradictions import contradiction
from pysandbox.policy.declared.files import FileOptions
from pysandbox.policy.declared.inspection import InspectionOptions
from pysandbox.policy.declared.network import NetworkOptions
from pysandbox.policy.declared.process import ProcessOptions
from pysandbox.policy.declared.resources import ResourceOptions
from pysandbox.policy.declared.syscalls import SyscallOptions
from pysandbox.policy.declared.workspace import WorkspaceOptions
from pysandbox.policy.host import HostRule
from pysandbox.policy.merge import merge_layers
from pysandbox.policy.option import WITH_OTHERS, Grant, Option, Sentence, option
from pysandbox.policy.refusal import CommandRefused, did_you_mean
from pysandbox.policy.secret import Secret
from pysandbox.policy.tighter import hides_more, reaches_less, same, shrinks, towards
from pysandbox.policy.validate import KINDS
from pysandbox.shapes import TYPE_CHECKING, Any, Field, Self, TypeVar, dataclass, fields

if TYPE_CHECKING:
    from typing import Unpack

    from pysandbox.policy.keywords import PolicyOptions


@dataclass(frozen=True, kw_only=True)
class PolicyFields(
    InspectionOptions, NetworkOptions, SyscallOptions, WorkspaceOptions, ResourceOptions, ProcessOptions, FileOptions
):
    """The fields of a Policy, and the checks that each of them passes."""

    # A dataclass takes the fields of its last base first: so files come first, and what follows here comes last.

    hosts: tuple[HostRule, ...] = option(
        "", "host", "The hosts that may be reached, a block for each; as a text, NAME or NAME:PORT.",
        default=(), merge="blocks", tighter=reaches_less, flag="--host",
        in_plan=True, idle_alone=True, listed="Hosts", sentences=WITH_OTHERS,
    )  # fmt: skip
    secrets: tuple[Secret, ...] = option(
        "", "secret", "Values that commands may use and never have: in the cage each is a placeholder, which is "
        "replaced on the way to its hosts.",
        default=(), merge="named", tighter=shrinks,
        in_plan=False, idle_alone=True, listed="Secrets", sentence=Sentence(
            "Reaches", "Sent in place of what commands see, a placeholder: {}.", unless=("egress", "none"), place=2,
        ),
    )  # fmt: skip
    strict: bool = option(
        "", "strict", "Kill a process at its first refused system call; nothing may degrade.",
        default=False, merge="or", tighter=towards(True, False), flag="--strict",
        in_plan=True, listed="Strict",
        sentence=Sentence("Isolation", place=1, cases={
            True: "A process is killed at its first refused system call, and nothing may degrade.",
        }),
    )  # fmt: skip
    monitor: bool = option(
        "", "monitor", "Let pass, and record, what would be refused: system calls, executables, limits. For "
        "learning, not for safety; files and network stay confined.",
        default=False, merge="or", tighter=towards(False, True), flag="--monitor",
        in_plan=False,
    )  # fmt: skip
    why: bool = option(
        "", "why", "Record what is refused of files and system calls too, and without a network what was tried of one, "
        "with the line that would allow it. Nothing is allowed or refused otherwise; such a run is slower.",
        default=False, merge="or", tighter=towards(False, True), flag="--why",
        in_plan=False,
    )  # fmt: skip
    isolation: str = option(
        "", "isolation", "full: namespaces, Landlock, seccomp. landlock: no namespaces, for hosts that forbid them.",
        default="full", merge="last", tighter=same, flag="--isolation",
        choices=("full", "landlock"),
        in_plan=True,
        sentence=Sentence("Isolation", place=0, cases={
            "landlock": "There are no namespaces: Landlock and seccomp alone keep the host apart.",
        }),
    )  # fmt: skip
    caged: bool = option(
        "", "caged", "False runs the command with no cage at all; always recorded.",
        default=True, merge="last", tighter=towards(True, False),
        in_plan=False, sentences=WITH_OTHERS,
    )  # fmt: skip

    if TYPE_CHECKING:
        # A dataclass would say that a field takes what it holds; a Policy takes what can be made into it.
        def __init__(self, **options: Unpack[PolicyOptions]) -> None: ...

    def __new__(cls, /, *_: Any, **asked: Any) -> Self:
        """Refuse a misspelt option by name; the TypeError of a dataclass would not say which one was meant."""
        if not asked.keys() <= _DECLARED.keys():
            name = next(each for each in asked if each not in _DECLARED)
            raise PolicyError("Policy has no such option", key=name, suggestion=suggest_field(name))
        return super().__new__(cls)

    def __post_init__(self) -> None:
        for name, (described, coerce, default) in _DECLARED.items():
            value = self.__dict__[name]
            if value is not default:
                try:
                    object.__setattr__(self, name, coerce(described, value))
                except CommandRefused as refused:
                    raise refused.error(described.toml_key) from None
        if (found := contradiction(self)) is not None:
            key, message, suggestion = found
            raise CommandRefused(message, suggestion).error(key)

    def with_checked(self, **changes: Any) -> Self:
        """A copy with other values, which are made of checked ones and contradict nothing: none is checked again."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.__dict__.update(changes)
        return copy

    @property
    def explicit(self) -> dict[str, Any]:
        """The fields that differ from their default: what this policy says, as a layer for a merge."""
        return {name: self.__dict__[name] for name, row in _DECLARED.items() if self.__dict__[name] != row[2]}

    def merge(self, other: PolicyFields) -> Self:
        """This policy with `other` laid over it (`merge.py`). A field that `other` leaves at its default keeps ours."""
        return type(self)(**merge_layers(MERGE_WORDS, self.explicit, other.explicit))


_OPTIONS: tuple[tuple[Field[Any], Option], ...] = tuple(
    (each, each.metadata["option"]) for each in fields(PolicyFields)
)


def options() -> tuple[tuple[Field[Any], Option], ...]:
    """Each field of a Policy with its declaration, in order."""
    return _OPTIONS


def every_grant(policy: PolicyFields) -> tuple[Grant, ...]:
    """Each path of each option that holds paths."""
    return tuple(grant for name in GRANT_LISTS for grant in getattr(policy, name))


def by_toml_key() -> Mapping[str, Field[Any]]:
    return {described.toml_key: each for each, described in options()}


def coerced(given: Mapping[str, Any]) -> dict[str, Any]:
    """A layer in the spelling that policies keep: each value alone, whatever the others are. Raises PolicyError."""
    layer = {}
    for name, value in given.items():
        if name not in _DECLARED:
            raise PolicyError("Policy has no such option", key=name, suggestion=suggest_field(name))
        described, coerce, _ = _DECLARED[name]
        try:
            layer[name] = coerce(described, value)
        except CommandRefused as refused:
            raise refused.error(described.toml_key) from None
    return layer


def suggest_field(word: str) -> str | None:
    """The field that was meant by `word`, which may be a misspelling or the TOML key."""
    for name, (described, _, _) in _DECLARED.items():
        if word in (described.key, described.toml_key):
            return f'in Python it is called "{name}"'
    from pysandbox.policy.other_words import suggestion_for

    return suggestion_for(word, str) or did_you_mean(word, _DECLARED)


# What __post_init__ needs of every field, looked up once: declaration, coercion, default.
_DECLARED = {each.name: (described, KINDS[str(each.type)], each.default) for each, described in options()}
GRANT_LISTS = tuple(each.name for each, _ in options() if each.type == "tuple[Grant, ...]")
# Those that grant what is at the path, and do not take it away.
GRANTING = tuple(name for name in GRANT_LISTS if _DECLARED[name][0].tighter is not hides_more)
MERGE_WORDS = {each.name: described.merge for each, described in options()}
P = TypeVar("P", bound=PolicyFields)  # the class that is to be made, which is `model.Policy`
