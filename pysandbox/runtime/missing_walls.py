"""A wall that this host lacks, told to whoever uses the package and listens to no events: a Python warning.

The command line says such notes itself, on stderr. A filter of warnings(3) decides what comes of it: once, as by
default; an error (`-W error::pysandbox.errors.WeakerWarning`); or nothing. A strict policy refuses in any case.
"""

from __future__ import annotations

from collections.abc import Iterable

from pysandbox.compile.notes import DEGRADED
from pysandbox.note import Note


def warn_of_missing_walls(notes: Iterable[Note]) -> None:
    """Raises WeakerWarning where a filter says so."""
    for note in notes:
        if (note.event, note.key) == (DEGRADED, "isolation"):
            _warn(note.message)


def _warn(message: str) -> None:
    import warnings

    from pysandbox.errors import WeakerWarning

    said = f'{message} (strict = true refuses it; Result.notes has it; "pysandbox check" says more)'
    warnings.warn(said, WeakerWarning, stacklevel=level_of_caller())


def level_of_caller() -> int:
    """The `stacklevel` at which a warning names the line that called this package."""
    from inspect import currentframe

    level, frame = 0, currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "pysandbox":
        level, frame = level + 1, frame.f_back
    return level
