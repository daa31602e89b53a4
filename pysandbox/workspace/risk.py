"""What a reviewer must see first: changes that something of the host will obey later, as marks of one word each. Pure.

A cage writes a hook, a task of an editor, a build file; nothing happens until its user types `git commit`, opens the
directory, runs the tests. The tables (`policy.guarded_names`, `run_by_others`) name the files by which that is known to
happen, however they are spelled. They cannot name all: any source file of a project runs when the project does.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping

from pysandbox.policy.guarded import GIT, OURS
from pysandbox.policy.guarded_names import is_data_of_git, parts_of, words_of
from pysandbox.workspace.run_by_others import BELOW, ENDS, INERT, NAMES, STEMS

# The marks, and what each says to a person.
MARKS: Mapping[str, str] = {
    "policy": "is read by pysandbox itself at the next run",
    "guarded": "is obeyed by programs that nobody starts on purpose: it is written only where it is named",
    "runs-on-host": "says what tools of the host run, or is loaded by them",
    "instructs-agents": "is read by agents as what they are to do",
    "executable": "is new as a program, or was made one",
    "set-id": "asks to run as its owner or group; the bits are not written",
    "leads-out": "is a link that leads out of the tree, or may",
    "hidden-name": "has a name that a terminal does not show as it is",
}

INSTRUCTS = frozenset(("claude.md", "claude.local.md", "agents.md", "agents.override.md", "gemini.md", ".cursorrules",
                       ".windsurfrules", ".clinerules", ".goosehints", "copilot-instructions.md"))  # fmt: skip
_NAMES = frozenset(name.lower() for names in NAMES.values() for name in names)
_ENDS = tuple(end for ends in ENDS.values() for end in ends)
_STEMS = tuple(f"{stem}." for stem in STEMS)
_BELOW = frozenset(BELOW)
_LIBRARY = re.compile(r"\.so\.[0-9.]+\Z")  # libx.so.1

CACHE = "__pycache__"
NOBODY_COMMITS = ("policy", "guarded")  # marks of what is written only where it is named


def marks(path: bytes, mode_before: int | None, mode_after: int | None, leaves: bool,
          unguarded: tuple[str, ...] = ()) -> tuple[str, ...]:  # fmt: skip
    """The marks of one change. A mode is st_mode with its type, None for what is absent; `leaves`: it is a link that
    leads out of the tree (`links.leaves`)."""
    mode = mode_before if mode_after is None else mode_after
    found = by_name(path, unguarded, is_directory=mode is not None and stat.S_ISDIR(mode))
    if mode_after is not None and stat.S_ISREG(mode_after):
        was = mode_before if mode_before is not None and stat.S_ISREG(mode_before) else 0
        if mode_after & 0o111 and not was & 0o111:
            found += ("executable",)
    if mode_after is not None and mode_after & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISDIR(mode_after):
        found += ("set-id",)
    if leaves:
        found += ("leads-out",)
    return found


def by_name(path: bytes, unguarded: tuple[str, ...] = (), *, is_directory: bool = False) -> tuple[str, ...]:
    """`is_directory`: what marks a file by its name marks no directory; what lies in that has marks of its own."""
    text = os.fsdecode(path)
    parts = parts_of(text)
    words = frozenset(words_of(parts)).difference(unguarded)
    found: tuple[str, ...] = ()
    if is_data_of_git(parts):
        pass
    elif OURS in words:
        found = ("policy",)
    elif words:
        found = ("guarded",)
    elif not _BELOW.isdisjoint(parts) or (not is_directory and _is_run(parts)):
        found = ("runs-on-host",)
    elif parts[-1] in INSTRUCTS or ".claude" in parts:
        found = ("instructs-agents",)
    if not text.isprintable():  # a byte that is no UTF-8 is not either
        found += ("hidden-name",)
    return found


def is_written_by_name_alone(path: bytes, unguarded: tuple[str, ...] = ()) -> bool:
    return not set(NOBODY_COMMITS).isdisjoint(by_name(path, unguarded))


def leads_out(path: bytes, target: bytes) -> bool:
    """Whether the text of a link at `path` names something outside of the tree, or may: where `..` after a name leads,
    that name says, and it may be a link. The links that the tree has on the way are for `links.leaves` to follow."""
    if target.startswith(b"/"):
        return True
    steps = [part for part in target.split(b"/") if part not in (b"", b".")]
    up = next((at for at, part in enumerate(steps) if part != b".."), len(steps))
    return up > path.count(b"/") or b".." in steps[up:]


def _is_run(parts: tuple[str, ...]) -> bool:
    name = parts[-1]
    if name == "head" and GIT not in parts:  # git takes its directory for a repository, and runs what `config` names
        return True
    if name in _NAMES or name.endswith(_ENDS) or _LIBRARY.search(name) is not None:
        return True
    return name.startswith(_STEMS) and not name.endswith(INERT)


def is_made_again(path: bytes, *, is_directory: bool) -> bool:
    """Whether it is what Python keeps of a compiled module, or the directory of that: left out where nobody looks, as
    the interpreter makes it again from the source."""
    parts = parts_of(os.fsdecode(path))
    return parts[-1] == CACHE if is_directory else parts[-2:-1] == (CACHE,) and parts[-1].endswith(".pyc")
