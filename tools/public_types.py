"""Asks pyright how much of the public surface has a type: `pyright --verifytypes`, judged name by name.

    python tools/public_types.py    with pyright beside this interpreter (the `lint` extra)

Public is what `__all__` of `pysandbox` and of the modules in PUBLIC names, and every member of such a class that does
not begin with an underscore. The package has thousands of names besides, since its modules have no underscore; what
they leave to inference is told of here where it shows in the surface, and nowhere else. A docstring is not a type.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PUBLIC = (
    "pysandbox", "pysandbox.apps", "pysandbox.audit.log", "pysandbox.audit.runs", "pysandbox.errors",
    "pysandbox.events", "pysandbox.policy.compose", "pysandbox.testing",
)  # fmt: skip
# What pyright says of a name because of another one, which has its own line; and what is not about types.
ECHOES = ("is partially unknown", "No docstring found", "Docstring")


def source(module: str) -> Path:
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def exported(module: str) -> list[str]:
    """`__all__`, read and not run."""
    for node in ast.parse(source(module).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    raise SystemExit(f"{module} has no __all__")


def homes() -> set[str]:
    """Each public name by the module that defines it: a name of `pysandbox` is imported there from its own."""
    found = {f"{module}.{name}" for module in PUBLIC[1:] for name in exported(module)}
    where = {
        alias.asname or alias.name: node.module
        for node in ast.walk(ast.parse(source("pysandbox").read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return found | {f"{where[name]}.{name}" for name in exported("pysandbox")}


def verified() -> dict[str, Any]:
    """Pyright's report. It looks for a package where an interpreter would: one is made that finds it here."""
    with tempfile.TemporaryDirectory() as directory:
        venv.create(directory, symlinks=True)
        packages = next(Path(directory).glob("lib/python*/site-packages"))
        (packages / "pysandbox-source.pth").write_text(f"{ROOT}\n")
        command = [str(Path(sys.executable).parent / "pyright"), "--verifytypes", "pysandbox", "--ignoreexternal"]
        path = f"{directory}/bin:{os.environ['PATH']}"
        done = subprocess.run([*command, "--outputjson"], cwd=directory, env={**os.environ, "PATH": path},
                              capture_output=True, text=True)  # fmt: skip
    report: dict[str, Any] = json.loads(done.stdout)["typeCompleteness"]
    if not report["symbols"]:
        sys.exit(f"pyright did not find the package: {done.stdout[:2000]}{done.stderr}")
    return report


def judged(symbols: list[dict[str, Any]], public: set[str]) -> Iterator[str]:
    """A line for each public name that lacks a type, and for each that pyright does not know at all."""
    names = {each["name"] for each in symbols}
    yield from (f"{name}: pyright has not seen it" for name in sorted(public - names))
    for each in symbols:
        parts = each["name"].split(".")
        above = {".".join(parts[:count]) for count in range(1, len(parts) + 1)}
        if not above & public or (parts[-1].startswith("_") and not parts[-1].startswith("__")):
            continue
        for diagnostic in each["diagnostics"]:
            message = " ".join(diagnostic["message"].split())
            if not any(echo in message for echo in ECHOES):
                yield f"{each['name']}: {message}"


def main() -> int:
    public = homes()
    told = list(judged(verified()["symbols"], public))
    print("\n".join(told) or f"each of the {len(public)} public names, and every member of it, has a type")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
