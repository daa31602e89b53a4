"""Changes as text: a unified diff of what is text, a line for each file, JSON; and a file as its hunks.

A cage wrote the names and the contents, so each is bounded: no file of more than a mebibyte and no more lines than
difflib compares in a moment. The text holds the bytes as they are; who shows it on a terminal escapes it.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence

from pysandbox.shapes import Any, Literal, NamedTuple
from pysandbox.workspace.changes import Change, State
from pysandbox.workspace.content import open_lower
from pysandbox.workspace.upper import Upper
from pysandbox.workspace.walk import read_link

Format = Literal["unified", "json", "stat"]
LARGEST = 1 << 20  # bytes of a file that is shown
MOST_LINES = 20_000
CONTEXT = 3


class Pair(NamedTuple):
    """The lines before and after, their ends included; None for what is no text or too large."""

    old: list[str]
    new: list[str]


def unified(upper: Upper, found: Iterable[Change], *, several: bool = False) -> Iterator[str]:
    """The lines of a patch, each with its end. `several`: it is of more trees than one, so each is named. Raises
    OSError."""
    for each in found:
        yield from _header(each, several)
        pair = lines_of(upper, each)
        if pair is None:
            yield f"Binary files or too large: {_size(each.before)} before, {_size(each.after)} after\n"
        elif pair.old != pair.new:
            old = (
                "/dev/null" if each.before is None and not each.renamed_from else f"a/{each.renamed_from or each.path}"
            )
            new = "/dev/null" if each.after is None else f"b/{each.path}"
            for line in difflib.unified_diff(pair.old, pair.new, quoted(old), quoted(new), n=CONTEXT):
                yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _header(change: Change, several: bool) -> Iterator[str]:
    """As git has it, so that `git apply` reads it."""
    old, new = quoted(f"a/{change.renamed_from or change.path}"), quoted(f"b/{change.path}")
    yield f"diff --git {old} {new}\n"
    before, after = change.before, change.after
    if several:
        yield f"# in {quoted(change.tree)}\n"
    if change.risk:
        yield f"# {', '.join(change.risk)}\n"
    if change.kind == "renamed":
        yield f"rename from {quoted(change.renamed_from)}\nrename to {quoted(change.path)}\n"
    elif before is None and after is not None:
        yield f"new file mode {_mode(after)}\n"
    elif after is None and before is not None:
        yield f"deleted file mode {_mode(before)}\n"
    elif before is not None and after is not None and _mode(before) != _mode(after):
        yield f"old mode {_mode(before)}\nnew mode {_mode(after)}\n"


TYPE = {"file": "100", "symlink": "120", "dir": "040", "fifo": "010", "socket": "140", "device": "060"}


def _mode(state: State) -> str:
    return f"{TYPE.get(state.kind, '000')}{state.mode & 0o777:03o}" if state.kind != "symlink" else "120000"


def _size(state: State | None) -> str:
    return f"{state.size} bytes" if state is not None and state.kind == "file" else "none"


def quoted(path: str) -> str:
    """As git quotes a name that is not plain."""
    if path.isascii() and path.isprintable() and '"' not in path and "\\" not in path:
        return path
    said = "".join(chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:03o}"
                   for byte in os.fsencode(path))  # fmt: skip
    return f'"{said}"'


def lines_of(upper: Upper, change: Change) -> Pair | None:
    """The texts before and after. Raises OSError."""
    old = _text(change.renamed_from or change.path, change.before, upper, lower=True)
    new = _text(change.path, change.after, upper, lower=False)
    if old is None or new is None or len(old) + len(new) > MOST_LINES:
        return None
    return Pair(old, new)


def _text(path: str, state: State | None, upper: Upper, *, lower: bool) -> list[str] | None:
    if state is None or state.kind not in ("file", "symlink"):
        return []
    if state.kind == "symlink":
        name = os.fsencode(path)
        return [os.fsdecode(read_link(upper.tree.fd, name) if lower else upper.readlink(name))]
    if state.size > LARGEST:
        return None
    data = _lower(upper, path) if lower else upper.read(os.fsencode(path), LARGEST + 1)
    if b"\0" in data or len(data) > LARGEST:
        return None
    try:
        return _split(data.decode())
    except UnicodeDecodeError:
        return None


def _split(text: str) -> list[str]:
    """At newlines alone: a carriage return or a form feed is part of its line."""
    return [line + "\n" for line in text.split("\n")[:-1]] + [last for last in text.split("\n")[-1:] if last]


def _lower(upper: Upper, path: str) -> bytes:
    fd = open_lower(upper.tree, os.fsencode(path))
    with open(fd, "rb") as file:
        return file.read(LARGEST + 1)


def stat(upper: Upper, found: Iterable[Change], *, several: bool = False) -> Iterator[str]:
    """One line for each, whatever its name: lines added and removed, or the sizes. `several` as in `unified`."""
    for each in found:
        top = f"{each.tree}/" if several else ""
        pair = lines_of(upper, each)
        marks = f"  ({', '.join(each.risk)})" if each.risk else ""
        old = f"{quoted(top + each.renamed_from)} => " if each.renamed_from else ""
        name = old + quoted(top + each.path)
        if pair is None:
            yield f"{each.kind:<8} {name} | {_size(each.before)} -> {_size(each.after)}{marks}\n"
            continue
        added, removed = counts(pair)
        yield f"{each.kind:<8} {name} | +{added} -{removed}{marks}\n"


def counts(pair: Pair) -> tuple[int, int]:
    opcodes = difflib.SequenceMatcher(None, pair.old, pair.new).get_opcodes()
    return (sum(b2 - b1 for tag, _, _, b1, b2 in opcodes if tag != "equal"),
            sum(a2 - a1 for tag, a1, a2, _, _ in opcodes if tag != "equal"))  # fmt: skip


def in_json(found: Iterable[Change]) -> str:
    """Pure ASCII: a byte that is no UTF-8 is a lone surrogate, as Python reads and writes it."""
    return json.dumps([plain_change(each) for each in found]).replace("\x7f", "\\u007f")


def plain_change(change: Change) -> dict[str, Any]:
    def plain_state(state: State | None) -> dict[str, Any] | None:
        if state is None:
            return None
        return {"kind": state.kind, "mode": f"{state.mode:04o}", "size": state.size, "mtime_ns": state.mtime_ns}

    return {
        "tree": change.tree, "path": change.path, "kind": change.kind, "risk": list(change.risk),
        "renamed_from": change.renamed_from or None, "digest": change.digest or None,
        "before": plain_state(change.before), "after": plain_state(change.after),
    }  # fmt: skip


# ---- hunks ---------------------------------------------------------------------------------------------------------


class Hunk(NamedTuple):
    """Lines of one place of a file, as a unified diff shows them."""

    lines: tuple[str, ...]
    changes: tuple[tuple[int, int, int, int], ...]  # old start and end, new start and end


def hunks(pair: Pair) -> list[Hunk]:
    found = []
    for group in difflib.SequenceMatcher(None, pair.old, pair.new).get_grouped_opcodes(CONTEXT):
        (_, a1, _, b1, _), (_, _, a2, _, b2) = group[0], group[-1]
        lines = [f"@@ -{a1 + 1},{a2 - a1} +{b1 + 1},{b2 - b1} @@\n"]
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [f" {line}" for line in pair.old[i1:i2]]
            else:
                lines += [f"-{line}" for line in pair.old[i1:i2]] + [f"+{line}" for line in pair.new[j1:j2]]
        found.append(Hunk(tuple(lines), tuple(each[1:] for each in group if each[0] != "equal")))
    return found


def with_hunks(pair: Pair, found: Sequence[Hunk], wanted: Collection[int]) -> bytes:
    """The old text with these hunks (by their index) put in."""
    made: list[str] = []
    at = 0
    for number, hunk in enumerate(found):
        for i1, i2, j1, j2 in hunk.changes:
            made += pair.old[at:i1] + (pair.new[j1:j2] if number in wanted else pair.old[i1:i2])
            at = i2
    return "".join(made + pair.old[at:]).encode()
