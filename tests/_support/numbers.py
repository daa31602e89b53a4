"""numpy and pyarrow, imported before any test is looked at: the threads that they start then count as left by none."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest


def imported(name: str) -> Any:
    """For a test file's top. None where the module is not installed."""
    if find_spec(name) is None:
        return None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENBLAS_NUM_THREADS", "1")  # read at its import
        return import_module(name)
