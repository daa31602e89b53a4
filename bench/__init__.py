"""Measurements; see bench/README.md. Nothing of the package imports this.

What they share with the tests (tests/_support) is found from here, however a measurement is started.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
