"""`import pysandbox` costs next to nothing: whoever only defines a policy pays for no event loop and no parser."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

FORBIDDEN = ("asyncio", "ssl", "pyroute2", "pyseccomp", "tomllib", "argparse", "cffi", "pycparser", "logging")
BUDGET = 0.015  # seconds over an empty interpreter; medians of interleaved runs, so that load falls on both alike
ROUNDS = 9


def seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def test_importing_the_package_loads_no_heavy_module() -> None:
    code = "import json, sys; old = set(sys.modules); import pysandbox; print(json.dumps([*set(sys.modules) - old]))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    heavy = sorted(name for name in loaded if name.partition(".")[0] in FORBIDDEN)
    assert not heavy, f"import pysandbox loads {heavy}"


def test_importing_the_package_stays_within_its_budget() -> None:
    pairs = [(seconds("pass"), seconds("import pysandbox")) for _ in range(ROUNDS)]
    empty, imported = (statistics.median(column) for column in zip(*pairs, strict=True))
    # On a slow machine everything is slow: the empty interpreter (10-15 ms where the budget was set) is the yardstick.
    allowed = max(BUDGET, BUDGET * empty / 0.012)
    assert imported - empty <= allowed, (
        f"{1000 * (imported - empty):.1f} ms over an empty interpreter's {1000 * empty:.1f}"
    )
