"""Puts a policy in force and takes it out again, with the tools of the system. Needs root; knows no terminal.

The order is the safety: a policy is compiled first, loaded second and kept on disk last, and each step that fails
undoes what came before it. A file appears under its name complete or not at all.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from pysandbox.setup import apparmor, selinux
from pysandbox.setup.target import InstallTarget

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"  # never the caller's: what runs here runs as root
LOADED = "/sys/kernel/security/apparmor/profiles"
SECONDS = 300  # semodule rebuilds the whole policy of the system

TOOLS: dict[str, dict[str, str]] = {  # each with the packages it comes in
    "AppArmor": {"apparmor_parser": "apparmor"},
    "SELinux": {
        "checkmodule": "checkpolicy",
        "semodule_package": "policycoreutils (Fedora) or semodule-utils (Debian)",
        "semodule": "policycoreutils",
        "restorecon": "policycoreutils",
    },
}


class SetupError(Exception):
    """A policy could not be installed or removed. `str()` says what failed, and what to do where that is known."""


def find_tools(mac: str) -> dict[str, str]:
    """Every tool of TOOLS[mac] by its path. Raises SetupError with the package of each that is missing."""
    found = {name: shutil.which(name, path=PATH) for name in TOOLS[mac]}
    missing = [f"{name} (package {package})" for name, package in TOOLS[mac].items() if not found[name]]
    if missing:
        raise SetupError(f"not found: {', '.join(missing)}; install it and try again")
    return {name: path for name, path in found.items() if path}


def install(mac: str, files: Mapping[str, str], target: InstallTarget) -> None:
    """Puts the policy in force. Raises SetupError; then none is half installed."""
    _with(INSTALLERS, mac, files, target)


def remove(mac: str, files: Mapping[str, str], target: InstallTarget) -> None:
    """Takes the policy out of force and off the disk. Raises SetupError."""
    _with(REMOVERS, mac, files, target)


Step = Callable[[dict[str, str], Mapping[str, str], InstallTarget], None]


def _with(steps: Mapping[str, Step], mac: str, files: Mapping[str, str], target: InstallTarget) -> None:
    tools = find_tools(mac)
    try:
        steps[mac](tools, files, target)
    except OSError as error:
        raise SetupError(f"{error.filename or mac}: {error.strerror}") from None


# ---- AppArmor ------------------------------------------------------------------------------------------------


def _install_apparmor(tools: dict[str, str], files: Mapping[str, str], target: InstallTarget) -> None:
    parser = tools["apparmor_parser"]
    ((path, text),) = files.items()
    with _Draft(path, text) as draft:  # beside its place; a name with a dot is read by nobody
        _run(parser, "--skip-kernel-load", "--skip-cache", draft.path)
        _run(parser, "--replace", "--skip-cache", draft.path)
        draft.keep()


def _remove_apparmor(tools: dict[str, str], files: Mapping[str, str], target: InstallTarget) -> None:
    for name in _loaded():
        _run(tools["apparmor_parser"], "--remove", text=f"profile {name} {{}}\n")
    for path in files:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _loaded() -> list[str]:
    """Which of our profiles the kernel has; all of them where it does not tell. The interpreter's is the last: we may
    run under it, and whose own profile is gone is not let near the policy any more."""
    ours = [apparmor.CAGED, apparmor.HOST]
    try:
        with open(LOADED) as file:
            names = {line.rpartition(" (")[0] for line in file}
    except OSError:
        return ours
    return [name for name in ours if name in names]


# ---- SELinux -------------------------------------------------------------------------------------------------


def _install_selinux(tools: dict[str, str], files: Mapping[str, str], target: InstallTarget) -> None:
    with tempfile.TemporaryDirectory(prefix="pysandbox-") as work:
        package = compile_module(tools, files, work)
        _run(tools["semodule"], "--install", package)
    try:
        _run(tools["restorecon"], "-F", target.interpreter, target.init)
        for path, text in files.items():
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            with _Draft(path, text) as draft:
                draft.keep()
    except (OSError, SetupError):
        with suppress(SetupError):
            _remove_selinux(tools, files, target)
        raise


def compile_module(tools: Mapping[str, str], files: Mapping[str, str], work: str) -> str:
    """The path of pysandbox.pp, made in `work` from the .te and the .fc."""
    source, compiled, package = (f"{work}/{selinux.NAME}.{suffix}" for suffix in ("te", "mod", "pp"))
    for path, text in files.items():
        Path(work, os.path.basename(path)).write_text(text, encoding="utf-8")
    _run(tools["checkmodule"], "-M", "-m", "-o", compiled, source)
    _run(tools["semodule_package"], "-o", package, "-m", compiled, "-f", f"{work}/{selinux.NAME}.fc")
    return package


def _remove_selinux(tools: dict[str, str], files: Mapping[str, str], target: InstallTarget) -> None:
    _run(tools["semodule"], "--remove", selinux.NAME)
    for path in files:
        with suppress(FileNotFoundError):
            os.unlink(path)
        with suppress(OSError):  # not empty yet, or never made
            os.rmdir(os.path.dirname(path))
    _run(tools["restorecon"], "-F", target.interpreter, target.init)


INSTALLERS: dict[str, Step] = {"AppArmor": _install_apparmor, "SELinux": _install_selinux}
REMOVERS: dict[str, Step] = {"AppArmor": _remove_apparmor, "SELinux": _remove_selinux}


# ---- the world -----------------------------------------------------------------------------------------------


class _Draft:
    """A file beside its place, complete and on disk; `keep` renames it there, leaving without it removes it."""

    def __init__(self, path: str, text: str) -> None:
        self._path, self._text = path, text
        self.path = ""

    def __enter__(self) -> _Draft:
        directory, name = os.path.split(self._path)
        fd, self.path = tempfile.mkstemp(prefix=f".{name}.", dir=directory)
        with open(fd, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(self._text)
            file.flush()
            os.fsync(file.fileno())
        return self

    def keep(self) -> None:
        os.replace(self.path, self._path)

    def __exit__(self, *error: object) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.path)


def _run(*command: str, text: str = "") -> None:
    """Runs a tool, with `text` to read; SetupError with what it said when it fails."""
    environment = {"PATH": PATH, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace", env=environment,
            timeout=SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise SetupError(f"{os.path.basename(command[0])} did not end within {SECONDS} s") from None
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())
        raise SetupError(f"{os.path.basename(command[0])} failed with exit code {done.returncode}: {said}")
