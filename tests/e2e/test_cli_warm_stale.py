"""A kept plan is passed over as soon as anything is another that it was made from; what it cannot hold is not kept."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pysandbox
from _support.kept_runs import COMMAND, LIMIT, Home, write_script
from pysandbox.policy.recipe import PACKAGED


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# ---- what makes it stale -------------------------------------------------------------------------------------

Change = Callable[[Home], Any]


def edit_recipe(home: Home) -> None:
    (home.project / "r.toml").write_text('[process]\nenv = { SAID = "after" }\n')


def replace_grant(home: Home) -> None:
    (home.project / "granted").rename(home.project / "old")
    (home.project / "granted").mkdir()
    (home.project / "granted" / "after").touch()


def say_after(home: Home) -> None:
    home.env["PSB_WORD"] = "after"


def add_policy_file(home: Home) -> None:
    (home.project / "pysandbox.toml").write_text("secret")


def edit_user_recipe(home: Home) -> None:
    home.recipe(home.recipes, "after")


def shadow_user_recipe(home: Home) -> None:
    home.recipe(home.project / ".pysandbox", "after")
    assert home.python("recipe", "trust", "--yes", ".pysandbox/word.toml").returncode == 0


def move_user_recipes(home: Home) -> None:
    elsewhere = home.project.parent / "elsewhere"
    home.recipe(elsewhere / "pysandbox" / "recipes", "after")
    home.env["XDG_CONFIG_HOME"] = str(elsewhere)


def replace_base(home: Home) -> None:
    base = (Path(PACKAGED) / "base.toml").read_text()
    home.recipes.joinpath("base.toml").write_text(f'{base}\n[process]\nenv = {{ SAID = "after" }}\n')


def edit_detected(home: Home) -> None:
    tools = home.project.parent / "tools"
    prefix = f'[recipe]\nname = "word"\nmatch_prefix = ["{tools}"]\n[filesystem]\nallow = ["{tools}"]\n'
    home.recipe(home.recipes, "after", prefix)


# What changes, and a command line whose answer is then another; HERE is the project.
CHANGES: dict[str, tuple[Change, list[str]]] = {
    "a recipe": (edit_recipe, ["-r", "r.toml", "--", "sh", "-c", "echo $SAID"]),
    "a granted directory": (replace_grant, ["--workdir", "none", "--allow", "granted", "--", "ls", "HERE/granted"]),
    "a variable in a path": (say_after, ["--workdir", "none", "--allow", "$PWD/../$PSB_WORD", "--", "ls", "ABOVE"]),
    "a user's recipe": (edit_user_recipe, ["-r", "word", "--", "sh", "-c", "echo $SAID"]),
    "a recipe of the project before the user's": (shadow_user_recipe, ["-r", "word", "--", "sh", "-c", "echo $SAID"]),
    "the place of recipes": (move_user_recipes, ["-r", "word", "--", "sh", "-c", "echo $SAID"]),
    "the base": (replace_base, ["--", "sh", "-c", "echo ${SAID-before}"]),
    "a recipe that the program calls for": (edit_detected, ["--allow", "ABOVE/tools", "--", "ABOVE/tools/said"]),
    "a policy file that was not there": (add_policy_file, ["--", "sh", "-c", "cat pysandbox.toml 2>&-; echo after"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed(home: Home, name: str) -> None:
    change, arguments = CHANGES[name]
    (home.project / "r.toml").write_text('[process]\nenv = { SAID = "before" }\n')
    (home.project / "granted").mkdir()
    (home.project / "granted" / "before").touch()
    for word in ("before", "after", "tools"):
        (home.project.parent / word).mkdir()
    home.recipe(home.recipes, "before")
    write_script(home.project.parent / "tools" / "said", "echo ${SAID-before}")
    home.env["PWD"] = str(home.project)
    arguments = [
        each.replace("HERE", str(home.project)).replace("ABOVE", str(home.project.parent)) for each in arguments
    ]
    home.until_warm(*arguments)
    change(home)
    ran = home.run(*arguments)
    assert not ran.warm
    assert ran.stdout == b"after\n", ran.stderr


LEADS = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "PYSANDBOX_AUDIT")


@pytest.mark.parametrize("name", LEADS)
def test_a_variable_that_leads_elsewhere_to_what_no_cage_may_see_or_write_is_noticed(home: Home, name: str) -> None:
    """Our own files, and what git is led by: with another value, other paths are kept from the cage."""
    elsewhere = home.project.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    home.env["XDG_CACHE_HOME"] = str(home.cache.parent)  # where the plan itself is looked for
    home.until_warm("--", "true")
    ran = home.run("--", "true", **{name: str(elsewhere / "events.jsonl" if name == "PYSANDBOX_AUDIT" else elsewhere)})
    assert (ran.code, ran.warm) == (0, False), ran


def test_another_installation_makes_a_plan_of_its_own(home: Home) -> None:
    """It may know of more to be guarded, and none of its files is among those whose stamps were kept."""
    home.until_warm("--", "true")
    shutil.copytree(Path(pysandbox.__file__).parent, home.project.parent / "other" / "pysandbox")
    home.env["PYTHONPATH"] = f"{home.project.parent / 'other'}:{home.env['PYTHONPATH']}"
    assert not home.run("--", "true").warm
    assert home.until_warm("--", "true").code == 0


def test_another_program_that_the_name_leads_to_is_noticed(home: Home) -> None:
    tools = home.project.parent / "tools"
    (tools / "first").mkdir(parents=True)
    (tools / "second").mkdir()
    write_script(tools / "second" / "sh", "")
    prefix = f'[recipe]\nname = "word"\nmatch_prefix = ["{tools}/second"]\n'
    home.recipe(home.recipes, "before", prefix)
    home.env["PATH"] = f"{tools}/first:{tools}/second:{home.env['PATH']}"
    arguments = ["--", "sh", "-c", "echo ${SAID-after}"]
    assert home.until_warm(*arguments).stdout == b"before\n"
    write_script(tools / "first" / "sh", "")
    ran = home.run(*arguments)
    assert (ran.warm, ran.stdout) == (False, b"after\n")


def test_a_program_that_the_system_gains_takes_the_place_of_one_that_a_cage_can_write(home: Home) -> None:
    """The claim of docs/policy.md for a PATH, from a kept plan: `pytest` of a writable environment comes first only
    where the system has none."""
    tells, system = home.project.parent / "tells" / "sitecustomize.py", home.project.parent / "system"
    tells.write_text(
        f"{tells.read_text()}\nimport pysandbox.policy.found_by_name as names\nnames.SYSTEM += ({str(system)!r},)\n"
    )
    bins = home.project / "venv" / "bin"
    bins.mkdir(parents=True)
    (home.project / "venv" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (bins / "python").symlink_to("/usr/bin/python3")
    write_script(bins / "tool", 'echo "$PATH"')
    home.env |= {"PATH": f"{bins}:{home.env['PATH']}", "VIRTUAL_ENV": str(home.project / "venv")}
    assert home.until_warm("--", "tool").stdout.startswith(f"{bins}:".encode())
    system.mkdir()
    write_script(system / "tool", "echo the system's")
    ran = home.run("--", "tool")
    assert (ran.warm, ran.stdout.strip().endswith(f":{bins}".encode())) == (False, True), ran


def test_trust_that_is_taken_back_holds_for_the_next_run(home: Home) -> None:
    home.recipe(home.project / ".pysandbox", "x", '[filesystem]\nallow = ["/etc"]\n')
    arguments = ["-r", "word", "--", "echo", "ran"]
    assert home.run(*arguments).code == 125  # the control
    recipe = ".pysandbox/word.toml"
    assert home.python("recipe", "trust", "--yes", recipe).returncode == 0
    assert home.until_warm(*arguments).stdout == b"ran\n"
    assert home.python("recipe", "trust", "--revoke", recipe).returncode == 0
    ran = home.run(*arguments)
    assert (ran.code, ran.warm, ran.stdout) == (125, False, b"")
    assert b"you have not trusted it" in ran.stderr


def test_a_variable_that_is_passed_through_is_read_anew_and_never_written_down(home: Home) -> None:
    arguments = ["--env-passthrough", "PSB_WORD", "--", "sh", "-c", "echo $PSB_WORD"]
    home.env["PSB_WORD"] = "a-secret-of-mine"
    assert home.until_warm(*arguments).stdout == b"a-secret-of-mine\n"
    assert not [entry for entry in home.entries if b"a-secret-of-mine" in entry.read_bytes()]
    home.env["PSB_WORD"] = "another"
    ran = home.run(*arguments)
    assert (ran.warm, ran.stdout) == (True, b"another\n")


SECRET = "a-secret-that-was-typed"


@pytest.mark.parametrize(
    "flags",
    [["--env", f"TOKEN={SECRET}"], [f"--env=TOKEN={SECRET}"], ["--env", "TOKEN=old", "--env", f"TOKEN={SECRET}"],
     ["--env", f"TOKEN={SECRET}", "--env", "EMPTY=", "--timeout", "50"], ["--env", f"TOKEN={SECRET}", "-r", "word"],
     ["--env", f"HOME=/{SECRET}", "--env", f"TOKEN={SECRET}"]],
)  # fmt: skip
def test_a_variable_of_the_command_line_is_given_and_never_written_down(home: Home, flags: list[str]) -> None:
    home.recipe(home.recipes, "kept")
    command = ["--", "sh", "-c", 'echo "$TOKEN,$EMPTY,$SAID,$HOME"']
    cold = home.run(*flags, *command)
    warm = home.until_warm(*flags, *command)
    assert (warm.stdout, warm.stderr) == (cold.stdout, cold.stderr)
    assert SECRET.encode() in warm.stdout
    written = [each for each in home.cache.parent.parent.rglob("*") if each.is_file() and each.name != "events.jsonl"]
    assert not [each for each in written if SECRET.encode() in each.read_bytes()]


def test_another_value_is_another_plan(home: Home) -> None:
    arguments = ["--", "sh", "-c", "echo $TOKEN"]
    home.until_warm("--env", f"TOKEN={SECRET}", *arguments)
    ran = home.run("--env", "TOKEN=another", *arguments)
    assert (ran.warm, ran.stdout) == (False, b"another\n")
    assert home.run("--env", f"TOKEN={SECRET}", *arguments).stdout == f"{SECRET}\n".encode()


def test_two_secrets_are_not_told_apart_by_who_reads_the_cache(home: Home) -> None:
    """The name of an entry, and the key in it, are sealed: a guess cannot be tried on them."""
    from pysandbox.launch import plans

    home.until_warm("--env", f"TOKEN={SECRET}", "--", "/bin/true")
    [entry] = home.entries
    known = {plans.name_of(each) for each in (SECRET.encode(), f"TOKEN={SECRET}".encode(), b"--env")}
    assert entry.name not in known
    assert b"--env" not in entry.read_bytes()


@pytest.mark.parametrize(
    "flags",
    [["--env", "PATH=/usr/bin"], ["--json"], ["-v"], ["--no-sandbox"], ["--max-pids", "50"],
     ["--memory-mb", "200", "--allow-syscall", "memfd_create"],
     ["--cpu-percent", "50"], ["--state", "scratch"], ["--monitor"], ["--notifier"],
     ["--allow-execve", "/bin/*", "--allow-execve", "/usr/bin/*"]],
)  # fmt: skip
def test_what_a_plan_does_not_hold_is_not_kept(home: Home, flags: list[str]) -> None:
    assert [home.run(*flags, "--", "/bin/true").warm for _ in range(2)] == [False, False]
    assert home.entries == []


# ---- the cage that is made while the plan is looked at -----------------------------------------------------------


def steps(home: Home, trace: Path, *arguments: str) -> list[str]:
    """What happened, in order: a cage that is made, each program that is executed, the end of a process or thread."""
    calls = "trace=clone,clone3,execve,execveat"
    traced = ["strace", "-f", "-o", str(trace), "-e", calls, COMMAND, "run", *arguments]
    subprocess.run(traced, cwd=home.project, env=home.env, capture_output=True, timeout=LIMIT, check=True)
    executed, found = re.compile(r'execve\("([^"]*)"|execveat\(.*"(cage-init)"'), []
    for line in trace.read_text().splitlines():
        if told := executed.search(line):
            found.append(os.path.basename(told[1] or told[2]))
        elif "CLONE_NEWUSER" in line or "+++" in line:
            found.append("cage" if "CLONE_NEWUSER" in line else "end")
    return found


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is missing: apt-get install strace")
def test_nothing_is_ordered_of_a_plan_that_no_longer_holds(home: Home, tmp_path: Path) -> None:
    """Its cage is made beside the looks at what it depends on, and is taken down, empty, before Python takes over."""
    (home.project / "r.toml").write_text('[process]\nenv = { SAID = "before" }\n')
    write_script(home.project / "tell", "echo $SAID >> told")
    arguments = ["-r", "r.toml", "--", "./tell"]
    home.until_warm(*arguments)
    warm = steps(home, tmp_path / "warm", *arguments)
    assert warm.index("cage") < warm.index("cage-init") < warm.index("tell"), warm  # the control
    (home.project / "told").unlink()
    (home.project / "r.toml").write_text('[process]\nenv = { SAID = "after" }\n')
    known = len(home.records())
    stale = steps(home, tmp_path / "stale", *arguments)
    by_launcher = stale[: stale.index("pysandbox-python")]
    assert by_launcher.count("cage") == by_launcher.count("cage-init") == 1, stale
    assert "tell" not in by_launcher and by_launcher.count("end") == 2, stale  # of cage-init, and of the thread
    assert (home.project / "told").read_text() == "after\n"
    spawned = [each for each in home.records()[known:] if each["type"] == "subagent.spawn"]
    assert len(spawned) == 1, spawned
