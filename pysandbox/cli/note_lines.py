"""The lines that the command line prints of the notes of a Plan or a Result."""

from __future__ import annotations

from collections.abc import Iterable

from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.note import Note


def weaker_lines(notes: Iterable[Note]) -> list[str]:
    from pysandbox.note import worth_saying

    return [f"{note.key}: {note.message}" for note in worth_saying(notes)]


def end_lines(notes: Iterable[Note]) -> list[str]:
    if not notes:
        return []
    from pysandbox.note import last_words

    return [note.message for note in last_words(notes)]
