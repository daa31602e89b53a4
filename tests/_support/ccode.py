"""Small static C programs for what Python cannot say: raw system calls, other ABIs, no libc start-up.

Each distinct source is compiled once and kept in the temporary directory, by digest, for the whole run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

FLAGS = ("-std=gnu11", "-O1", "-static", "-Wall", "-Werror=implicit-function-declaration")


def compile_c(source: str, *flags: str) -> Path:
    """The path of the compiled program; grant it to a cage with `allow=[str(path)]`."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is missing: apt-get install gcc libc6-dev")
    folder = Path(tempfile.gettempdir()) / f"psb-compiled-{os.getuid()}"
    folder.mkdir(mode=0o755, exist_ok=True)
    program = folder / hashlib.sha256("\0".join((source, *flags)).encode()).hexdigest()[:24]
    if not program.exists():
        fresh = program.with_suffix(f".{os.getpid()}")
        command = [compiler, *FLAGS, *flags, "-x", "c", "-", "-o", str(fresh)]
        done = subprocess.run(command, input=source, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"the test's C program does not compile:\n{done.stderr}")
        fresh.replace(program)
    return program
