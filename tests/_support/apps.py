"""Apps for tests: a package of a program and a manifest, in memory, with a grant for it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pysandbox.apps import App, AppOutcome, AppPackage, Budget, Kernel
from pysandbox.apps.package import PackageFile

Instructions = Sequence[Sequence[Any]]


def manifest(**changes: Any) -> dict[str, Any]:
    return {
        "app_id": "notes.app",
        "version": "1.0",
        "entrypoint": "main.json",
        "requested_capabilities": ["fs.use"],
        "resource_scopes": {"fs_prefixes": ["docs"]},
        **changes,
    }


def package(instructions: Instructions = (["HALT"],), **changes: Any) -> AppPackage:
    files = {
        "app.json": json.dumps(manifest(**changes)),
        "main.json": json.dumps({"program": [list(each) for each in instructions]}),
    }
    return AppPackage({name: PackageFile(text.encode(), False) for name, text in sorted(files.items())})


def write(place: Path, instructions: Instructions = (["HALT"],), **changes: Any) -> Path:
    place.mkdir(exist_ok=True)
    for name, file in package(instructions, **changes).files.items():
        (place / name).write_bytes(file.content)
    return place


def ran(
    instructions: Instructions, kernel: Kernel | None = None, budget: Budget | None = None, **changes: Any
) -> AppOutcome:
    """What is left of a debug run of that program with all that its manifest asks for."""
    return App.debug(package(instructions, **changes)).run(kernel, debug=True, budget=budget or Budget())


def reasons(outcome: AppOutcome) -> list[str]:
    return [each.deny_reason for each in outcome.log]


def constants(values: Mapping[int, object]) -> list[list[object]]:
    return [["CONST", register, value] for register, value in values.items()]
