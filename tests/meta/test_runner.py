"""tests/run and .ci/run end in one line that reads like pytest's own, whatever the parts were."""

from __future__ import annotations

from collections import Counter

from _support.total import summary, total


def test_the_parts_of_a_run_are_added_up() -> None:
    text = '{"passed": 8, "failed": 1, "deselected": 2}\n{"passed": 2, "skipped": 1, "deselected": 8}\n'
    assert summary(total(text), 1.5).strip("= ") == "1 failed, 10 passed, 1 skipped in 1.50s"


def test_a_run_without_tests_says_so() -> None:
    assert summary(Counter()).strip("= ") == "no tests ran"
