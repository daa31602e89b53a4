"""The words in which one option of a policy is declared: `Option`, the record beside each field, `Grant`, a path, and
`RecipeMeta`, what a recipe says of itself.

Nothing here knows which options exist; `model.py` declares them. Pure: no import beyond dataclasses.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from typing import Any, Literal

Merge = Literal["union", "or", "last", "overlay", "max", "blocks", "scopes", "widest", "loosest"]
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
    "detector",
    "guard",
]


@dataclass(frozen=True, slots=True)
class Option:
    """How one field of the Policy is spelled outside Python. `flag` None: TOML and keyword only.

    `absent` pairs a choice that the documents know, but this version cannot carry out, with the sentence that refuses
    it where a cage is made (`compile.absent`); it can be read, merged and shown. `unit` and `maximum` are of the number
    as it is written.
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
    absent: tuple[tuple[str, str], ...] = ()

    @property
    def toml_key(self) -> str:
        return f"{self.section}.{self.key}" if self.section else self.key


def option(
    section: str,
    key: str,
    doc: str,
    *,
    default: Any = MISSING,
    merge: Merge,
    flag: str | None = None,
    choices: tuple[str, ...] = (),
    minimum: int | None = None,
    unit: str = "",
    maximum: int | None = None,
    item: Item = "",
    absent: tuple[tuple[str, str], ...] = (),
) -> Any:
    described = Option(section, key, doc, merge, flag, choices, minimum, unit, maximum, item, absent)
    return field(default=default, metadata={"option": described})


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
