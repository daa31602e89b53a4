"""Claim: the same program, grant and journal give the same denials and the same log, to a byte, whatever the hash
seed, the locale and the interpreter; and a journal that was cut, edited, reordered or is of another run is refused.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from _support.apps import constants, package, write
from pysandbox.apps import App, AppOutcome, Kernel
from pysandbox.apps.journal import canonical_line
from pysandbox.errors import AppError

ALL = ["fs.use", "chan.use", "win.manage", "input.route"]
PROGRAM = [
    *constants({1: "docs", 2: "docs2/é", 3: "r", 4: "docs/mine", 5: 4}), ["FS_LIST", 6, 1], ["FS_LIST", 6, 2],
    ["FS_OPEN", 7, 4, 3], ["FS_READ", 8, 7, 5], ["CHAN_OPEN", 9, 1, 2], ["WIN_FOCUS", 7], ["EMIT", 1, 8],
    ["EMIT", 2, 8], ["FS_OPEN", 9, 2, 3], ["HALT"],
]  # fmt: skip
PYTHONS = ("/usr/bin/python3.{}", "/usr/local/bin/python3.{}", "/root/.pyenv/versions/3.{}.*/bin/python3",
           "/opt/python/cp3{0}-cp3{0}/bin/python3")  # fmt: skip
AGAIN = """
import sys
from pathlib import Path
from pysandbox.apps import App, AppPackage
outcome = App.debug(AppPackage.read(sys.argv[1])).replay(Path(sys.argv[2]).read_bytes())
sys.stdout.buffer.write(outcome.log.text())
"""


@pytest.fixture
def outcome(tmp_path: Path) -> AppOutcome:
    (tmp_path / "work" / "docs").mkdir(parents=True)
    (tmp_path / "work" / "docs" / "mine").write_bytes(b"\xff\0x")
    with Kernel(tmp_path / "work") as kernel:
        return App.debug(package(PROGRAM, requested_capabilities=ALL)).run(kernel, debug=True)


def test_control_the_run_was_denied_in_several_ways(outcome: AppOutcome) -> None:
    assert {each.deny_reason for each in outcome.log} == {"denied_scope", "invalid_handle_kind"}
    assert len(outcome.log) >= 5


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONHASHSEED": "0"}, {"PYTHONHASHSEED": "4242"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"TZ": "Asia/Tokyo"}],
    ids=str,
)
def test_another_process_repeats_it(outcome: AppOutcome, tmp_path: Path, environment: dict[str, str]) -> None:
    place = write(tmp_path / "package", PROGRAM, requested_capabilities=ALL)
    (tmp_path / "journal").write_bytes(outcome.journal)
    command = [sys.executable, "-c", AGAIN, str(place), str(tmp_path / "journal")]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)
    assert done.stdout == outcome.log.text() and len(done.stdout) > 500


def others() -> list[str]:
    """The other Pythons of this host that a user may read."""
    import glob
    import os

    found = [each for minor in (11, 12, 13, 14) for pattern in PYTHONS for each in glob.glob(pattern.format(minor))]
    return [each for each in found if os.access(each, os.X_OK)]


@pytest.mark.slow
@pytest.mark.parametrize("python", others() or [sys.executable])
def test_another_python_repeats_it(outcome: AppOutcome, tmp_path: Path, python: str) -> None:
    """A replay needs neither the extension nor anything that is installed: the standard library, and the source."""
    import pysandbox

    place = write(tmp_path / "package", PROGRAM, requested_capabilities=ALL)
    (tmp_path / "journal").write_bytes(outcome.journal)
    source = tmp_path / "source"
    copy = "import shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2])"
    subprocess.run(
        [sys.executable, "-c", copy, str(Path(pysandbox.__file__).parent), str(source / "pysandbox")], check=True
    )
    command = [python, "-SIc", f"import sys; sys.path.insert(0, {str(source)!r})\n" + AGAIN]
    done = subprocess.run(
        [*command, str(place), str(tmp_path / "journal")], capture_output=True, check=True, timeout=60
    )
    assert done.stdout == outcome.log.text() and len(done.stdout) > 500


def test_a_replay_has_no_effect(outcome: AppOutcome, tmp_path: Path) -> None:
    (tmp_path / "work/docs/mine").unlink()
    assert App.debug(package(PROGRAM, requested_capabilities=ALL)).replay(outcome.journal).ok


def closed_again(lines: list[bytes]) -> bytes:
    """As somebody would write it who knows the format: the digest of the lines fits."""
    import hashlib

    last = json.loads(lines[-1])
    text = b"".join(lines[:-1])
    return text + canonical_line({**last, "lines": hashlib.sha256(text).hexdigest()})


def test_a_journal_that_is_not_whole_is_refused(outcome: AppOutcome) -> None:
    app = App.debug(package(PROGRAM, requested_capabilities=ALL))
    lines = outcome.journal.splitlines(keepends=True)
    broken = [
        b"", b"\n", outcome.journal[:-1], outcome.journal[:-20], b"".join(lines[:-1]), b"".join(lines[1:]),
        b"".join([lines[0], *lines[2:]]), b"".join([lines[0], lines[2], lines[1], *lines[3:]]), outcome.journal * 2,
        outcome.journal.replace(b"notes.app", b"other.app"), b"[" * 100_000, b"\xff", b"null\n" * 3, b"{}\n{}\n",
    ]  # fmt: skip
    for journal in broken:
        with pytest.raises(AppError, match="journal"):
            app.replay(journal)


def test_a_journal_that_was_made_to_fit_gives_another_log_and_is_refused(outcome: AppOutcome) -> None:
    app = App.debug(package(PROGRAM, requested_capabilities=ALL))
    lines = outcome.journal.splitlines(keepends=True)
    made = [
        [*lines[:1], *lines[2:]],  # an answer less
        [*lines[:2], lines[1], *lines[2:]],  # one more
        [lines[0], *[b'["denied","denied_scope"]\n' for _ in lines[1:-1]], lines[-1]],
    ]
    for each in made:
        with pytest.raises(AppError):
            app.replay(closed_again(each))


@pytest.mark.parametrize("changes", [{"version": "2"}, {"resource_scopes": {"fs_prefixes": ["docs2"]}}], ids=str)
def test_a_journal_of_another_grant_is_refused(outcome: AppOutcome, changes: dict[str, object]) -> None:
    with pytest.raises(AppError, match="another package or grant"):
        App.debug(package(PROGRAM, **{"requested_capabilities": ALL, **changes})).replay(outcome.journal)
