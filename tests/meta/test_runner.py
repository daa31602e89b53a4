"""tests/run and .ci/run end in one line that reads like pytest's own, whatever the parts were."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

from _support.total import summary, total

RUNNER = Path(__file__).parents[1] / "run"
NOBODYS_UID = 4242424


def test_the_parts_of_a_run_are_added_up() -> None:
    text = '{"passed": 8, "failed": 1, "deselected": 2}\n{"passed": 2, "skipped": 1, "deselected": 8}\n'
    assert summary(total(text), 1.5).strip("= ") == "1 failed, 10 passed, 1 skipped in 1.50s"


def test_a_run_without_tests_says_so() -> None:
    assert summary(Counter()).strip("= ") == "no tests ran"


def test_an_account_that_runs_nothing_any_more_is_no_failure() -> None:
    """`ps` ends with 1 when it finds nobody, and the runner stops at the first failure."""
    function = re.search(r"^end_leftovers\(\) \{.*?^\}", RUNNER.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert function is not None
    script = f"set -euo pipefail\nmade_account=yes uid={NOBODYS_UID}\n{function[0]}\nend_leftovers\necho went on"
    said = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=False)
    assert (said.returncode, said.stdout) == (0, "went on\n"), said.stderr
