"""What a guest told, and the table of all of them.

A guest writes lines of JSON: that it is ready, how each part of the run ended, and the counts that the suite itself
keeps (tests/_support/outcome.py). A skip is a failure there already (PSB_REQUIRE=all): what a kernel lacks is asserted.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass

COLUMNS = ("passed", "failed", "unstable", "skipped")
NOTHING_COLLECTED = 5  # pytest's exit code
FAILURES = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$.*", re.MULTILINE | re.DOTALL)
PANIC = (
    "Kernel panic"  # what the console of a guest says whose kernel died; with it the tests ended, wherever they were
)
TAIL = 40  # lines of the console, where the suite did not say what failed


@dataclass(frozen=True, slots=True)
class Outcome:
    kernel: str
    counts: Counter[str]
    exits: tuple[int, ...]  # of the parts that came to their end
    seconds: float
    in_time: bool
    said: str

    @property
    def ok(self) -> bool:
        """Both parts ran, something passed, and nothing else happened."""
        ended = len(self.exits) == 2 and set(self.exits) <= {0, NOTHING_COLLECTED}
        bad = sum(self.counts[kind] for kind in ("failed", "error", "skipped", "xpassed"))
        return self.in_time and ended and self.counts["passed"] > 0 and not bad

    @property
    def panicked(self) -> bool:
        """The kernel died under the tests: no word about what they test."""
        return self.in_time and len(self.exits) < 2 and PANIC in self.said

    @property
    def failed(self) -> int:
        return self.counts["failed"] + self.counts["error"]

    def why(self) -> str:
        """The part of the console that explains a failure."""
        if not self.in_time:
            return f"{self.kernel}: not done in time; the console ends with\n{self._tail()}"
        found = FAILURES.search(self.said)
        return f"{self.kernel}:\n{found.group() if found else self._tail()}"

    def _tail(self) -> str:
        return "\n".join(self.said.splitlines()[-TAIL:])


def outcome(kernel: str, told: str, said: str, seconds: float, *, in_time: bool) -> Outcome:
    counts: Counter[str] = Counter()
    exits = []
    for line in told.splitlines():
        try:
            fact = json.loads(line)
        except ValueError:  # a line that the deadline cut off
            continue
        if "exit" in fact:
            exits.append(fact["exit"])
        elif "ready" not in fact:
            counts.update(fact)
    return Outcome(kernel, counts, tuple(exits), seconds, in_time, said)


def table(outcomes: list[Outcome]) -> str:
    lines = [f"{'kernel':<10}" + "".join(f"{column:>9}" for column in (*COLUMNS, "seconds"))]
    for each in outcomes:
        cells = (
            each.counts["passed"], each.failed, each.counts["unstable"], each.counts["skipped"], round(each.seconds)
        )  # fmt: skip
        verdict = "" if each.ok else "  FAILED" if each.in_time else "  TIMED OUT"
        lines.append(f"{each.kernel:<10}" + "".join(f"{cell:>9}" for cell in cells) + verdict)
    return "\n".join(lines)
