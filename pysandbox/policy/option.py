"""The words in which one option of a policy is declared: `Option`, the record beside each field, `Grant`, a path, and
`RecipeMeta`, what a recipe says of itself.

Nothing here knows which options exist; `declared` and `model.py` have them. Pure: no import beyond dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pysandbox.shapes import MISSING, Any, Literal, dataclass, field

Merge = Literal["union", "or", "last", "overlay", "max", "blocks", "scopes", "widest", "loosest", "named"]
# The grammar of a string, or of a list's strings; "" for everything else.
Item = Literal[
    "",
    "executable",
    "variable",
    "syscall",
    "endpoint",
    "port",
    "port number",
    "interface",
    "domain",
    "method",
    "content type",
    "URL path",
    "private address",
    "detector",
    "pack",
    "guard",
    "secret name",
    "secret source",
    "secret place",
    "parent proxy",
    "parent credentials",
    "text",
]


# Whether a new value grants no more than an old one: (old value, new value, old policy). The rules are in `tighter`.
Tighter = Callable[[Any, Any, Any], bool]


def nothing_is_less(old: Any, new: Any, policy: Any) -> bool:
    """For a column of a [[host]] block: `tighter.reaches_less` compares the block as a whole."""
    return False


Topic = Literal["Isolation", "Reads", "Writes", "Runs", "Reaches", "Uses", "Time"]


@dataclass(frozen=True, slots=True)
class Sentence:
    """What `explain` says of an option, under a heading. In each text {} is the value, {policy.NAME} another option's.

    `text` is of any value, `cases` of single ones instead, and `unset` of none (None, an empty list). `alone` takes the
    place of `cases` where Landlock alone holds the cage. `unlimited` names what has no limit where the value is None;
    one sentence tells all of these. `unless`: nothing is said while that option has that value. `place` is the order
    under the heading; equal ones follow each other as they are declared.
    """

    topic: Topic
    text: str = ""
    cases: Mapping[Any, str] = field(default_factory=dict)
    alone: Mapping[Any, str] = field(default_factory=dict)
    unset: str = ""
    unlimited: str = ""
    unless: tuple[str, object] | None = None
    place: int = 5


# For an option without a sentence of its own: another one covers it, or `explain` covers several at once.
WITH_OTHERS: tuple[Sentence, ...] = (Sentence("Isolation"),)


@dataclass(frozen=True, slots=True)
class Option:
    """Everything that is said of one option, but for what it does: that is in the file of `compile` that reads it.

    How it is spelled outside of Python: `section`, `key`, `flag` (None: TOML and keyword only). What it may hold:
    `choices`, `item`, `minimum`, `maximum` and `unit`, which are of the number as it is written.

    What becomes of two of them: `merge`, `tighter`. Where it is told: `sentences` in `explain`; `listed`, its heading
    in `recipe explain`; an option without them is told in both by its key and value. `recorded` in the spawn record
    of the audit: "limit", or the name of a list of grants; `violation`: the limit that a policy.violation names.

    `idle_alone`: it says nothing in a cage without a way out, which whoever starts one is told (`network.idle`).

    `in_plan`: whether its whole effect is in the Plan, so that a plan kept on disk does what it says. Of an option
    that is not, a kept plan holds the default alone.
    """

    section: str  # "" is the top level of the file
    key: str
    doc: str
    merge: Merge
    flag: str | None = None
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    unit: str = ""
    maximum: int | None = None
    item: Item = ""
    tighter: Tighter = nothing_is_less
    in_plan: bool = False
    sentences: tuple[Sentence, ...] = ()
    listed: str = ""
    recorded: str = ""
    violation: str = ""
    idle_alone: bool = False

    @property
    def toml_key(self) -> str:
        return f"{self.section}.{self.key}" if self.section else self.key


def option(
    section: str,
    key: str,
    doc: str,
    *,
    default: Any,
    merge: Merge,
    tighter: Tighter,
    in_plan: bool,
    sentence: Sentence | None = None,
    **said: Any,
) -> Any:
    """A field of the Policy, with the fields of `Option` as keywords; those with a name here nobody may forget."""
    if sentence is not None:
        said["sentences"] = (sentence,)
    described = Option(section, key, doc, merge, tighter=tighter, in_plan=in_plan, **said)
    return field(default=default, metadata={"option": described})


def column(section: str, key: str, doc: str, *, merge: Merge, default: Any = MISSING, **said: Any) -> Any:
    """A field of a [[host]] block."""
    return field(default=default, metadata={"option": Option(section, key, doc, merge, **said)})


@dataclass(frozen=True, slots=True)
class Grant:
    """One path of a policy. `optional`: skipped with an event when it does not exist; else that is an error."""

    path: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class RecipeMeta:
    """What a recipe says about itself. Never affects enforcement; `match_prefix` is still unexpanded."""

    name: str = ""
    description: str = ""
    version: str = ""
    match_prefix: tuple[str, ...] = ()
