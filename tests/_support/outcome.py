"""Skips that count, and the totals that tests/run prints when it has run the suite in two parts.

With PSB_REQUIRE=all a skip is a failure, at collection as well: on a machine that claims to have everything, a test
that did not run proves nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

FAILED = pytest.StashKey[
    bool
]()  # on an item whose call has failed: its frames live on in the report, with all they hold
KINDS = ("failed", "passed", "skipped", "deselected", "xfailed", "xpassed", "error")


def skips_fail() -> bool:
    return os.environ.get("PSB_REQUIRE") == "all"


def refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turns a skip into a failure that names the reason. An expected failure is no skip."""
    if report.outcome != "skipped" or hasattr(report, "wasxfail") or not skips_fail():
        return
    where = report.longrepr
    reason = where[2] if isinstance(where, tuple) else str(where)
    report.outcome = "failed"
    report.longrepr = f"PSB_REQUIRE=all: {report.nodeid} was skipped: {reason}"


class Outcome:
    """The pytest plugin; registered by conftest.py."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        refuse_skip(report)
        if report.failed:
            item.stash[FAILED] = True
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        refuse_skip(report)
        return report

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        skipped = terminalreporter.stats.get("skipped", [])
        if skipped:
            terminalreporter.section(f"{len(skipped)} skipped")
            for each in skipped:
                reason = each.longrepr[2] if isinstance(each.longrepr, tuple) else each.longrepr
                terminalreporter.write_line(f"{each.nodeid}: {reason}")
        file = os.environ.get("PSB_COUNTS")
        if file:
            counts = {kind: len(terminalreporter.stats.get(kind, [])) for kind in KINDS}
            with open(file, "a", encoding="utf-8") as out:
                out.write(json.dumps(counts) + "\n")
        file = os.environ.get("PSB_FAILED")
        if file:
            Path(file).write_text(
                "".join(f"{each}\n" for each in _worth_a_second_look(terminalreporter.stats)), "utf-8"
            )


def _worth_a_second_look(stats: Mapping[str, list[Any]]) -> list[str]:
    """What failed, as `KIND NODE_ID`; nothing when a file could not even be read: then tests are missing."""
    failed = [(kind, each) for kind in ("failed", "error") for each in stats.get(kind, [])]
    if any(each.when == "collect" for _, each in failed):
        return []
    return [f"{kind} {each.nodeid}" for kind, each in failed]
