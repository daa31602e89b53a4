"""[workspace] on_exit, on_error: what is written apart is kept, forgotten or written by itself, never blindly."""

from __future__ import annotations

import asyncio
import os
import py_compile
import sys
import time
from pathlib import Path

import pytest

from pysandbox import AsyncCage, Cage, Policy, PolicyError
from pysandbox.launch.removal import remove_tree
from pysandbox.workspace import walk
from pysandbox.workspace.workspace import Workspace

pytestmark = pytest.mark.filterwarnings("ignore:the workspace was not ended")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = tmp_path / "project"
    made.mkdir()
    (made / "notes").write_text("one\n")
    monkeypatch.chdir(made)
    time.sleep(0.02)
    return made


def policy(**said: str) -> Policy:
    return Policy(workdir="cow", **said)  # type: ignore[arg-type]


def write(name: str, code: int = 0) -> list[str]:
    return ["sh", "-c", f"echo text > {name}; exit {code}"]


def action(cage: Cage | AsyncCage) -> str:
    outcome = cage.workspace.outcome
    return outcome.action if outcome is not None else "deferred"


@pytest.mark.parametrize(("word", "done", "there", "kept"), [
    ("defer", "deferred", False, 0), ("keep", "kept", False, 1), ("abort", "aborted", False, 0),
    ("commit", "committed", True, 0),
])  # fmt: skip
def test_each_ending_does_what_it_says(word: str, done: str, there: bool, kept: int) -> None:
    with Cage(policy(on_exit=word)) as cage:
        cage.run(write("new"))
    assert action(cage) == done
    assert os.path.exists("new") == there and len(Workspace.kept()) == kept


@pytest.mark.parametrize(("word", "done"), [("keep", "failed"), ("commit", "failed"), ("abort", "aborted")])
def test_what_cannot_be_looked_at_is_neither_kept_nor_written(
    word: str, done: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "MOST_SPELLED", 20)
    with Cage(policy(on_exit=word)) as cage:
        assert cage.run(["mkdir", "-p", "a/directory/in/others"]).ok
    assert action(cage) == done
    assert os.listdir() == ["notes"] and not Workspace.kept()
    cage.workspace.abort()


@pytest.mark.parametrize(("word", "done", "there"), [("keep", "kept", False), ("commit", "committed", True)])
def test_what_lies_too_deep_costs_nothing_but_itself(word: str, done: str, there: bool) -> None:
    with Cage(policy(on_exit=word)) as cage:
        deep = "d=$(printf %0200d); i=0; while [ $i -lt 90 ]; do mkdir $d && cd -P $d || exit 1; i=$((i+1)); done"
        assert cage.run(["bash", "-c", f"echo x > work; {deep}"]).ok
    assert action(cage) == done and len(Workspace.kept()) == 1
    assert os.path.exists("work") == there
    remove_tree("0" * 200)


def test_a_cage_for_one_command_is_settled_when_that_has_ended() -> None:
    cage = Cage(policy(on_exit="commit", on_error="abort"))
    assert cage.run(write("new")).exit_code == 0 and action(cage) == "committed" and os.path.exists("new")
    assert cage.run(write("bad", 3)).exit_code == 3 and action(cage) == "aborted" and not os.path.exists("bad")
    process = cage.spawn(write("spawned"))
    assert process.wait() == 0 and action(cage) == "committed" and os.path.exists("spawned")
    with cage.spawn(["sh", "-c", "echo x > late; sleep 60"]) as process:
        pass
    assert action(cage) in ("aborted", "nothing") and not os.path.exists("late")


def test_an_error_is_the_last_command_s_or_an_exception() -> None:
    wanted = policy(on_exit="commit", on_error="keep")
    with Cage(wanted) as cage:
        cage.run(["false"])
        cage.run(write("one"))
    assert action(cage) == "committed"
    with Cage(wanted) as cage:
        cage.run(write("two", 1))
    assert action(cage) == "kept"
    with pytest.raises(ZeroDivisionError), Cage(wanted) as cage:
        cage.run(write("three"))
        raise ZeroDivisionError
    assert action(cage) == "kept" and sorted(os.listdir(".")) == ["notes", "one"]
    with Cage(wanted) as cage:  # what still runs when the session is closed has not failed
        cage.run(write("four"))
        cage.spawn(["sleep", "60"])
    assert action(cage) == "committed"


def test_asyncio_has_the_same() -> None:
    async def act() -> list[str]:
        done = []
        async with AsyncCage(policy(on_exit="commit", on_error="abort")) as cage:
            await cage.run(write("one"))
        done.append(action(cage))
        try:
            async with AsyncCage(policy(on_exit="commit", on_error="abort")) as cage:
                await cage.run(write("two"))
                raise ZeroDivisionError
        except ZeroDivisionError:
            done.append(action(cage))
        return done

    assert asyncio.run(act()) == ["committed", "aborted"] and sorted(os.listdir(".")) == ["notes", "one"]


@pytest.mark.parametrize("script", [
    "echo x > a; echo y > Makefile", "echo x > a; echo '#!/bin/sh' > tool; chmod +x tool", "echo x > a; ln -s /etc out",
    "mkdir -p .vscode; echo x > .vscode/tasks.json", "echo x > conftest.py",
])  # fmt: skip
def test_what_carries_a_mark_is_committed_by_nobody_who_has_not_looked(script: str) -> None:
    with pytest.warns(UserWarning, match="somebody must look"), Cage(policy(on_exit="commit")) as cage:
        cage.run(["sh", "-c", script]).check()
    outcome = cage.workspace.outcome
    assert outcome is not None and outcome.action == "kept" and os.listdir(".") == ["notes"]
    with_marks = Workspace.open(outcome.kept)
    assert any(each.risk for each in with_marks.changes())
    with_marks.close()


