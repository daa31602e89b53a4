"""Each measurement that bench/README.md names starts as it says there: from the repository, with nothing set."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
NAMED = sorted(set(re.findall(r"`python -m (bench\.\w+)", (REPOSITORY / "bench" / "README.md").read_text())))
FINDS = "import importlib.util, sys; sys.exit(importlib.util.find_spec('_support') is not None)"
LOADS = "import importlib, sys; importlib.import_module(sys.argv[1])"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    plain = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, *words], cwd=REPOSITORY, env=plain, capture_output=True, text=True)


def test_what_they_share_with_the_tests_is_not_found_by_itself() -> None:
    """The control."""
    assert run("-c", FINDS).returncode == 0 and len(NAMED) > 10


@pytest.mark.parametrize("module", NAMED)
def test_it_starts(module: str) -> None:
    is_package = (REPOSITORY / module.replace(".", "/")).is_dir()
    done = run("-m", module, "--help") if is_package else run("-c", LOADS, module)
    assert done.returncode == 0, done.stderr
