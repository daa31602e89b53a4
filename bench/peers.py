"""The other sandboxes that happen to be on this machine, each asked for the same: run /bin/true seeing the system
read-only, with a private /tmp and no network, everything unshared that it can unshare.

A peer that is absent is left out; one that is here and fails is reported with its own words, never silently dropped.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from bench.subjects import TRUE, Subject

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache")


def system_paths() -> Iterator[Path]:
    return (path for path in map(Path, SYSTEM) if path.exists())


def bwrap() -> list[str]:
    """Symlinks of a merged /usr are made again, since bwrap would bind their targets twice."""
    binds: list[str] = []
    for path in system_paths():
        binds += (
            ["--symlink", str(path.readlink()), str(path)] if path.is_symlink() else ["--ro-bind", str(path), str(path)]
        )
    return [
        "bwrap",
        "--unshare-all",
        "--die-with-parent",
        *binds,
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/tmp",
    ]


def firejail() -> list[str]:
    return ["firejail", "--quiet", "--noprofile", "--net=none", "--private", "--private-tmp", "--private-dev",
            "--caps.drop=all", "--nonewprivs", "--noroot", "--seccomp", "--read-only=/", "--"]  # fmt: skip


def nsjail() -> list[str]:
    binds = [part for path in system_paths() for part in ("-R", str(path))]
    return ["nsjail", "-Mo", "-Q", *binds, "-T", "/tmp", "--"]


COMMANDS = {"bwrap": bwrap, "firejail": firejail, "nsjail": nsjail}


def peers() -> tuple[list[Subject], list[str]]:
    """Those that work here, and a line about each that is installed and does not."""
    working, broken = [], []
    for subject in (*_programs(), *_sandlock()):
        try:
            subject.sample()
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            broken.append(f"{subject.label}: {_words(error)}")
        else:
            working.append(subject)
    return working, broken


def _programs() -> Iterator[Subject]:
    for name, command in COMMANDS.items():
        if shutil.which(name):
            argv = [*command(), *TRUE]
            yield Subject(name, name, partial(_run, argv))


def _run(argv: list[str]) -> None:
    subprocess.run(argv, check=True, capture_output=True, timeout=10)


def _sandlock() -> Iterator[Subject]:
    if find_spec("sandlock") is None:
        return
    from sandlock import Sandbox

    readable = [str(path) for path in (*system_paths(), Path("/proc"), Path("/dev"))]

    def sample() -> None:
        result = Sandbox(fs_readable=readable, fs_writable=["/tmp"]).run(TRUE)
        if not result.success:
            raise RuntimeError(f"exit code {result.exit_code}: {result.stderr!r}")

    yield Subject("sandlock", "sandlock", sample)


def _words(error: Exception) -> str:
    said = error.stderr.decode(errors="replace") if isinstance(error, subprocess.CalledProcessError) else str(error)
    return " ".join(said.split())[:200] or repr(error)
