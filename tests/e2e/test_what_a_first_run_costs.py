"""What the first run of a command line costs: so many modules, none of what runs a cage, and one interpreter.

A count, since a time tells nothing on a machine that does something else besides. Whoever adds an import to the way of
every first run sees it here; a ceiling is raised only by somebody who says in the commit what the module is worth.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from _support.kept_runs import COMMAND, PYTHON, Home

IMPORTED = re.compile(rb"^import time: .*\| +(\S+)$", re.MULTILINE)
RACY = 0.06  # seconds; a file that is newer makes that nothing is kept

# How many of our modules, by what is asked; CPython's own differ by version.
CEILINGS: dict[str, tuple[int, list[str]]] = {
    "nothing": (154, []),
    "a variable": (154, ["--env", "A=b"]),
    "a limit of time": (154, ["--timeout", "60"]),
    "a recipe": (157, ["-r", "python"]),
    "memory": (154, ["--memory-mb", "512"]),
    "an address": (161, ["--allow-ip", "203.0.113.7:443/tcp"]),
    "a host": (161, ["--host", "example.org:443"]),
}
OF_ROOT = 1 if os.geteuid() == 0 else 0  # who cages of root are outside: runtime.mapped
OF_A_RUNNING_CAGE = re.compile(
    r"pysandbox\.(live|supervise|handlers|gate|cage|process|start|launcher|runtime\.runtime)\b"
)
HEAVY = {
    "ipaddress",
    "typing",
    "dataclasses",
    "threading",
    "asyncio",
    "ssl",
    "socket",
    "subprocess",
    "tempfile",
    "hashlib",
    "json",
    "tomllib",
    "gettext",
    "locale",
}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """One whose trail has begun, with files that are old enough for a plan of theirs to be kept."""
    made = Home(tmp_path)
    time.sleep(RACY)
    made.keep("--", "/bin/true")
    return made


@pytest.mark.parametrize("name", CEILINGS)
def test_a_first_run_imports_what_makes_a_plan_and_no_more(home: Home, name: str) -> None:
    ceiling, flags = CEILINGS[name]
    home.env["PYTHONPROFILEIMPORTTIME"] = "1"
    first = home.run(*flags, "--", "/bin/true")
    modules = {each.decode() for each in IMPORTED.findall(first.stderr)}
    ours = {each for each in modules if each.partition(".")[0] == "pysandbox"}
    assert "pysandbox.cli.first_run" in ours, first.stderr
    assert not [each for each in ours if OF_A_RUNNING_CAGE.match(each)]
    assert len(ours) <= ceiling + OF_ROOT, sorted(ours)
    assert not modules & HEAVY
    again = home.run(*flags, "--", "/bin/true")
    assert again.warm
    assert not IMPORTED.search(again.stderr)


def test_a_first_run_starts_one_python_and_runs_the_command_once(home: Home) -> None:
    ran = home.run("--env", "A=b", "--", "sh", "-c", "echo $A >> ran; cat ran")
    assert (ran.code, ran.stdout, ran.warm) == (0, b"b\n", False)
    assert ran.told == [PYTHON]


@pytest.mark.parametrize(("word", "reads"), [("--version", False), ("--help", False), ("ps", True)])
def test_only_a_command_reads_flags(home: Home, word: str, reads: bool) -> None:
    env = home.env | {"PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run([COMMAND, word], cwd=home.project, env=env, capture_output=True, timeout=60, check=True)
    assert (b"argparse" in IMPORTED.findall(done.stderr)) is reads


def test_words_of_argparse_are_english_and_the_module_is_nobody_else_s() -> None:
    script = (
        "import sys; from pysandbox.cli.main import import_argparse_alone; import_argparse_alone(); import argparse\n"
        "assert 'gettext' not in sys.modules\n"
        "parser = argparse.ArgumentParser(prog='p'); parser.add_argument('a', nargs=2)\n"
        "import gettext; gettext.translation; argparse.ArgumentParser().format_help()\n"
        "parser.parse_args(['only'])"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60).stderr
    assert said.splitlines()[-1] == "p: error: the following arguments are required: a", said


def test_a_first_run_is_called_what_was_typed(home: Home) -> None:
    typed = ["run", "--env", "A=b", "--", "sh", "-c", "echo ready; cat; env"]
    with subprocess.Popen(
        [COMMAND, *typed], cwd=home.project, env=home.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as run:
        assert run.stdin is not None and run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        shown = Path(f"/proc/{run.pid}/cmdline").read_bytes().split(b"\0")
        run.stdin.close()
        inside = run.stdout.read()
    assert [each.decode() for each in shown[1:-1]] == typed
    assert b"PYSANDBOX" not in inside
    assert home.run(*typed[1:]).warm


@pytest.mark.parametrize(
    "arguments", [["--", "no-such-program"], ["--", "./absent"], ["--why", "--", "/bin/true"]], ids=" ".join
)
def test_what_the_launcher_could_not_do_is_not_left_to_it(home: Home, arguments: list[str]) -> None:
    before = len(home.records())
    ran = home.run(*arguments)
    assert ran.told == [PYTHON]
    assert [each["type"] for each in home.records()[before:]].count("subagent.spawn") == 1


def test_a_plan_that_does_not_start_is_not_passed_on_for_ever(home: Home) -> None:
    """The program is there, and what it is to be read by is not."""
    program = home.project / "program"
    program.write_text("#!/nowhere/interpreter\n")
    program.chmod(0o755)
    time.sleep(RACY)
    ran = home.run("--", "./program")
    assert (ran.code, ran.told) == (127, [PYTHON] * 2)
    assert b"'./program'" in ran.stderr
