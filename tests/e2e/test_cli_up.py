"""`pysandbox up`: a sandbox of the project's manifest, as users have it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LIMIT = 60  # seconds after which a test is stuck
MANIFEST = """
[sandbox.zeta]
description = "the last"
recipes = ["python"]
command = "sh -c 'pwd; exit 3'"

[sandbox.alpha]
recipes = ["python"]
command = ["echo", "in alpha"]
[sandbox.alpha.resources]
walltime_sec = 60

[sandbox.look]
recipes = ["python"]
command = "sh -c 'wc -c < pysandbox.toml; touch made; rm -f pysandbox.toml; echo x > pysandbox.toml'"

[sandbox.wide]
recipes = ["python"]
command = "ls /opt"
[sandbox.wide.filesystem]
allow = ["/opt"]
"""

Up = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    (directory / "below" / "deeper").mkdir(parents=True)
    (directory / "pysandbox.toml").write_text(MANIFEST)
    return directory


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYSANDBOX_AUDIT", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def recipe(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pysandbox", "recipe", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)


@pytest.fixture
def up(project: Path, state: Path) -> Up:
    """`pysandbox up` for a user who trusts whatever the manifest says, unless `trusted` is false."""

    def up(
        *arguments: str, cwd: Path = project, trusted: bool = True, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        if trusted and (project / "pysandbox.toml").exists():
            recipe("trust", "--yes", str(project / "pysandbox.toml"))
        command = [sys.executable, "-m", "pysandbox", "up", *arguments]
        return subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, **options
        )

    return up


def test_without_a_name_it_is_the_alphabetically_first_and_says_so(up: Up, project: Path) -> None:
    done = up()
    assert (done.returncode, done.stdout) == (0, "in alpha\n")
    assert done.stderr == f"pysandbox: sandbox 'alpha' of {project}/pysandbox.toml\n"


def test_a_name_runs_that_one_where_the_manifest_lies(up: Up, project: Path) -> None:
    done = up("zeta", cwd=project / "below" / "deeper")
    assert (done.returncode, done.stdout, done.stderr) == (3, f"{project}\n", "")


def test_the_manifest_is_neither_read_nor_written_from_inside(up: Up, project: Path) -> None:
    done = up("look")
    assert done.stdout == "0\n"
    assert (project / "made").exists()  # the control: the directory itself is writable
    assert (project / "pysandbox.toml").read_text() == MANIFEST


def test_leak_detection_of_the_project_holds_in_each_sandbox(up: Up, project: Path) -> None:
    """A cage that is scanned finds false credentials in its variables."""
    sandbox = '[sandbox.%s]\nrecipes = ["base"]\ncommand = "env"\n[[sandbox.%s.host]]\ndomain = "origin.example"\n'
    said = sandbox % ("one", "one") + sandbox % ("two", "two")
    found = {}
    for more in ("", "[network.dlp]\nenabled = true\n"):
        (project / "pysandbox.toml").write_text(said + more)
        found[more] = ["PYSANDBOX_CANARY" in up("--trust", name).stdout for name in ("one", "two")]
    assert list(found.values()) == [[False, False], [True, True]]


def test_dry_run_prints_the_merged_policy_and_runs_nothing(up: Up, project: Path) -> None:
    done = up("wide", "--dry-run", "--strict")
    assert done.returncode == 0
    assert "# command: ls /opt" in done.stdout
    assert "# recipes: python" in done.stdout
    assert '"/opt"' in done.stdout
    assert "strict = true" in done.stdout
    assert "~/.pyenv" in done.stdout  # of the recipe
    assert up("look", "--dry-run").returncode == 0
    assert not (project / "made").exists()


def test_dry_run_is_a_document_for_a_program(up: Up) -> None:
    document = json.loads(up("alpha", "--dry-run", "--json").stdout)
    assert (document["sandbox"], document["argv"], document["recipes"]) == ("alpha", ["echo", "in alpha"], ["python"])
    assert document["policy"]["walltime_sec"] == 60


def test_json_captures_the_run(up: Up) -> None:
    document = json.loads(up("alpha", "--json").stdout)
    assert (document["stdout"], document["exit_code"]) == ("in alpha\n", 0)


def test_a_manifest_that_nobody_looked_at_runs_nothing_and_says_what_it_would_do(up: Up, project: Path) -> None:
    for name in ("wide", "alpha"):
        done = up(name, trusted=False)
        assert (done.returncode, done.stdout) == (125, "")
    done = up("wide", trusted=False)
    assert f"{project}/pysandbox.toml comes with the project, and you have not trusted it" in done.stderr
    assert "it would run 'ls /opt' with python and grant more than a bare run has in filesystem.allow" in done.stderr
    assert "/opt." in done.stderr
    assert up("wide", "--trust", trusted=False).returncode == 0
    assert up("wide", trusted=False).returncode == 125  # it was for once


def test_trust_is_in_the_manifest_as_it_was_read(up: Up, project: Path) -> None:
    hint = up("wide", trusted=False).stderr.partition("trust it: ")[2].partition(";")[0]
    assert hint == f"pysandbox recipe trust {project}/pysandbox.toml"
    shown = recipe("trust", "--yes", str(project / "pysandbox.toml"))
    assert shown.returncode == 0
    assert "grants more in: filesystem.allow" in shown.stdout
    assert "sandbox wide" in shown.stdout
    assert up("wide", trusted=False).returncode == up("alpha", trusted=False).returncode == 0
    (project / "pysandbox.toml").write_text(MANIFEST.replace('"ls /opt"', '"ls /opt /"'))
    done = up("alpha", trusted=False)
    assert done.returncode == 125
    assert "has changed since you trusted it" in done.stderr


def test_a_published_port_is_asked_for_by_the_user(up: Up) -> None:
    done = up("alpha", "--dry-run", "-p", "8080:80")
    assert done.returncode == 0
    assert '"127.0.0.1:8080:80/tcp"' in done.stdout


def test_no_sandbox_holds_whatever_the_manifest_says(up: Up, project: Path) -> None:
    strict = MANIFEST.replace('command = ["echo"', 'strict = true\ncommand = ["echo"')
    (project / "pysandbox.toml").write_text(strict)
    assert up("alpha", "--no-sandbox", trusted=False).returncode == 125
    done = up("alpha", "--no-sandbox")
    assert (done.returncode, done.stdout) == (0, "in alpha\n")
    assert "NO CAGE" in done.stderr


def test_a_run_is_in_the_audit_with_the_sandbox_and_its_recipes(up: Up, state: Path) -> None:
    assert up("zeta").returncode == 3
    assert up("alpha", "--no-audit").returncode == 0
    lines = (state / "pysandbox" / "audit" / "events.jsonl").read_text().splitlines()
    (spawn,) = [record["data"] for record in map(json.loads, lines) if record["type"] == "subagent.spawn"]
    assert (spawn["subagent_name"], spawn["recipes"]) == ("zeta", ["python"])
    assert spawn["cage_summary"].startswith("cage[zeta@")


def test_monitor_and_strict_exclude_each_other_also_in_a_manifest(up: Up, project: Path) -> None:
    (project / "pysandbox.toml").write_text(MANIFEST.replace('"the last"', '"the last"\nstrict = true'))
    assert up("zeta").returncode == 3  # the control
    done = up("zeta", "--monitor")
    assert (done.returncode, done.stdout) == (125, "")
    assert "monitor" in done.stderr and "strict" in done.stderr


def test_no_manifest_names_where_it_was_looked_for_and_suggests_run(up: Up, tmp_path: Path) -> None:
    done = up(cwd=tmp_path)
    assert done.returncode == 125
    assert repr(str(tmp_path)) in done.stderr
    assert "pysandbox run -- COMMAND" in done.stderr


def test_an_unknown_name_lists_what_there_is(up: Up) -> None:
    done = up("zetta")
    assert done.returncode == 125
    assert "there are alpha, look, wide, zeta" in done.stderr
    assert 'did you mean "zeta"?' in done.stderr


@pytest.mark.parametrize("flags", [["--monitor", "-s"], ["-p", "port:80"], ["--json", "--pty"], ["--alow", "/"]])
def test_what_it_cannot_do_runs_nothing(up: Up, flags: list[str]) -> None:
    done = up(*flags)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr.startswith("pysandbox: error: ")


def test_strict_only_tightens(up: Up, project: Path) -> None:
    (project / "pysandbox.toml").write_text(
        '[sandbox.a]\nrecipes = ["./strict.toml"]\nstrict = false\n'
        'command = ["/usr/bin/python3", "-c", "import os; os.unshare(0) if hasattr(os, \'unshare\') else '
        "__import__('ctypes').CDLL(None).unshare(0)\"]\n"
    )
    (project / "strict.toml").write_text("strict = true\n")
    assert up("a").returncode == 128 + 31


@pytest.mark.root
def test_a_manifest_of_another_user_is_refused(up: Up, project: Path) -> None:
    os.chown(project / "pysandbox.toml", 65534, 65534)
    done = up("alpha")
    assert (done.returncode, done.stdout) == (125, "")
    assert "belongs to another user" in done.stderr


def test_a_manifest_that_everybody_may_write_is_refused(up: Up, project: Path) -> None:
    (project / "pysandbox.toml").chmod(0o666)
    assert "can be written by everybody" in up("alpha").stderr


def test_the_home_directory_is_as_far_up_as_it_goes(project: Path) -> None:
    from pysandbox.policy.manifest_file import find_manifest

    below = str(project / "below" / "deeper")
    assert find_manifest(below) == f"{project}/pysandbox.toml"
    assert find_manifest(below, home=str(project / "below")) is None


def test_the_sandboxes_are_listed_and_nothing_is_run(up: Up, project: Path) -> None:
    done = up("--list")
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["alpha", "look", "wide", "zeta"]
    assert "the last: sh -c 'pwd; exit 3'" in done.stdout
    listed = json.loads(up("--list", "--json").stdout)
    assert listed["first"] == "alpha"
    assert listed["sandboxes"][0]["argv"] == ["echo", "in alpha"]
    assert not (project / "made").exists()


PIPELINE = """
[[pipeline.loud.stage]]
sandbox = "alpha"

