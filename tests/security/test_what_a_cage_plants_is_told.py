"""Claim: what a cage makes under a guarded name that was not there is told when its command has ended.

Nothing can be mounted over a name that is absent, so a hostile command can leave an .envrc, a .git or a policy file.
Whatever it puts there, a file moved into the place, a link, a FIFO or a directory, the user hears of it: in the Result,
in the trail, on standard error of the command line, also when the plan was kept from the run before.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import pysandbox
from pysandbox import Cage, Event, Policy
from pysandbox.events import PLANTED
from pysandbox.policy import user_home
from pysandbox.runtime.runtime import Runtime

from .conftest import Ground
from .harness import caged, policy, program, uncaged

ATTACK = """
    os.chdir(WHERE)
    attempt("file", lambda: open(".envrc", "x").close())
    attempt("made, then renamed", lambda: (open("fresh", "x").close(), os.rename("fresh", ".mcp.json")))
    attempt("a link", os.symlink, "/nowhere/at/all", ".vscode")
    attempt("a link to a directory", lambda: (os.mkdir("d"), open("d/settings.json", "x"), os.symlink("d", ".claude")))
    attempt("a FIFO", os.mkfifo, "pysandbox.toml")
    attempt("a directory", os.mkdir, ".pysandbox")
    attempt("hooks", os.makedirs, ".git/hooks")
    attempt("shut", lambda: (os.mkdir(".husky"), os.chmod(".husky", 0)))
    attempt("innocent", lambda: open("result", "x").close())
    attempt("gone again", lambda: (open(".gitmodules", "x").close(), os.unlink(".gitmodules")))
