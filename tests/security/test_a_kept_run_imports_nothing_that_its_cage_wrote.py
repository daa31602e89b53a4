"""Claim: a Python that starts while the command of a run already runs, or after it, to serve its cage or to say why it
failed, imports and loads nothing that this command wrote.

CONTROL   a directory of modules or libraries that the cage cannot write: the plan is kept, Python comes when it is
          called, and says why; and what is planted there is what a Python would run
ATTACK    the directory is among those that the cage may write: it puts modules or libraries there, and calls, or fails
EVIDENCE  no module of the cage's was run outside, nor its library loaded; what it reads as the name of either is there
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from _support.kept_runs import TELLS, Home

ADDRESS = ["--allow-ip", "203.0.113.7:443/tcp"]
NAMES = ("argparse", "json", "struct", "errno", "site", "zipimport", "sitecustomize", "usercustomize", "h11", "array")
CALL = "import socket\ntry: socket.create_connection(('198.51.100.7', 80), timeout=9)\nexcept OSError: print('refused')"
FAIL = "sys.exit(3)"
PLANT = f"""
import os, sys
for name in {NAMES} if os.path.exists("stay") else ():
    try:
        with open(f"lib/{{name}}.py", "w") as file:
            file.write("import os; os.close(os.open(" + repr(sys.argv[1]) + ", os.O_CREAT | os.O_WRONLY))")
        with open("lib/libm.so.6", "w") as file:
            file.write("of the cage")
    except OSError:
        pass
"""
INSIDE = ("PYTHONPATH", "LD_LIBRARY_PATH")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """One with modules and libraries in the project."""
    made = Home(tmp_path)
    (made.project / "lib").mkdir()
    (made.project / "lib" / "sitecustomize.py").write_text(TELLS)
    return made


def program(home: Home, *code: str) -> list[str]:
    """What it names besides is not in its cage: a failure may be for that."""
    outside = home.project.parent
    return ["--", "/usr/bin/python3", "-I", "-c", "\n".join(code), str(outside / "sign"), str(outside / "tells")]


def test_the_control_is_kept_and_served_and_told_why(home: Home) -> None:
    for name in INSIDE:
        home.env[name] = str(home.project / "lib")
    calls, fails = [[*ADDRESS, "--workdir", "read", *program(home, "import sys", code)] for code in (CALL, FAIL)]
    home.keep(*calls)
    ran = home.run(*calls)
    assert (ran.stdout, ran.served) == (b"refused\n", True)
    assert b"is not in the sandbox" in home.run(*fails).stderr


def test_the_control_runs_what_is_planted(home: Home) -> None:
    (home.project / "stay").touch()
    subprocess.run(program(home, PLANT)[1:], cwd=home.project, check=True, timeout=60)
    started = {}
    for name in INSIDE:
        env = {**home.env, name: str(home.project / "lib")}
        done = subprocess.run(["/usr/bin/python3", "-c", "import argparse"], cwd=home.project, env=env, timeout=60)
        started[name] = done.returncode
    assert (home.project.parent / "sign").exists()
    assert started["LD_LIBRARY_PATH"] != 0


@pytest.mark.parametrize(
    ("flags", "then", "name"),
    [
        (ADDRESS, CALL, "PYTHONPATH"),
        (["--host", "allowed.test"], CALL, "LD_LIBRARY_PATH"),
        ([], FAIL, "PYTHONPATH"),
        ([], FAIL, "LD_LIBRARY_PATH"),
        (ADDRESS, FAIL, "PYTHONPATH"),
    ],
    ids=["serves an address", "serves a host", "says why", "says why, libraries", "says why of an address"],
)
def test_what_the_cage_wrote_is_not_run(home: Home, flags: list[str], then: str, name: str) -> None:
    home.env[name] = str(home.project / "lib")
    attack = [*flags, "--workdir", "write", *program(home, PLANT, then)]
    for _ in range(2):
        home.run(*attack)  # which would keep the plan
    (home.project / "stay").touch()
    ran = home.run(*attack)
    assert (home.project / "lib" / "argparse.py").exists()  # it was written
    assert not (home.project.parent / "sign").exists()
    assert ran.code == (3 if then == FAIL else 0)
    assert b"libm" not in ran.stderr
