"""Where the sources are. The package is the installed one; the rest of the repository lies around this file."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent


def _package() -> Path:
    spec = importlib.util.find_spec("pysandbox")
    assert spec is not None and spec.origin is not None, "pysandbox is not installed: run bash tests/run"
    return Path(spec.origin).parent


PACKAGE = _package()


def installed(path: Path) -> Path:
    """A path of the repository; for one of the package, where it is installed."""
    source = REPOSITORY / "pysandbox"
    resolved = Path(os.path.normpath(path))
    return PACKAGE / resolved.relative_to(source) if resolved.is_relative_to(source) else resolved


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def around() -> list[Path]:
    """The Python of the repository that is not in the package: tests, benchmarks, tools."""
    return sorted(path for folder in ("tests", "bench", "tools") for path in (REPOSITORY / folder).rglob("*.py"))


def pages() -> list[Path]:
    """Everything a user or a contributor reads: the pages at the top and those below docs/."""
    top = [REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")]
    return [*top, *sorted((REPOSITORY / "docs").rglob("*.md"))]
