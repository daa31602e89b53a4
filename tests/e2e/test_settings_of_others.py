"""CI jobs and containers: the README's first commands in each, played by `_support.settings`. A setting lets them run,
or says in one line what it lacks and what to do; never less, and never without a word.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from _support.settings import SETTINGS, command

TESTS = str(Path(__file__).parent.parent)
HELLO = ("run", "--", "python3", "-c", "print('hello from the cage')")
IN_PYTHON = "from pysandbox import run; print(run(['python3', '-c', 'print(6 * 7)']).stdout.strip())"
ALONE = (
    "from pysandbox import Cage, Policy; print(Cage(Policy(isolation='landlock')).run(['echo', '42']).stdout.strip())"
)

# What a full cage says there: "" where it runs; else words of the cause, and of what to do.
REFUSED = {
    "none": (), "rootless": (), "no landlock": (),
    "docker": ("system-call filter", "seccomp=unconfined", "landlock"),
    "no seccomp": ("no seccomp filters", "CONFIG_SECCOMP_FILTER"),
    "masked proc": ("parts of this one are hidden", "systempaths=unconfined", "landlock"),
    "no user namespaces": ("max_user_namespaces = 0", "sysctl -w", "landlock"),
    "cap-drop ALL": ("CAP_SETFCAP", "--cap-add=SETFCAP", "landlock"),
}  # fmt: skip
# What a cage without namespaces says.
REFUSED_ALONE = {
    **dict.fromkeys(SETTINGS, ()),
    "no landlock": ("no Landlock", "lsm="),
    "no seccomp": ("no seccomp filters", "CONFIG_SECCOMP_FILTER"),
}


def there(setting: str, *argv: str, project: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), TESTS)))}
    return subprocess.run(command(setting, *argv), capture_output=True, text=True, timeout=60, env=env, cwd=project)


def pysandbox(setting: str, *words: str, project: Path) -> subprocess.CompletedProcess[str]:
    return there(setting, sys.executable, "-P", "-m", "pysandbox", *words, project=project)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "policy.toml").write_text('[filesystem]\nworkdir = "read"\n[process]\nenv = { LANG = "C.UTF-8" }\n')
    return tmp_path


def test_every_setting_has_its_row() -> None:
    assert set(REFUSED) == set(REFUSED_ALONE) == set(SETTINGS)


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_first_command_runs_or_is_refused_with_cause_and_remedy(setting: str, project: Path) -> None:
    said = pysandbox(setting, *HELLO, project=project)
    if not REFUSED[setting]:
        assert (said.returncode, said.stdout) == (0, "hello from the cage\n"), said.stderr
        return
    assert (said.returncode, said.stdout) == (125, "")
    assert [word for word in REFUSED[setting] if word not in said.stderr] == []
    assert len(said.stderr.strip().splitlines()) == 1


@pytest.mark.landlock(6)
@pytest.mark.parametrize("setting", SETTINGS)
def test_the_smaller_cage_runs_where_the_error_says_that_it_does(setting: str, project: Path) -> None:
    said = pysandbox(setting, "run", "--isolation", "landlock", "--host", "pypi.org", *HELLO[1:], project=project)
    if not REFUSED_ALONE[setting]:
        assert (said.returncode, said.stdout) == (0, "hello from the cage\n"), said.stderr
        in_python = there(setting, sys.executable, "-P", "-c", ALONE, project=project)
        assert in_python.stdout == "42\n", in_python.stderr
        return
    assert said.returncode == 125
    assert [word for word in REFUSED_ALONE[setting] if word not in said.stderr] == []


@pytest.mark.parametrize("setting", [each for each in SETTINGS if not REFUSED[each]])
def test_the_examples_hold_where_cages_run(setting: str, project: Path) -> None:
    """The tour of the README: what is refused there is refused, what is allowed works."""
    dial = "import socket; socket.create_connection(('192.0.2.1', 443), 2)"
    assert (
        pysandbox(setting, "run", "--", "cat", os.path.expanduser("~/.ssh/id_ed25519"), project=project).returncode == 1
    )
    assert "unreachable" in pysandbox(setting, "run", "--", "python3", "-c", dial, project=project).stderr
    assert "policy.toml" in pysandbox(setting, "run", "-r", "policy.toml", "--", "ls", project=project).stdout
    assert pysandbox(setting, "run", "-r", "policy.toml", "--", "touch", "refused", project=project).returncode == 1
    assert there(setting, sys.executable, "-P", "-c", IN_PYTHON, project=project).stdout == "42\n"


@pytest.mark.parametrize("setting", SETTINGS)
def test_check_agrees(setting: str, project: Path) -> None:
    said = pysandbox(setting, "check", project=project)
    assert said.returncode == (1 if REFUSED[setting] else 0), said.stdout
    verdict = said.stdout.strip().splitlines()[-1]
    assert ("cannot run here" in verdict) == bool(REFUSED[setting]), verdict
    assert ("each without a wall (landlock)" in verdict) == (setting == "no landlock")
    assert said.stderr == ""  # it is a row of the table, and no warning of Python's


def test_a_wall_that_is_not_there_is_said_on_stderr_and_refused_by_strict(project: Path) -> None:
    """CONTROL: where it is there, nothing is said."""
    control = pysandbox("none", *HELLO, project=project)
    said, strict = (pysandbox("no landlock", "run", *more, *HELLO[1:], project=project) for more in ((), ("--strict",)))
    assert control.stderr == ""
    assert said.stderr.count("no Landlock") == 1
    assert strict.returncode == 125 and "no Landlock" in strict.stderr


def test_python_is_warned_of_it_once_and_a_filter_makes_an_error_of_it(project: Path) -> None:
    twice = f"{IN_PYTHON}; {IN_PYTHON.partition('; ')[2]}"
    control = there("none", sys.executable, "-P", "-c", twice, project=project)
    warned = there("no landlock", sys.executable, "-P", "-c", twice, project=project)
    strict = there("no landlock", sys.executable, "-P", "-W", "error::RuntimeWarning", "-c", twice, project=project)
    assert "Warning" not in control.stderr
    assert warned.stdout == "42\n42\n" and warned.stderr.count("WeakerWarning: this kernel has no Landlock") == 1
    assert strict.returncode != 0 and "WeakerWarning" in strict.stderr and strict.stdout == ""


@pytest.mark.parametrize(
    ("isolation", "why"), [("full", "no cage is made inside"), ("landlock", "no cage can be made")]
)
def test_in_another_cage_none_is_made_and_the_error_says_why(project: Path, isolation: str, why: str) -> None:
    """Not with the wrong remedy: no other isolation can be had there either."""
    shown = [flag for place in (sys.prefix, TESTS) for flag in ("--allow", place)]
    inner = ["pysandbox", "run", "--isolation", isolation, "--workdir", "none", "--", "true"]
    done = subprocess.run(["pysandbox", "run", *shown, "--", *inner], cwd=project, capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    assert (done.returncode, why in done.stderr) == (125, True), done.stderr
    assert "--isolation" not in done.stderr
