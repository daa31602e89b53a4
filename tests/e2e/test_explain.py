"""`pysandbox explain`: a policy in sentences, a run with its refusals, the line that goes into a recipe."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from pysandbox.audit import AuditLog
from pysandbox.policy.recipe import shipped_file

MODULE = [sys.executable, "-m", "pysandbox"]
FIX = 'filesystem.allow = ["/srv/data"]'


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """A run that was refused something twice."""
    path = tmp_path / "audit" / "events.jsonl"
    denied = {"invocation_id": "01HXAA", "command": 1, "kind": "open", "target": "/srv/data", "rule": "not granted"}
    with AuditLog(path) as log:
        log.append("subagent.spawn", {"invocation_id": "01HXAA", "command": 1, "argv": ["cat", "/srv/data"]})
        for _ in range(2):
            log.append("cage.denied", {**denied, "fix": FIX})
        log.append("subagent.exit", {"invocation_id": "01HXAA", "command": 1, "exit_code": 1, "duration_ms": 3})
    return path


def explain(*arguments: str, folder: Path, **options: object) -> subprocess.CompletedProcess[str]:
    settings = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60} | options
    return subprocess.run([*MODULE, "explain", *arguments], cwd=folder, **settings)  # type: ignore[call-overload, no-any-return]


def test_a_policy_is_explained_with_what_is_weaker_here(tmp_path: Path) -> None:
    done = explain("--workdir", "read", "--walltime", "9", "--", "make", "-q", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("cage[make@-] fs=ro:. net=none")
    for heading in ("Reads", "Writes", "Runs", "Reaches", "Uses", "Time", "Weaker on this host"):
        assert f"\n{heading}\n" in done.stdout
    assert "stopped after 9 s" in done.stdout


def test_a_policy_is_explained_to_a_program(tmp_path: Path) -> None:
    document = json.loads(explain("-r", "python", "--json", folder=tmp_path).stdout)
    assert document["summary"].startswith("cage[policy@-] ")
    assert document["topics"]["Reaches"] == ["There is no network but the cage's own loopback."]


def test_what_this_host_cannot_do_is_an_explanation_too(tmp_path: Path) -> None:
    done = explain("--isolation", "landlock", "--cpu-percent", "5", folder=tmp_path)
    assert done.returncode == 0
    assert "It cannot run: " in done.stdout or "Weaker on this host" in done.stdout


def test_a_directory_that_run_refuses_is_refused_with_the_same_words() -> None:
    """In /tmp nothing is shown: the cage has its own."""
    run = subprocess.run([*MODULE, "run", "--", "true"], cwd="/tmp", capture_output=True, text=True, timeout=60)
    for arguments in ((), ("--", "true"), ("--json", "--", "true")):
        done = explain(*arguments, folder=Path("/tmp"))
        assert (done.returncode, done.stdout, done.stderr) == (125, "", run.stderr)
    assert "'/tmp' cannot be shown" in run.stderr


def test_a_run_is_explained_with_each_refusal_and_the_line_for_it(stream: Path, tmp_path: Path) -> None:
    done = explain("01HXAA", "--path", str(stream), folder=tmp_path)
    assert "open /srv/data  (2 times)" in done.stdout
    assert "by: not granted" in done.stdout
    assert f"pysandbox.toml:\n        [[also]]\n        {FIX}" in done.stdout
    assert "as a flag: --allow /srv/data" in done.stdout


def test_the_line_is_written_into_a_recipe_after_showing_the_change(stream: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text('# ours\n[filesystem]\nallow = ["/a"]  # one\n')
    recipe.chmod(0o640)
    done = explain("--last", "--path", str(stream), "--apply", "mine.toml", "--yes", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert '+allow = ["/a", "/srv/data"]  # one' in done.stdout
    assert recipe.read_text() == '# ours\n[filesystem]\nallow = ["/a", "/srv/data"]  # one\n'
    assert recipe.stat().st_mode & 0o777 == 0o640
    again = explain("--last", "--path", str(stream), "--apply", "mine.toml", "--yes", folder=tmp_path)
    assert "allows all of it already" in again.stdout
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit", "mine.toml"]


def test_without_a_yes_nothing_is_written(stream: Path, tmp_path: Path) -> None:
    done = explain("--last", "--path", str(stream), "--apply", "mine.toml", folder=tmp_path)
    assert done.returncode == 1
    assert "--yes" in done.stderr
    assert not (tmp_path / "mine.toml").exists()


@pytest.mark.parametrize(("answer", "written"), [("y\n", True), ("\n", False), ("no\n", False)])
def test_a_terminal_is_asked(stream: Path, tmp_path: Path, answer: str, written: bool) -> None:
    master, slave = pty.openpty()
    try:
        os.write(master, answer.encode())
        explain("--last", "--path", str(stream), "--apply", "mine.toml", folder=tmp_path, stdin=slave)
    finally:
        os.close(master)
        os.close(slave)
    assert (tmp_path / "mine.toml").exists() == written


def test_a_link_to_a_recipe_stays_a_link(stream: Path, tmp_path: Path) -> None:
    (tmp_path / "real.toml").write_text("")
    (tmp_path / "link.toml").symlink_to("real.toml")
    explain("--last", "--path", str(stream), "--apply", "link.toml", "--yes", folder=tmp_path)
    assert (tmp_path / "link.toml").is_symlink()
    assert "/srv/data" in (tmp_path / "real.toml").read_text()


def test_a_directory_that_is_not_there_is_named(stream: Path, tmp_path: Path) -> None:
    done = explain("--last", "--path", str(stream), "--apply", "none/mine.toml", "--yes", folder=tmp_path)
    assert done.returncode == 125
    assert "mine.toml cannot be written (No such file or directory)" in done.stderr
    assert ".new" not in done.stderr


@pytest.mark.parametrize("place", [shipped_file("python"), "/etc/pysandbox/mine.toml", "link"])
def test_a_shipped_or_system_recipe_is_never_edited(stream: Path, tmp_path: Path, place: str) -> None:
    if place == "link":
        (tmp_path / "link").symlink_to(shipped_file("base"))
    before = Path(shipped_file("base")).read_bytes()
    done = explain("--last", "--path", str(stream), "--apply", place, "--yes", folder=tmp_path)
    assert done.returncode == 125
    assert "is not edited" in done.stderr
    assert Path(shipped_file("base")).read_bytes() == before


def test_a_recipe_is_called_by_its_name_too(stream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    recipe = tmp_path / "config" / "pysandbox" / "recipes" / "mine.toml"
    recipe.parent.mkdir(parents=True)
    recipe.touch()
    done = explain("--last", "--path", str(stream), "--apply", "mine", "--yes", folder=tmp_path)
    assert done.returncode == 0 and "/srv/data" in recipe.read_text(), done.stderr
    other = explain("--last", "--path", str(stream), "--apply", "mien", "--yes", folder=tmp_path)
    assert other.returncode == 125 and 'did you mean "mine"?' in other.stderr
    shipped = explain("--last", "--path", str(stream), "--apply", "python", "--yes", folder=tmp_path)
    assert shipped.returncode == 125 and "ships with pysandbox and is not edited" in shipped.stderr
