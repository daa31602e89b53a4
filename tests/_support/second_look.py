"""A test that failed is run again alone, when all the others are done: one that then passes every time is unstable.

python second_look.py FAILED COUNTS COMMAND...     FAILED: lines `KIND NODE_ID`, by outcome.py; COMMAND: pytest

The suite runs thousands of programs on machines that do other things too, and a test in ten thousand loses a race with
them. That is a defect of the test, or of what it tests, and is told by name in the last lines; it does not hide what
the other tests have shown. Whatever fails again in any of ROUNDS has failed, and so have more than MOST at once: what
breaks that many is not chance.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

MOST = 3
ROUNDS = 3


def second_look(failed: Path, counts: Path, command: list[str]) -> int:
    """0 when whatever had failed has passed ROUNDS times; the counts then say so."""
    lines = failed.read_text(encoding="utf-8").splitlines() if failed.exists() else []
    kinds = Counter(line.partition(" ")[0] for line in lines)
    tests = list(dict.fromkeys(line.partition(" ")[2] for line in lines))  # one may fail in its call and behind it
    if not 0 < len(tests) <= MOST:
        return 1
    for number in range(1, ROUNDS + 1):
        print(f"second look, {number} of {ROUNDS}: {', '.join(tests)}", flush=True)
        if subprocess.run([*command, *tests], env=_without_totals(), check=False).returncode:
            return 1
    corrected = {kind: -count for kind, count in kinds.items()} | {"unstable": len(tests)}
    with counts.open("a", encoding="utf-8") as out:
        out.write(json.dumps(corrected) + "\n")
    for test in tests:
        print(f"UNSTABLE {test}: failed once, then passed {ROUNDS} times alone", flush=True)
    return 0


def _without_totals() -> dict[str, str]:
    """What a round counts belongs to no total."""
    return {name: value for name, value in os.environ.items() if name not in {"PSB_COUNTS", "PSB_FAILED"}}


if __name__ == "__main__":
    sys.exit(second_look(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]))
