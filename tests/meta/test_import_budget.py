"""`import pysandbox` costs next to nothing: whoever only defines a policy pays for no event loop and no parser."""

from __future__ import annotations

import ast
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pysandbox

PACKAGE = Path(pysandbox.__file__).parent
FORBIDDEN = ("asyncio", "ssl", "pyroute2", "pyseccomp", "tomllib", "argparse", "cffi", "pycparser", "logging")
BUDGET = 0.015  # seconds over an empty interpreter; medians of interleaved runs, so that load falls on both alike
ROUNDS = 9
EVERYDAY = "from pysandbox import Cage, Policy, run"


def seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - began


def test_importing_the_package_loads_no_heavy_module() -> None:
    code = "import json, sys; old = set(sys.modules); import pysandbox; print(json.dumps([*set(sys.modules) - old]))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    heavy = sorted(name for name in loaded if name.partition(".")[0] in FORBIDDEN)
    assert not heavy, f"import pysandbox loads {heavy}"


def test_what_every_program_imports_of_it_needs_no_machinery_of_types() -> None:
    """`pysandbox.shapes` has the words; whoever imports the standard ones here makes every start slower."""
    code = f"import sys; {EVERYDAY}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert {"typing", "dataclasses", "inspect", "pysandbox.runtime", "pysandbox.compile"} & {*loaded} == set()


def test_whoever_has_no_detector_of_his_own_does_not_load_what_reads_one() -> None:
    code = "import sys; from pysandbox import Policy; Policy(dlp_enabled=True, hosts=['a.example']).to_toml(); "
    last = "print(*[each for each in sys.modules if each.endswith(('.own_detector', '.policy.expression'))])"
    one = "Policy(dlp_detectors=[{'name': 'acme', 'pattern': 'acme_[a-z]{9}'}]); "
    without, with_one = (
        subprocess.run([sys.executable, "-c", each], check=True, capture_output=True, text=True).stdout.split()
        for each in (code + last, code + one + last)
    )
    assert without == [] and len(with_one) == 2


SLOW = {"typing", "dataclasses", "inspect"}
FOR_CHECKERS = {"keywords.py", "policy/keywords.py", "policy/accepted.py"}  # nothing else is in them
AT_LEISURE = {"shapes/standard.py", "cli/document.py", "supervise/policy_fn.py"}  # for --json, for callbacks


def test_the_words_of_types_come_from_shapes() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        for node in ast.parse(path.read_text()).body if name not in FOR_CHECKERS | AT_LEISURE else []:
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
            found += [f"{name}:{node.lineno}: {each}" for each in names if each in SLOW]
    assert not found, f"import these words from pysandbox.shapes: {found}"


def cpu(code: str) -> float:
    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    began = used()
    subprocess.run([sys.executable, "-c", code], check=True)
    return used() - began


def test_what_every_program_imports_of_it_costs_less_than_an_event_loop() -> None:
    rounds = [[cpu(code) for code in ("pass", "import asyncio", EVERYDAY)] for _ in range(ROUNDS)]
    empty, loop, ours = (min(column) for column in zip(*rounds, strict=True))  # a busy machine only adds
    assert ours - empty <= 0.6 * (loop - empty), f"{(ours - empty) / (loop - empty):.2f} of import asyncio"


def test_importing_the_package_stays_within_its_budget() -> None:
    pairs = [(seconds("pass"), seconds("import pysandbox")) for _ in range(ROUNDS)]
    empty, imported = (statistics.median(column) for column in zip(*pairs, strict=True))
    # On a slow machine everything is slow: the empty interpreter (10-15 ms where the budget was set) is the yardstick.
    allowed = max(BUDGET, BUDGET * empty / 0.012)
    assert imported - empty <= allowed, (
        f"{1000 * (imported - empty):.1f} ms over an empty interpreter's {1000 * empty:.1f}"
    )