"""
MADE = (".envrc", ".mcp.json", ".vscode", ".claude/settings.json", ".claude/settings.local.json", "pysandbox.toml",
        ".pysandbox", ".git", ".husky")  # fmt: skip


def planted(result: pysandbox.Result | None) -> list[str]:
    assert result is not None
    return [note.message for note in result.notes if note.event == PLANTED.name]


def test_everything_that_was_planted_is_told(ground: Ground, isolation: str) -> None:
    attack = program(ATTACK, WHERE=str(ground.inside))

    report = caged(attack, policy(isolation, allow_write=[str(ground.inside)]))

    assert {each.errno for each in report.attempts.values()} == {None}, "the attack must work to be worth telling"
    (message,) = planted(report.result)
    assert {name for name in MADE if repr(str(ground.inside / name)) in message} == set(MADE)
    assert "result" not in message
    assert ".gitmodules" not in message


def test_outside_of_a_cage_it_is_made_just_so(ground: Ground) -> None:
    report = uncaged(program(ATTACK, WHERE=str(ground.inside)))
    assert {each.errno for each in report.attempts.values()} == {None}
    assert os.readlink(ground.inside / ".vscode") == "/nowhere/at/all"


def test_a_run_that_plants_nothing_tells_nothing(ground: Ground) -> None:
    (ground.inside / ".envrc").touch()
    rules = policy(allow_write=[str(ground.inside)])
    assert planted(pysandbox.run(["/bin/touch", str(ground.inside / "result")], policy=rules)) == []


def test_a_word_that_opens_a_guard_is_an_answer_to_the_note(ground: Ground) -> None:
    rules = policy(allow_write=[str(ground.inside)], unguarded=[".envrc"])
    assert planted(pysandbox.run(["/bin/touch", str(ground.inside / ".envrc")], policy=rules)) == []


def test_start_files_below_a_granted_home_are_told(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_home, "_home_of", lambda uid: str(ground.inside))
    argv = ["/bin/sh", "-ec", "mkdir -p .config/systemd/user; touch .bashrc"]
    rules = policy(workdir="write")
    (message,) = planted(Cage(rules, cwd=ground.inside).run(argv))
    assert ".bashrc" in message
    assert ".config/systemd" in message


def test_it_is_told_when_a_process_in_the_background_made_it(ground: Ground) -> None:
    """What a one-shot cage leaves running is dead before anything is looked for; a session looks once more."""
    seen: list[Event] = []
    rules = policy(allow_write=[str(ground.inside)])
    runtime = Runtime(sink=seen.append)
    with Cage(rules, runtime=runtime) as cage:
        first = cage.run(["/bin/touch", str(ground.inside / ".envrc")])
        script = 'trap "" TERM; (sleep 0.2; mkdir "$1/.git") & '
        second = cage.run(["/bin/sh", "-c", script, "sh", str(ground.inside)], stdout=None, stderr=None)
        cage.run(["/bin/sleep", "0.4"])
        cage.run(["/bin/true"])
    runtime.drain()
    assert (len(planted(first)), len(planted(second))) == (1, 0)
    told = [tuple(event.data["paths"]) for event in seen if event.type == PLANTED.name]  # type: ignore[arg-type]
    assert told == [(str(ground.inside / ".envrc"),), (str(ground.inside / ".git"),)], "each once"


def test_a_killed_init_does_not_keep_it_quiet(ground: Ground) -> None:
    rules = policy(allow_write=[str(ground.inside)])
    script = 'while :; do mkdir -p "$1/.vscode"; echo; done'
    with Cage(rules).spawn(["/bin/sh", "-c", script, "sh", str(ground.inside)], stdout=pysandbox.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        os.kill(process.init_pid, 9)
        assert planted(process.result())


# What is in the way of a guarded name before the command begins, and what the command makes behind it.
BEHIND = {
    "a link to a directory": ("mkdir in; ln -s in .claude", "echo {} > in/settings.json", ".claude/settings.json"),
    "a link to nothing": ("ln -s in .claude", "mkdir in; echo {} > in/settings.json", ".claude/settings.json"),
    "a link that is replaced": ("ln -s . .git", "rm .git; mkdir -p .git/hooks", ".git/hooks"),
    "a repository behind a link": ("mkdir in; ln -s in .git", "echo '[core]' > in/config", ".git/config"),
    "a file behind a link": ("ln -s said .envrc", "echo evil > said", ".envrc"),
    "a shut directory": ("mkdir -m 0 .claude", "chmod 700 .claude; echo {} > .claude/settings.json",
                         ".claude/settings.json"),
    "a shut repository": ("mkdir -m 0 .git", "rmdir .git; mkdir .git; echo '[core]' > .git/config", ".git/config"),
}  # fmt: skip


@pytest.mark.parametrize("way", BEHIND)
def test_what_is_made_behind_something_that_was_in_the_way_is_told(ground: Ground, isolation: str, way: str) -> None:
    before, attack, made = BEHIND[way]
    subprocess.run(["/bin/sh", "-ec", before], cwd=ground.inside, check=True, timeout=60)
    rules = policy(isolation, workdir="write", run_as="self")
    time.sleep(0.1)

    control = Cage(rules, cwd=ground.inside).run(["/bin/true"])
    result = Cage(rules, cwd=ground.inside).run(["/bin/sh", "-ec", attack])

    assert result.exit_code == 0, result.stderr
    assert planted(control) == [], "what was there before is not the command's doing"
    (message,) = planted(result)
    assert repr(str(ground.inside / made)) in message


# ---- the command line --------------------------------------------------------------------------------------------


@pytest.fixture
def at_home(ground: Ground) -> Mapping[str, str]:
    places = {name: str(ground.outside / name) for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")}
    for place in places.values():
        Path(place).mkdir(mode=0o700, parents=True)
    return {**os.environ, **places, "PYSANDBOX_AUDIT": str(ground.outside / "audit" / "events.jsonl")}


def command_line(ground: Ground, env: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["pysandbox", *arguments], cwd=ground.inside, env=dict(env), capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip


def test_the_command_line_says_it_the_long_way_and_from_a_kept_plan(ground: Ground, at_home: Mapping[str, str]) -> None:
    script = ["run", "--", "/bin/sh", "-c", "[ -e go ] && touch .envrc; true"]
    for _ in range(3):  # the second or third is from the plan that was kept
        assert ".envrc" not in command_line(ground, at_home, *script).stderr
    assert any((Path(at_home["XDG_CACHE_HOME"]) / "pysandbox").iterdir()), "no plan was kept"
    (ground.inside / "go").touch()
    for _ in range(2):
        done = command_line(ground, at_home, *script)
        assert done.returncode == 0
        assert f"the command made {str(ground.inside / '.envrc')!r}" in done.stderr
        assert ".envrc" in command_line(ground, at_home, "explain", "--last").stdout
        os.unlink(ground.inside / ".envrc")
    stream = Path(at_home["PYSANDBOX_AUDIT"]).read_text().splitlines()
    assert sum(json.loads(line)["type"] == PLANTED.name for line in stream) == 2


def test_it_says_nothing_of_what_came_between_two_runs(ground: Ground, at_home: Mapping[str, str]) -> None:
    """The plan that was kept knows .claude for absent; and is used for a link that leads nowhere."""
    asked = ["run", "--", "/bin/sh", "-c", "[ ! -e go ] || { mkdir in; touch in/settings.json; }"]
    for step in ("touch .claude", "rm .claude; ln -s in .claude", "rm .claude; mkdir -m 0 .claude",
                 "rmdir .claude; ln -s .claude .claude", "rm .claude; ln -s in .claude; touch go"):  # fmt: skip
        subprocess.run(["/bin/sh", "-ec", step], cwd=ground.inside, check=True, timeout=60)
        time.sleep(0.1)
        for _ in range(1 if "go" in step else 2):
            said = command_line(ground, at_home, *asked).stderr
            assert ("the command made" in said) == ("go" in step), (step, said)


def test_a_policy_that_writes_nothing_looks_for_nothing(ground: Ground) -> None:
    runtime = Runtime()
    for rules in (Policy(), policy(workdir="read", allow=[str(ground.inside)])):
        assert not runtime.prepare(rules, str(ground.inside)).absences
