"""What a configuration of git leads git to: a directory of hooks by another name, files that it includes, and programs
that it starts by itself, in filters, for connections, to find out what has changed. Pure.

The text may be a stranger's: it is read totally, and what is no configuration is passed over. It decides no more than
what is read-only in a cage. An alias or a merge tool is not among it: somebody types that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pysandbox.shapes import NamedTuple

# [section "sub"], or a variable with the rest of its line; a line that ends in a backslash goes on. Git's own reader
# takes a variable on the line of its section, too.
BLANK = re.compile(r"\s*")
HEADER = re.compile(r'\[\s*([-.\w]+)\s*(?:"((?:[^"\\\n]|\\.)*)"\s*)?\]')
VARIABLE = re.compile(r"([A-Za-z][-\w]*)[ \t]*(?:=((?:[^\n\\]|\\[^\n]|\\\n)*))?")
PIECE = re.compile(r'\\(.)|"|([#;])|([^\\"#;]+)', re.DOTALL)
WORD = re.compile(r"""(?:[^\s'"`;|&<>()$!\\]|\\.)+""")
QUOTED = re.compile(r"""\"([^"]*\s[^"]*)\"|'([^']*\s[^']*)'""")

INCLUDED = ("include.path", "includeif.path")
HOOKS, TREE = "core.hookspath", "core.worktree"
COMMANDS = frozenset((
    "core.fsmonitor", "core.sshcommand", "core.gitproxy", "core.askpass", "core.pager", "core.editor",
    "sequence.editor", "diff.external", "diff.command", "diff.textconv", "filter.clean", "filter.smudge",
    "filter.process", "merge.driver", "credential.helper", "gpg.program", "interactive.difffilter",
    "hook.command", "submodule.update", "uploadpack.packobjectshook", "gpg.defaultkeycommand",
    "core.alternaterefscommand", "trailer.command", "trailer.cmd", "gc.recentobjectshook",
))  # fmt: skip
PAGER = "pager."  # of each command its own
WHOLE = frozenset(("gpg.program", "core.askpass"))  # the name of a program, which no shell reads


class LedTo(NamedTuple):
    """As they are written, each once: paths relative to the file, relative to the working tree, and the tree itself."""

    included: tuple[str, ...]
    hooks: tuple[str, ...]
    programs: tuple[str, ...]
    tree: str = ""


def named_in(text: str) -> LedTo:
    found = list(variables(text.removeprefix("\ufeff").replace("\r\n", "\n")))
    return LedTo(
        _once(value for key, value in found if key in INCLUDED and value),
        _once(value for key, value in found if key == HOOKS and value),
        _once(word for key, value in found if key in COMMANDS or key.startswith(PAGER) for word in _words(key, value)),
        next((value for key, value in reversed(found) if key == TREE), ""),
    )


def _once(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))


def _words(key: str, value: str) -> Iterator[str]:
    """What may be a program: each word of a shell, what it is in quotes with spaces, all of it where no shell is."""
    yield from (re.sub(r"\\(.)", r"\1", word) for word in WORD.findall(value))
    yield from (double or single for double, single in QUOTED.findall(value))
    if key in WHOLE:
        yield value


def variables(text: str) -> Iterator[tuple[str, str]]:
    """(section.name in small letters without what stands between, value), in their order."""
    section, at = "", 0
    while at < len(text):
        at = blank.end() if (blank := BLANK.match(text, at)) else at
        if found := HEADER.match(text, at):
            section, at = found[1].partition(".")[0].lower(), found.end()
        elif found := VARIABLE.match(text, at):
            yield f"{section}.{found[1].lower()}", value_of(found[2] or "")
            at = found.end()
        else:
            at = text.find("\n", at) + 1 or len(text)


def value_of(written: str) -> str:
    """Without its quotes, escapes and comment."""
    value, quoted = "", False
    for escaped, comment, plain in PIECE.findall(written):
        if comment and not quoted:
            break
        if escaped:
            value += {"n": "\n", "t": "\t", "b": "\b", "\n": ""}.get(escaped, escaped)
        elif not comment and not plain:
            quoted = not quoted
        value += comment or plain
    return value.strip()
