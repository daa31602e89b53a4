"""Runs of the command line one after the other, in a home of their own: whether a Python was started for each."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT = 60  # seconds after which a test is stuck

COMMAND = shutil.which("pysandbox", path=str(Path(sys.executable).parent)) or "pysandbox"
PYTHON = "a Python started"
BESIDE = "beside the launcher"
TELLS = f"""
import os, sys
try:
    where = "{BESIDE}" if "beside" in sys.orig_argv[2:4] else "{PYTHON}"
    os.write(int(os.environ["PSB_TELL"]), where.encode() + b"\\n")
except (KeyError, OSError):
    pass
"""


@dataclass
class Ran:
    code: int
    stdout: bytes
    stderr: bytes
    warm: bool  # no Python was started
    served: bool  # one was started while the command ran, by the launcher, and no other
    told: list[str]  # each Python that was started, PYTHON or BESIDE


class Home:
    """A user's home with its cache, and a project to run commands in."""

    def __init__(self, root: Path) -> None:
        self.cache, self.project = root / "home" / ".cache" / "pysandbox", root / "project"
        (root / "home").mkdir()
        self.project.mkdir()
        self.env = os.environ | {"HOME": str(root / "home"), "PSB_WORD": "before"}
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "PYSANDBOX_AUDIT"):
            self.env.pop(name, None)
        (root / "runtime").mkdir(mode=0o700)
        self.env["XDG_RUNTIME_DIR"] = str(root / "runtime")
        self.recipes = root / "home" / ".config" / "pysandbox" / "recipes"
        (root / "tells").mkdir()
        (root / "tells" / "sitecustomize.py").write_text(TELLS)  # the first thing that an interpreter imports
        self.env["PYTHONPATH"] = str(root / "tells")
        self.audit = root / "home" / ".local" / "state" / "pysandbox" / "audit" / "events.jsonl"

    def run(self, *arguments: str, input: bytes = b"", **variables: str) -> Ran:
        read, write = os.pipe()
        try:
            done = subprocess.run(
                [COMMAND, "run", *arguments],
                cwd=self.project,
                env=self.env | variables | {"PSB_TELL": str(write)},
                input=input,
                capture_output=True,
                timeout=LIMIT,
                pass_fds=(write,),
            )
        finally:
            os.close(write)
        with open(read, "rb") as told:
            said = told.read().decode().splitlines()
        return Ran(done.returncode, done.stdout, done.stderr, warm=not said, served=said == [BESIDE], told=said)

    def run_by_python(self, *arguments: str, input: bytes = b"") -> Ran:
        """From its start to its end, and nothing is kept; nothing may be kept before, either."""
        return self.run(*arguments, input=input, PYSANDBOX_JUST_KEPT="1")

    def until_warm(self, *arguments: str) -> Ran:
        """What was written a moment ago is not kept: the run after it is the one that keeps it."""
        for _ in range(10):
            ran = self.run(*arguments)
            if ran.warm:
                return ran
        raise AssertionError(f"never warm: {arguments}, {ran}")

    def keep(self, *arguments: str) -> None:
        """Runs it until its plan is kept, whatever it needs besides."""
        for _ in range(10):
            ran = self.run(*arguments)
            if ran.warm or ran.served:
                return
        raise AssertionError(f"never kept: {arguments}, {ran}")

    def recipe(self, directory: Path, said: str, extra: str = "") -> None:
        """One of the name `word`, in a directory of recipes."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "word.toml").write_text(f'{extra}[process]\nenv = {{ SAID = "{said}" }}\n')

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit.read_text().splitlines()]

    def python(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "pysandbox", *arguments]
        return subprocess.run(
            command, cwd=self.project, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT
        )

    @property
    def entries(self) -> list[Path]:
        return sorted(self.cache.iterdir()) if self.cache.exists() else []


def write_script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def is_alive(pid: int) -> bool:
    """One that has ended, and whom nobody has waited for yet, is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


DIFFERS = {"invocation_id", "duration_ms", "user_ms", "system_ms", "max_rss_kb"}  # between any two runs


def story(records: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """What was told, without what differs between two runs."""
    told = []
    for record in records:
        data = {name: each for name, each in record["data"].items() if name not in DIFFERS}
        if summary := data.get("cage_summary"):
            data["cage_summary"] = summary.replace(record["data"]["invocation_id"][:6], "ID")
        told.append((record["type"], data))
    return told
