"""tests/run and .ci/run end in one line that reads like pytest's own, whatever the parts were."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from _support.total import summary, total

RUNNER = Path(__file__).parents[1] / "run"
LOOK = Path(__file__).parents[1] / "_support" / "second_look.py"
NOBODYS_UID = 4242424


def test_the_parts_of_a_run_are_added_up() -> None:
    text = '{"passed": 8, "failed": 1, "deselected": 2}\n{"passed": 2, "skipped": 1, "deselected": 8}\n'
    assert summary(total(text), 1.5).strip("= ") == "1 failed, 10 passed, 1 skipped in 1.50s"


def test_a_run_without_tests_says_so() -> None:
    assert summary(Counter()).strip("= ") == "no tests ran"


def run_in(work: Path, script: str) -> subprocess.CompletedProcess[str]:
    """The runner's own lock around a script, as it would hold it."""
    text = RUNNER.read_text(encoding="utf-8")
    functions = [
        found[0] for name in ("hold_work", "run_of")
        if (found := re.search(rf"^{name}\(\) \{{.*?^\}}", text, re.MULTILINE | re.DOTALL))
    ]  # fmt: skip
    assert len(functions) == 2
    head = f'set -euo pipefail\nwork={work}\ndie() {{ echo "$*"; exit 2; }}\n'
    body = head + "\n".join(functions) + f"\nhold_work\n{script}"
    return subprocess.run(["bash", "-c", body], capture_output=True, text=True, timeout=30, check=False)


def test_a_second_run_in_a_kept_directory_is_refused_by_name(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        fields = Path(f"/proc/{other.pid}/stat").read_text(encoding="utf-8").rpartition(") ")[2].split()
        (tmp_path / "lock").symlink_to(f"{other.pid}-{fields[19]}")
        refused = run_in(tmp_path, "echo went on")
        other.kill()
    assert refused.returncode == 2
    assert f"is in use by process {other.pid}" in refused.stdout


def test_a_run_that_was_killed_holds_up_no_later_one(tmp_path: Path) -> None:
    for left in (f"{NOBODYS_UID}-1", "1-1", "no pid at all", ""):
        if left:
            (tmp_path / "lock").symlink_to(left)
        done = run_in(tmp_path, 'readlink "$work/lock"; rm "$work/lock"')
        assert (done.returncode, len(done.stdout.split("-"))) == (0, 2), done.stderr


def test_an_account_that_runs_nothing_any_more_is_no_failure() -> None:
    """`ps` ends with 1 when it finds nobody, and the runner stops at the first failure."""
    function = re.search(r"^end_leftovers\(\) \{.*?^\}", RUNNER.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert function is not None
    script = f"set -euo pipefail\nmade_account=yes uid={NOBODYS_UID}\n{function[0]}\nend_leftovers\necho went on"
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert (said.returncode, said.stdout) == (0, "went on\n"), said.stderr


def test_the_sanitizers_run_is_explained_without_being_run() -> None:
    tool = Path(__file__).parents[2] / "tools" / "sanitize"
    for flag in ("--help", "-h"):
        told = subprocess.run(["bash", tool, flag], capture_output=True, text=True, timeout=10, check=True)
        assert "bash tools/sanitize --race" in told.stdout and "set -euo" not in told.stdout


def look_again(tmp_path: Path, failed: str, program: str) -> tuple[int, Counter[str], str]:
    """`program` stands for pytest: a shell script that gets the tests' names."""
    (tmp_path / "failed").write_text(failed, encoding="utf-8")
    (tmp_path / "counts").write_text('{"failed": 1, "error": 1, "passed": 7}\n', encoding="utf-8")
    command = [sys.executable, str(LOOK), str(tmp_path / "failed"), str(tmp_path / "counts"), "sh", "-c", program, "sh"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    return said.returncode, total((tmp_path / "counts").read_text(encoding="utf-8")), said.stdout


def test_what_passes_alone_each_time_is_unstable_and_named(tmp_path: Path) -> None:
    code, counts, said = look_again(tmp_path, "failed a::t[x y]\nerror a::t[x y]\n", 'echo "ran $1" "$#" >>ran')

    assert (code, summary(counts).strip("= ")) == (0, "1 unstable, 7 passed")
    assert "UNSTABLE a::t[x y]: failed once" in said
    assert (tmp_path / "ran").read_text(encoding="utf-8") == "ran a::t[x y] 1\n" * 3


@pytest.mark.parametrize(
    ("failed", "program"),
    [
        ("failed a::t\n", "echo . >>rounds; test $(wc -l <rounds) -lt 3"),  # not every time
        ("failed a::1\nfailed a::2\nfailed a::3\nfailed a::4\n", "exit 0"),  # too many for chance
        ("", "exit 0"),  # nothing that could be run again: a file that cannot be read
    ],
)
def test_what_else_fails_has_failed(tmp_path: Path, failed: str, program: str) -> None:
    code, counts, said = look_again(tmp_path, failed, program)

    assert (code, counts["failed"], counts["unstable"]) == (1, 1, 0)
    assert "UNSTABLE" not in said