[[pipeline.loud.stage]]
sandbox = "zeta"
command = "tr a-z A-Z"

[pipeline.bad]
stages = ["alpha", "zeta"]

[[pipeline.slow.stage]]
sandbox = "alpha"
command = "sleep 60"
[[pipeline.slow.stage]]
sandbox = "alpha"
command = "cat"

[[pipeline.gone.stage]]
sandbox = "alpha"
[[pipeline.gone.stage]]
sandbox = "zeta"
command = "no-such-program"
"""


def test_a_pipeline_is_run_by_its_name(up: Up, project: Path) -> None:
    (project / "pysandbox.toml").write_text(MANIFEST + PIPELINE)
    done = up("loud")
    assert (done.returncode, done.stdout) == (0, "IN ALPHA\n"), done.stderr
    told = json.loads(up("loud", "--json").stdout)
    assert told["stdout"] == "IN ALPHA\n" and told["ok"] is True
    assert [each["argv"][0] for each in told["stages"]] == ["echo", "tr"]
    assert up("bad").returncode == 3
    assert up("slow", "--timeout", "0.5").returncode == 124
    missing = up("gone")
    assert missing.returncode == 127 and "'no-such-program' was not found" in missing.stderr
    assert "loud   echo 'in alpha' | tr a-z A-Z" in up("--list").stdout
    assert up("loud", "--dry-run").stdout.count("# sandbox: ") == 2
    assert "pty is of one sandbox" in up("loud", "--pty").stderr


def test_nobody_is_asked_to_run_a_stage_that_was_not_looked_at(up: Up, project: Path) -> None:
    (project / "pysandbox.toml").write_text(MANIFEST + PIPELINE)
    done = up("loud", trusted=False)
    assert done.returncode == 125 and "you have not trusted it" in done.stderr and not done.stdout
    assert "runs: tr a-z A-Z" in recipe("trust", "--yes", str(project / "pysandbox.toml")).stdout


def test_who_failed_is_told_keys_of_the_manifest_which_are_what_up_reads(up: Up, project: Path) -> None:
    (project.parent / "outside").write_text("x")
    failing = f"[sandbox.a]\nrecipes = ['base']\ncommand = 'cat {project.parent}/outside'\n"
    piped = "[pipeline.p]\nstages = ['a', 'b']\n[sandbox.b]\nrecipes = ['base']\ncommand = 'cat'\n"
    manifest = project / "pysandbox.toml"
    manifest.write_text(failing + piped)
    key = f'filesystem.allow = ["{project.parent}/outside"]'
    for name in ("a", "p"):
        assert f"to allow it: {key}, or " in up(name).stderr
    manifest.write_text(f"{failing}{key}\n{piped}")
    assert [up(name).stdout for name in ("a", "p")] == ["x", "x"]
