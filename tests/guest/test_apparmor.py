"""AppArmor with the real module: what it takes away is named, and a profile for the interpreter gives it back.

Debian has no kernel.apparmor_restrict_unprivileged_userns; what Ubuntu does with it (a user namespace is made,
and has no power) is a profile without capabilities and mounts. It is loaded for one interpreter, a copy of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.root

NOBODY = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--")
# As on Ubuntu for programs without a profile: everything but power in a user namespace.
POWERLESS = "profile psb-guest {interpreter} {{\n  file,\n  network,\n  signal,\n  unix,\n  ptrace,\n}}\n"
FREE = "profile psb-guest {interpreter} flags=(unconfined) {{\n}}\n"


@pytest.fixture
def interpreter() -> Iterator[Path]:
    """A Python of its own that everybody may run, so that no other program of this machine meets its profile."""
    directory = Path(tempfile.mkdtemp(prefix="psb-apparmor-"))
    directory.chmod(0o755)
    copy = directory / "python3"
    shutil.copy(os.path.realpath(sys.executable), copy)
    yield copy
    subprocess.run(["apparmor_parser", "--remove"], input="profile psb-guest {}\n", text=True, capture_output=True)
    shutil.rmtree(directory)


def load(profile: str, interpreter: Path) -> None:
    text = profile.format(interpreter=interpreter)
    command = ["apparmor_parser", "--replace", "--skip-cache"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def cli(interpreter: Path, *arguments: str, user: tuple[str, ...] = NOBODY) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "PYTHONPATH": sysconfig.get_path("purelib")}
    return subprocess.run(
        [*user, str(interpreter), "-m", "pysandbox", *arguments],
        env=environment, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def runs(interpreter: Path) -> bool:
    done = cli(interpreter, "run", "--", "/bin/echo", "caged")
    return (done.returncode, done.stdout) == (0, "caged\n")


def test_apparmor_is_in_force_here() -> None:
    assert Path("/sys/module/apparmor/parameters/enabled").read_text().strip() == "Y"


def test_without_a_profile_cages_run(interpreter: Path) -> None:
    assert runs(interpreter)


def test_a_user_namespace_without_power_is_named_and_a_profile_gives_it_back(interpreter: Path) -> None:
    load(POWERLESS, interpreter)
    found = json.loads(cli(interpreter, "check", "--json").stdout)
    refused = cli(interpreter, "run", "--", "/bin/echo", "caged")
    missing = {row["name"] for row in found["features"] if row["required"] and not row["ok"]}

    assert (found["mac"], found["minimum_met"]) == ("AppArmor", False) and "mount_namespaces" in missing
    assert (refused.returncode, refused.stdout) == (125, "") and "pysandbox check" in refused.stderr

    load(FREE, interpreter)
    assert json.loads(cli(interpreter, "check", "--json").stdout)["minimum_met"] and runs(interpreter)


def has_setup(interpreter: Path) -> bool:
    return cli(interpreter, "setup", "--help").returncode == 0


@pytest.fixture
def writable_profiles() -> Iterator[None]:
    """/etc/apparmor.d of the guest: read-only as everything, so a copy in memory lies over it for a while."""
    with tempfile.TemporaryDirectory(prefix="psb-profiles-") as copy:
        shutil.copytree("/etc/apparmor.d", copy, dirs_exist_ok=True, symlinks=True)
        subprocess.run(["mount", "--bind", copy, "/etc/apparmor.d"], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", "/etc/apparmor.d"], check=True)


def test_setup_installs_a_profile_under_which_cages_run(interpreter: Path, writable_profiles: None) -> None:
    if not has_setup(interpreter):  # a version without the command: its profile is the reader's own, by hand
        load(FREE, interpreter)
        assert runs(interpreter)
        return
    target = ("--interpreter", str(interpreter))
    installed = cli(interpreter, "setup", "--force", "--yes", *target, user=())
    try:
        assert installed.returncode == 0, installed.stderr
        assert "pysandbox" in Path("/sys/kernel/security/apparmor/profiles").read_text()
        assert runs(interpreter)
    finally:
        removed = cli(interpreter, "setup", "--remove", "--yes", *target, user=())
    assert removed.returncode == 0, removed.stderr
