from __future__ import annotations

import pytest

from pysandbox.probe import paths


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every name that is examined from now on."""
    met: list[str] = []
    examine = paths._examine

    def counted(here: str) -> paths.PathEntry:
        met.append(here)
        return examine(here)

    monkeypatch.setattr(paths, "_examine", counted)
    return met
