"""Golden files: `golden("plans/base-6.1.txt", text)` compares with tests/golden/plans/base-6.1.txt.

`--update-golden` writes what is there now instead; read the diff before you commit it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "golden"


@dataclass(frozen=True)
class Golden:
    update: bool

    def __call__(self, name: str, text: str) -> None:
        path = FOLDER / name
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"{path} does not exist: run the suite with --update-golden and review what it writes"
        assert text == path.read_text(encoding="utf-8"), f"{name} has changed; if it should, run with --update-golden"
