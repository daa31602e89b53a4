"""The field's words: one name, one meaning, and no private word where a man page, an RFC or a known program has one.

A name that stands for two things, or a word that only this project has, costs every reader a look elsewhere.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from _support.tree import PACKAGE, REPOSITORY, around, modules

# A word of ours that no name in the code may have, and the word of the field.
BANNED = {
    "admission": "session: CageSession",
    "bell": "wakeup (eventfd(2))",
    "calm": "back_off",
    "condemned": "kill_reason",
    "deed": "emulated_call (seccomp_unotify(2))",
    "demand": "require, or check",
    "descent": "process_tree",
    "doze": "back_off",
    "duty": "cpu_budget",
    "ear": "monitor",
    "enrol": "register",
    "errand": "vfork_child",
    "guest": "cage, or target",
    "hear": "receive, or read",
    "heard": "received",
    "keeper": "shim",
    "mend": "fix",
    "nudge": "wake",
    "parked": "idle",
    "poke": "wake",
    "sealed": "what it is: no_external_reach",
    "seek": "search",
    "settle": "wait_idle, normalize, resolve: what it does",
    "shelf": "slot",
    "sought": "found",
    "spell": "encode",
    "stock": "pool",
    "stranded": "not_replaceable",
    "telling": "event",
    "ticket": "pending_call",
    "walled": "what it is: landlock_denies_bind",
}
# Names that others have given: lseek(2), RFC 9113, and a parameter that programs of users have written.
OTHERS = frozenset({"SEEK_CUR", "SEEK_END", "ENHANCE_YOUR_CALM", "parked"})
NEIGHBOUR = re.compile(r"(?:Of|Also|The same|Likewise)\b")  # begins what cannot be read without its neighbour
POINTER = re.compile(r"(?:It|Its|They|These|Those|That|And|Or)\b")  # ... without the name above it
PYTHON_DEFINITION = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
C_FUNCTION = re.compile(r"^(?!typedef|return|else|#)[a-z_][\w ]*[ *](\w+)\([^;{}]*\)\s*\{", re.MULTILINE)
C_TYPE = re.compile(r"^\s*(?:struct|enum|union)\s+(\w+)\s*\{", re.MULTILINE)
C_ENUMERATOR = re.compile(r"^\s+(PSB_[A-Z_0-9]+)(?:\s*=[^,}]*)?,?\s*(?:/\*.*)?$", re.MULTILINE)
C_COMMENT = re.compile(r"/\*\s*(.*?)\*/", re.DOTALL)


def sources() -> list[Path]:
    return [*modules(), *sorted(path for end in ("c", "h") for path in (REPOSITORY / "csrc").rglob(f"*.{end}"))]


def shown(path: Path) -> str:
    if path.is_relative_to(PACKAGE):
        return f"pysandbox/{path.relative_to(PACKAGE).as_posix()}"
    return path.relative_to(REPOSITORY).as_posix()


def definitions(path: Path) -> Iterator[str]:
    """The names that a file defines: functions, classes, structs, enums and enumerators; nested ones, too."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from (node.name for node in ast.walk(ast.parse(text)) if isinstance(node, PYTHON_DEFINITION))
        return
    for pattern in (C_FUNCTION, C_TYPE, C_ENUMERATOR):
        yield from pattern.findall(C_COMMENT.sub("", text))


def variables(path: Path) -> Iterator[str]:
    """The other names that a file gives: parameters, variables and attributes; in C every name that it uses."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from re.findall(r"\b[A-Za-z_]\w*", re.sub(r'"(?:\\.|[^"\\\n])*"', "", C_COMMENT.sub("", text)))
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def words(name: str) -> set[str]:
    return set(re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower().split("_"))


def with_a_banned_word() -> Iterator[tuple[str, str]]:
    """Each name with a banned word: of a file, or of what a file defines or uses, and the file."""
    for path in sources():
        named = [path.name, *definitions(path), *(set(variables(path)) - OTHERS)]
        yield from ((name, shown(path)) for name in named if words(name.partition(".")[0]) & BANNED.keys())


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and the comments on lines of their own, each with its line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from ((text.count("\n", 0, each.start()) + 1, each[1]) for each in C_COMMENT.finditer(text))
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, PYTHON_DEFINITION | ast.Module) and (document := ast.get_docstring(node)):
            yield getattr(node, "lineno", 1), document
    previous = ""
    for number, line in enumerate(map(str.strip, text.splitlines()), 1):
        if line.startswith("# ") and not previous.startswith("#"):
            yield number, line[2:]
        previous = line


def test_the_scan_finds_what_is_there() -> None:
    """Guards the tests below against a pattern that matches nothing."""
    found = {f"{shown(path)}:{name}" for path in sources() for name in definitions(path)}
    assert {"pysandbox/cage.py:Cage", "pysandbox/cage.py:run", "csrc/setup/setup.c:set_up_and_become_init"} <= found
    assert {"csrc/abi.h:psb_plan", "csrc/host/notify/notify.h:psb_call_class"} <= found
    assert sum(name.startswith("csrc/") for name in found) > 400


def test_no_class_has_the_name_of_another() -> None:
    """A private one has no name of its own either: `_Answer` beside `Answer` is a word with two meanings."""
    homes = defaultdict(list)
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name.lstrip("_")].append(f"{shown(path)}:{node.lineno}")
    assert len(homes) > 200
    assert not {name: found for name, found in homes.items() if len(found) > 1}


def test_no_name_has_a_private_word() -> None:
    assert words("run_errand") & BANNED.keys() and words("CageKeeper") & BANNED.keys()  # the control
    found = dict(with_a_banned_word())
    assert not found, f"{found}: the field's words are in BANNED"


def test_every_sentence_can_be_read_alone() -> None:
    found = [f"{shown(path)}:{line}: {text[:60]}" for path in (*sources(), *around()) for line, text in sentences(path)
             if NEIGHBOUR.match(text)]  # fmt: skip
    assert not found, found


def test_no_docstring_begins_with_a_pointer_to_its_name() -> None:
    """Who reads it in a list, or in an editor's hint, sees what "those" are."""
    assert POINTER.match("Those of one cage.") and not POINTER.match("Items of one cage.")
    found = [f"{shown(path)}:{node.lineno} {node.name}" for path in modules()
             for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
             if isinstance(node, PYTHON_DEFINITION) and POINTER.match(ast.get_docstring(node) or "")]  # fmt: skip
    assert not found, found


def test_nothing_is_put_off_in_a_comment() -> None:
    found = [f"{shown(path)}:{line}" for path in sources() for line, text in sentences(path)
             if re.search(r"\b(?:TODO|FIXME|XXX)\b", text)]  # fmt: skip
    assert not found, found
