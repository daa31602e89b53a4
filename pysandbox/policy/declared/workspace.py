"""[workspace]: what becomes of what a cage wrote apart, once it has ended."""

from __future__ import annotations

from pysandbox.policy.option import Sentence, option
from pysandbox.policy.tighter import towards
from pysandbox.shapes import dataclass

ENDINGS = ("abort", "keep", "ask", "defer", "commit")  # what forgets most comes first
STORAGES = ("memory", "disk", "copy")


@dataclass(frozen=True, kw_only=True)
class WorkspaceOptions:
    storage: str = option(
        "workspace", "storage", "Where what is written to copy-on-write directories lies until somebody decides: in "
        "`memory`, where the file system itself holds cow_mb, or on `disk`, below $XDG_STATE_HOME, for more than memory"
        " can hold; there cow_mb is looked at some times a second, and a cage that has written more is ended. `copy` "
        "lays nothing over the directories but makes a copy of them, of at most copy_mb, on that disk, for the cage to "
        "work in; that is done in place of `memory`, too, where no overlay can be had, as in landlock isolation.",
        default="memory", merge="last", tighter=towards(*STORAGES), flag="--storage", choices=STORAGES, in_plan=True,
        sentence=Sentence("Writes", place=2, unless=("storage", "memory"), cases={
            "disk": "What is written apart lies on disk, and cow_mb of it is looked at some times a second.",
            "copy": "What is written apart is written to a copy on disk, and cow_mb of it is looked at some times a "
            "second.",
        }),
    )  # fmt: skip
    on_exit: str = option(
        "workspace", "on_exit", "What becomes of what was written to copy-on-write directories when the cage has ended "
        "well: `defer` leaves it to whoever ran it (`pysandbox run` keeps it), `keep` copies it to disk, `abort` "
        "forgets it, `commit` writes it to the directories if nothing of it carries a risk mark or conflicts, and else "
        "keeps it, `ask` has `pysandbox run` ask on its terminal, and where there is none keeps it.",
        default="defer", merge="last", tighter=towards(*ENDINGS), flag="--on-exit", choices=ENDINGS,
        in_plan=False,
        sentence=Sentence("Writes", place=2, unless=("on_exit", "defer"), cases={
            "keep": "What was written apart is kept on disk when the cage has ended well.",
            "abort": "What was written apart is forgotten when the cage has ended well.",
            "ask": "Whoever ran it is asked what becomes of what was written apart when the cage has ended well.",
            "commit": "What was written apart is written to its directories when the cage has ended well, without "
            "anybody looking, unless it carries a risk mark or conflicts.",
        }),
    )  # fmt: skip
    on_error: str = option(
        "workspace", "on_error", "What becomes of that when the cage has not ended well: its last command "
        "failed, or an exception left the `with` block. `commit` only beside on_exit = \"commit\".",
        default="defer", merge="last", tighter=towards(*ENDINGS), flag="--on-error", choices=ENDINGS,
        in_plan=False,
        sentence=Sentence("Writes", place=2, unless=("on_error", "defer"), cases={
            "keep": "What was written apart is kept on disk when a command has failed.",
            "abort": "What was written apart is forgotten when a command has failed.",
            "ask": "Whoever ran it is asked what becomes of what was written apart when a command has failed.",
            "commit": "What was written apart is written to its directories also when a command has failed.",
        }),
    )  # fmt: skip
