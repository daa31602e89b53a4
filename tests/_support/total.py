"""Adds up the counts of several pytest runs and prints them as pytest would: the last line of tests/run and .ci/run.

python total.py COUNTS [SECONDS]      COUNTS: one JSON object for each run, as outcome.py writes them
"""

from __future__ import annotations

import json
import sys
from collections import Counter

ORDER = ("failed", "unstable", "passed", "skipped", "deselected", "xfailed", "xpassed", "error")


def total(text: str) -> Counter[str]:
    added: Counter[str] = Counter()
    for line in text.splitlines():
        added.update(json.loads(line))
    added["deselected"] = 0  # what one part of the run leaves out, the other runs
    return added


def summary(counts: Counter[str], seconds: float | None = None) -> str:
    parts = [f"{counts[kind]} {kind}" for kind in ORDER if counts[kind]] or ["no tests ran"]
    if counts["error"] > 1:
        parts[-1] += "s"
    took = "" if seconds is None else f" in {seconds:.2f}s"
    return f" {', '.join(parts)}{took} ".center(100, "=")


def main(arguments: list[str]) -> int:
    try:
        with open(arguments[0], encoding="utf-8") as file:
            counts = total(file.read())
    except FileNotFoundError:
        counts = Counter(error=1)
    print(summary(counts, float(arguments[1]) if len(arguments) > 1 else None))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