def test_a_conflict_keeps_all_of_it() -> None:
    with Cage(policy(on_exit="commit")) as cage:
        cage.run(["sh", "-c", "echo two >> notes; echo x > new"]).check()
        Path("notes").write_text("mine\n")
    outcome = cage.workspace.outcome
    assert outcome is not None and (outcome.action, "meanwhile" in outcome.reason) == ("kept", True)
    assert Path("notes").read_text() == "mine\n" and not os.path.exists("new")


def test_what_can_neither_be_written_nor_kept_is_held(project: Path) -> None:
    state = project.parent / "state"
    with Cage(policy(on_exit="keep")) as cage:
        cage.run(write("new"))
        remove_tree(str(state))
        state.write_text("a file where a directory is wanted")
    assert action(cage) == "failed" and [each.path for each in cage.workspace.changes()] == ["new"]
    assert cage.workspace.outcome is not None and [each.path for each in cage.workspace.outcome.changes] == ["new"]
    state.unlink()
    cage.workspace.commit()
    assert os.path.exists("new")


@pytest.mark.parametrize("said", [
    {"on_exit": "abort", "workdir": "write"}, {"on_error": "abort", "allow_write": ["."]},
    {"on_error": "commit", "workdir": "cow"}, {"on_exit": "commit", "workdir": "cow", "monitor": True},
    {"on_exit": "commit", "workdir": "cow", "unguarded": [".git"]}, {"on_exit": "forget"},
])  # fmt: skip
def test_what_nobody_can_want_is_refused_by_name(said: dict[str, object]) -> None:
    with pytest.raises(PolicyError, match=r"workspace\.on_"):
        Policy(**said)  # type: ignore[arg-type]


def test_it_is_said_in_a_file_and_on_the_command_line_too(project: Path) -> None:
    import subprocess

    (project.parent / "own.toml").write_text('[filesystem]\nworkdir = "cow"\n[workspace]\non_exit = "commit"\n')
    environment = {**os.environ, "PYSANDBOX_AUDIT": "off"}

    def run(*arguments: str) -> str:
        ended = subprocess.run(
            ["pysandbox", "run", *arguments], capture_output=True, text=True, env=environment, check=False
        )
        return ended.stderr

    own = ("-r", str(project.parent / "own.toml"))
    assert "--undo" in run(*own, "--", *write("one")) and os.path.exists("one")
    assert "forgotten" in run(*own, "--dry-run", "--", *write("two"))
    assert "forgotten" in run(*own, "--on-exit", "abort", "--", *write("two"))
    assert "kept as" in run(*own, "--", *write("two", 1))
    assert "kept as" in run(*own, "--", "sh", "-c", "echo x > Makefile") and sorted(os.listdir(".")) == ["notes", "one"]


@pytest.mark.parametrize("again", [False, True])
def test_a_program_in_python_is_committed_without_what_its_interpreter_keeps(project: Path, again: bool) -> None:
    (project / "b.py").write_text("VALUE = 'of b'\n")
    (project / "a.py").write_text("import b, p.c\nopen('output', 'w').write(b.VALUE + p.c.VALUE)\n")
    (project / "p").mkdir()
    (project / "p" / "c.py").write_text("VALUE = ' and c'\n")
    if again:
        py_compile.compile("b.py")
        (project / "b.py").write_text("VALUE = 'of the later b'\n")
    time.sleep(0.1)
    with Cage(Policy(workdir="cow", on_exit="commit", allow=[sys.prefix, sys.base_prefix])) as cage:
        cage.run([sys.executable, "a.py"]).check()
    outcome = cage.workspace.outcome
    assert outcome is not None and (outcome.action, outcome.reason) == ("committed", "")
    assert (project / "output").read_text().endswith("b and c") and Workspace.kept() == []
    assert (project / "__pycache__").exists() == again and not (project / "p" / "__pycache__").exists()
    left = {os.path.relpath(each.path).partition(".cpython")[0] for each in outcome.left_out}
    assert {"__pycache__/b", "p/__pycache__", "p/__pycache__/c"} <= left
    assert any(each.path.endswith(".pyc") for each in outcome.changes), "CONTROL: they were made"


def test_whoever_looks_has_them_written(project: Path) -> None:
    with Cage(policy()) as cage:
        cage.run(["sh", "-c", "mkdir __pycache__; echo x > __pycache__/x.pyc"])
    cage.workspace.commit()
    assert os.listdir("__pycache__") == ["x.pyc"]
    cage.workspace.abort()


@pytest.mark.parametrize(("script", "said"), [
    ("echo x > Makefile", "first: `pysandbox commit` writes it, marks included"),
    ("echo x > .envrc", "marks included, and what is guarded by its path alone"),
])  # fmt: skip
def test_a_reason_says_what_to_do(script: str, said: str) -> None:
    with Cage(policy(on_exit="commit")) as cage:
        cage.run(["sh", "-c", script])
    outcome = cage.workspace.outcome
    assert outcome is not None and outcome.action == "kept" and outcome.reason.endswith(said)
    cage.workspace.abort()
