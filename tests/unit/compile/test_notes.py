"""note.py and compile/notes.py: who hears of a note is data, and decided in one place."""

from __future__ import annotations

import ast
from pathlib import Path

import pysandbox
from golden.pretend import HOME, plan_of
from pysandbox import events, note
from pysandbox.compile import notes
from pysandbox.note import Note, Rank
from pysandbox.policy.model import Policy
from pysandbox.shapes import get_args


def test_every_event_that_weakens_has_a_rank() -> None:
    told = {events.GRANT_SKIPPED, events.NOT_COVERABLE, events.WIDE_GRANT, events.DEGRADED, events.MONITOR,
            events.ISOLATION_GAP, events.LIMITS_NOT_ENFORCED, events.PLANTED, events.POLICY_VIOLATION}  # fmt: skip
    assert {each.name for each in told} <= note.RANKS.keys()
    assert set(note.RANKS.values()) <= set(get_args(Rank))


def test_what_nobody_ranked_is_said() -> None:
    assert note.worth_saying([Note("sandbox.new", "isolation", "a wall is missing")])


def test_a_path_that_this_host_lacks_is_no_loss_whatever_its_words() -> None:
    absent = notes.grants_absent(["/lib32"])
    assert note.weaker([absent]) == ()
    same_words = Note(absent.event, absent.key, absent.message)
    assert note.weaker([same_words]) == (same_words,)


def test_notes_are_sorted_by_what_they_weaken_and_said_once() -> None:
    skipped, wide = notes.grant_skipped(notes.WORKDIR, "/tmp", "why"), notes.wide_grant("filesystem.allow", "all of it")
    gaps = [Note(notes.ISOLATION_GAP, "isolation", each) for each in ("one", "two")]
    assert note.worth_saying([skipped, *gaps, wide, wide]) == (wide, note.SOME_GAPS, skipped)


def test_a_home_directory_is_said_also_where_it_is_only_shown() -> None:
    for policy in (Policy(allow=[HOME]), Policy(allow_write=[HOME])):
        said = note.worth_saying(plan_of(policy).notes)
        assert [note.key for note in said if note.event == notes.WIDE_GRANT], said


def test_nothing_reads_the_words_of_a_note() -> None:
    """A rank that hangs on a sentence is lost when somebody mends the sentence."""
    found = []
    for path in Path(pysandbox.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                text = ast.unparse(node.func)
                if text in ("note.message.startswith", "note.message.endswith", "each.message.endswith"):
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []
