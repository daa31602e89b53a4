"""Journals that were written under Python 3.11 are repeated to the byte by the Python that runs this, whichever it is.

`--update-golden` writes them anew; they are to change with the format of a journal alone.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from _support.apps import package
from _support.golden import FOLDER
from pysandbox.apps import App, Budget, Kernel

JOURNALS = FOLDER / "apps" / "journals.jsonl"
ALL = ["fs.use", "chan.use", "win.manage", "input.route"]
SCOPES = {"fs_prefixes": ["docs"], "domains_allowed": ["desk", "mail"], "channel_peers_allowed": [["desk", "mail"]]}
BUDGET = Budget(ticks=200, log_records=50)
# Unicode gave these their place in the order of marks after Python 3.11.
LATE_MARKS = ["\U00010efd", "\U00011f41", "\U0001e08f", "\U0001e4ec", "\U0001e4ef"]


def lists(*paths: str) -> list[list[object]]:
    return [each for path in paths for each in (["CONST", 1, path], ["FS_LIST", 2, 1])]


PROGRAMS: dict[str, list[list[object]]] = {
    "files": [
        ["CONST", 1, "docs/a"], ["CONST", 2, "w"], ["CONST", 3, "text"], ["FS_OPEN", 4, 1, 2], ["FS_WRITE", 5, 4, 3],
        ["FS_CLOSE", 4], ["FS_CLOSE", 4], ["CONST", 2, "r"], ["FS_OPEN", 4, 1, 2], ["CONST", 5, 99],
        ["FS_READ", 6, 4, 5], ["CONST", 7, "docs/b"], ["FS_COPY", 1, 7], ["FS_RENAME", 7, 1], ["FS_DELETE", 7],
        ["FS_RESTORE", 7, 7], ["CONST", 8, "docs2/b"], ["FS_MOVE", 7, 8], ["FS_MOVE", 8, 7], ["HALT"],
    ],
    "channels and windows": [
        ["CONST", 1, "desk"], ["CONST", 2, "mail"], ["CHAN_OPEN", 3, 1, 2], ["CHAN_OPEN", 4, 2, 1], ["CHAN_SEND", 3, 1],
        ["CHAN_RECV", 5, 3], ["CONST", 6, 2**53], ["CHAN_SEND", 6, 1], ["WIN_CREATE", 7, 1], ["WIN_FOCUS", 7],
        ["WIN_FOCUS", 3], ["CHAN_CLOSE", 3], ["CHAN_SEND", 3, 1], ["EMIT", 1, 2], ["EMIT", 7, 2],
    ],
    "a loop of denials": [["CONST", 1, "../out"], ["FS_LIST", 2, 1], ["JUMP", 1]],
    "spellings": lists("docs", "docs/", "docs//a", "docs/./a", "docs/\u00e9", "docs/e\u0301", "docs/\u212b"),
    "marks in any order": [
        *lists("docs/a\u0315\u0301"),
        *(each for mark in LATE_MARKS for each in lists(f"docs/a\u0315{mark}", f"docs/a{mark}\u0315")),
    ],
}  # fmt: skip


def app_of(program: list[list[object]]) -> App:
    return App.debug(package(program, requested_capabilities=ALL, resource_scopes=SCOPES))


def written(name: str, place: Path) -> str:
    (place / "docs").mkdir()
    with Kernel(workspace=place) as kernel:
        outcome = app_of(PROGRAMS[name]).run(kernel, budget=BUDGET, debug=True)
    return json.dumps({"program": name, "journal": outcome.journal.decode(), "log": outcome.log.text().decode()}) + "\n"


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    if request.config.getoption("--update-golden"):
        JOURNALS.parent.mkdir(exist_ok=True)
        lines = (written(name, tmp_path_factory.mktemp("workspace")) for name in PROGRAMS)
        JOURNALS.write_text("".join(lines), encoding="utf-8")
    return {line["program"]: line for line in map(json.loads, JOURNALS.read_text(encoding="utf-8").splitlines())}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_journal_of_another_python_is_repeated_to_the_byte(name: str, recorded: dict[str, dict[str, str]]) -> None:
    again = app_of(PROGRAMS[name]).replay(recorded[name]["journal"].encode())

    assert again.log.text().decode() == recorded[name]["log"]
    assert len(again.log) > 0
