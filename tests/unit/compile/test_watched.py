"""The calls that are watched for the files they name: one list for the filter, one table for the look at them."""

from __future__ import annotations

import re
from pathlib import Path

from golden.pretend import MODERN
from pysandbox.compile.monitor import monitor_notes
from pysandbox.compile.notify import CATEGORIES
from pysandbox.compile.syscalls import is_name
from pysandbox.compile.watched import PATH_CALLS
from pysandbox.policy.model import Policy

TABLE = Path(__file__).parents[3] / "csrc/host/notify/path_calls.c"


def test_the_filter_hands_over_what_the_table_has_and_nothing_else() -> None:
    rows = set(re.findall(r"\{SYS_(\w+),", TABLE.read_text()))
    decided = {name for category in ("exec", "file") for row in CATEGORIES[category].values() for name in row}
    assert rows == {*PATH_CALLS, *decided}


def test_every_name_is_a_call_s() -> None:
    assert [name for name in PATH_CALLS if not is_name(name)] == []


def test_whoever_asks_why_where_nobody_hears_it_is_told() -> None:
    said = [note.key for note in monitor_notes(Policy(why=True), MODERN, None)]
    assert said == ["why"]
    assert list(monitor_notes(Policy(), MODERN, None)) == []
