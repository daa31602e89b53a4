"""`pysandbox run --workdir cow` to its end: what it writes is looked at, and then written, taken back or forgotten."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from _support.projects import enter_project
from pysandbox.cli import explain
from pysandbox.launch.removal import remove_tree
from pysandbox.workspace import diff
from pysandbox.workspace.workspace import Workspace

SCRIPT = """
echo three >> notes; mkdir -p build; i=0; while [ $i -lt 15 ]; do echo $i > build/f$i; i=$((i+1)); done
echo x > .envrc; printf '#!/bin/sh\\n' > tool; chmod +x tool; printf '\\033[2J' > screen; rm gone
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter_project(tmp_path, monkeypatch, "one\ntwo\n")


def pysandbox(*arguments: str, code: int = 0, answers: str = "") -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(["pysandbox", *arguments], capture_output=True, text=True, input=answers, check=False)
    assert ended.returncode == code, (ended.stdout, ended.stderr)
    return ended


def meanwhile(meeting: Path, script: str, act: Callable[[], object], code: int) -> subprocess.CompletedProcess[str]:
    """Acts while the script waits in its cage: where nothing could be kept before, it would not be begun."""

    def at_the_meeting() -> None:
        while not (meeting / "begun").exists():
            time.sleep(0.01)
        act()
        (meeting / "go").touch()

    meeting.mkdir()
    waits = f"touch {meeting}/begun; while [ ! -e {meeting}/go ]; do sleep 0.01; done; {script}"
    thread = threading.Thread(target=at_the_meeting, daemon=True)
    thread.start()
    flags = ("--workdir", "cow", "--allow-write", str(meeting))
    try:
        return pysandbox("run", *flags, "--", "sh", "-c", waits, code=code)
    finally:
        (meeting / "begun").touch()
        thread.join()


def tree(project: Path) -> dict[str, bytes]:
    return {str(path.relative_to(project)): path.read_bytes() for path in project.rglob("*") if path.is_file()}


def test_it_is_told_kept_written_and_taken_back(project: Path) -> None:
    before = tree(project)
    said = pysandbox("run", "--workdir", "cow", "--", "sh", "-c", SCRIPT).stderr.splitlines()
    assert tree(project) == before
    assert said[1].split() == ["+", ".envrc", "2", "B", "[guarded]"]  # what may do harm comes first
    assert any("build/  15 files" in line for line in said)
    listed = {each["path"]: each for each in json.loads(pysandbox("diff", "--json").stdout)}
    assert listed["notes"]["kind"] == "modified" and len(listed["notes"]["digest"]) == 64
    patch = pysandbox("diff").stdout
    assert "+three\n" in patch and "\x1b" not in patch and "\\x1b[2J" in patch
    told = pysandbox("commit").stderr
    assert ".envrc: programs of the host obey it" in told
    after = tree(project)
    assert after["notes"] == b"one\ntwo\nthree\n" and after["build/f14"] == b"14\n"
    assert ".envrc" not in after and "gone" not in after and os.access(project / "tool", os.X_OK)
    pysandbox("commit", "--undo")
    assert tree(project) == before
    pysandbox("commit", "--path", ".envrc")
    assert (project / ".envrc").exists()
    pysandbox("discard")
    assert pysandbox("diff", code=125).stderr.count("no workspace is kept") == 1
    trail = b"".join(each.read_bytes() for each in (project.parent / "audit").rglob("*") if each.is_file())
    assert b"workspace.committed" in trail and b"workspace.kept" in trail


def test_a_dry_run_leaves_nothing(project: Path) -> None:
    before = tree(project)
    assert "dry run" in pysandbox("run", "--workdir", "cow", "--dry-run", "--", "sh", "-c", SCRIPT).stderr
    assert tree(project) == before
    pysandbox("diff", code=125)
    assert "--workdir cow" in pysandbox("run", "--dry-run", "--", "true", code=125).stderr


def test_a_conflict_writes_nothing_and_says_what(project: Path) -> None:
    pysandbox("run", "--workdir", "cow", "--", "sh", "-c", SCRIPT)
    (project / "notes").write_text("mine\n")
    before = tree(project)
    assert "notes: it was changed in the tree meanwhile" in pysandbox("commit", code=1).stderr
    assert tree(project) == before
    pysandbox("commit", "--on-conflict", "skip")
    assert (project / "notes").read_text() == "mine\n" and (project / "tool").exists()


def test_hunks_are_chosen_one_by_one(project: Path) -> None:
    text = [f"l{number}" for number in range(60)]
    (project / "big").write_text("\n".join(text) + "\n")
    time.sleep(0.02)
    pysandbox("run", "--workdir", "cow", "--", "sed", "-i", "s/^l2$/X/; s/^l50$/Y/", "big")
    pysandbox("commit", "-p", answers="n\ny\n")
    text[50] = "Y"
    assert (project / "big").read_text() == "\n".join(text) + "\n"
    assert pysandbox("diff", "--stat").stdout == "modified big | +1 -1\n"


def test_the_command_s_own_exit_code_stays(project: Path) -> None:
    pysandbox("run", "--workdir", "cow", "--", "sh", "-c", "echo x > new; exit 7", code=7)
    assert pysandbox("diff", "--stat").stdout == "added    new | +1 -0\n"


def test_a_tree_that_was_moved_is_refused_by_name(project: Path) -> None:
    pysandbox("run", "--workdir", "cow", "--", "sh", "-c", "echo x > new")
    project.rename(project.parent / "moved")
    project.mkdir()
    assert "has moved, or was replaced" in pysandbox("commit", code=125).stderr
    assert os.listdir(project) == []


def test_each_command_has_a_document_for_programs(project: Path) -> None:
    pysandbox("run", "--workdir", "cow", "--", "sh", "-c", "echo three >> notes; echo x > .envrc")
    (kept,) = json.loads(pysandbox("diff", "--list", "--json").stdout)
    assert kept["trees"] == [str(project)] and kept["command"].startswith("sh -c")
    done = json.loads(pysandbox("commit", "--json").stdout)
    assert [each["path"] for each in done["written"]] == ["notes"] and len(done["written"][0]["digest"]) == 64
    assert [each["path"] for each in done["skipped"]] == [".envrc"] and done["rest"] == 1
    undone = json.loads(pysandbox("commit", "--undo", "--json").stdout)
    assert undone == {"undone": done["commits"][0], "tree": str(project)}
    assert json.loads(pysandbox("discard", "--json").stdout) == {"forgotten": [kept["id"]]}
    pysandbox("run", "--workdir", "cow", "--", "sh", "-c", "echo three >> notes")
    (project / "notes").write_text("mine")
    failed = json.loads(pysandbox("commit", "--json", code=1).stdout)
    assert failed["written"] == [] and [each["path"] for each in failed["conflicts"]] == ["notes"]
    assert "choose one" in pysandbox("commit", "-p", "--json", code=125).stderr


def test_the_trail_and_the_page_of_the_run_have_what_became_of_it(project: Path) -> None:
    pysandbox("run", "--workdir", "cow", "--", "sh", "-c", "echo '<b>three' >> notes; echo x > new; echo x > .envrc")
    page = project.parent / "page.html"
    pysandbox("explain", "--last", "--html", str(page))
    assert "+&lt;b&gt;three" in page.read_text() and "<b>three" not in page.read_text()
    pysandbox("commit", "--path", "notes")  # by another process than the one of the run
    (run,) = map(json.loads, pysandbox("audit", "list", "--json").stdout.splitlines())
    assert [each["became"] for each in run["apart"]] == ["kept", "committed"]
    kept, committed = run["apart"]
    assert committed["paths"] == ["modified notes"] and committed["workspace"] == kept["workspace"]
    assert len(committed["digest"]) == len(kept["digest"]) == 64 and committed["digest"] != kept["digest"]
    pysandbox("explain", "--last", "--html", str(page))
    assert committed["digest"] in page.read_text() and "+x" in page.read_text() and "+&lt;b" not in page.read_text()
    pysandbox("discard")
    pysandbox("explain", "--last", "--html", str(page))
    assert "The changes" not in page.read_text()


def test_a_manifest_s_sandboxes_and_pipelines_keep_what_they_write(project: Path) -> None:
    (project / "pysandbox.toml").write_text("""
[sandbox.write]
recipes = ["python"]
command = "sh -c 'echo x > made; echo to the pipe'"
filesystem.workdir = "cow"
[sandbox.read]
recipes = ["python"]
command = "cat"
[sandbox.commit]
recipes = ["python"]
command = "sh -c 'echo x > formatted'"
filesystem.workdir = "cow"
workspace.on_exit = "commit"
[pipeline.both]
stages = ["write", "read"]
""")
    assert "kept as" in pysandbox("up", "write", "--trust").stderr
    said = pysandbox("up", "both", "--trust")
    assert said.stdout == "to the pipe\n" and "stage 'write'" in said.stderr and "kept as" in said.stderr
    assert "stage 'read'" not in said.stderr and len(pysandbox("diff", "--list").stdout.splitlines()) == 2
    pysandbox("up", "commit", "--trust")
    assert sorted(os.listdir(project)) == ["formatted", "gone", "notes", "pysandbox.toml"]


def test_a_commit_takes_paths_after_the_id(project: Path) -> None:
    pysandbox("run", "--workdir", "cow", "--", "sh", "-c", "echo 1 > one; echo 2 > two; echo 3 > three; echo 4 > four")
    assert "a path comes after the id: last PATH" in pysandbox("commit", "notes", code=125).stderr
    assert pysandbox("diff", "last", "one", "--stat").stdout == "added    one | +1 -0\n"
    pysandbox("commit", "last", "one", "two")
    pysandbox("commit", "last", "--json", "three")
    assert [(project / name).exists() for name in ("one", "two", "three", "four")] == [True, True, True, False]
    pysandbox("discard")


@pytest.mark.parametrize("place", ["/dev", "/proc", "/tmp"])
def test_what_is_the_cage_s_own_cannot_be_kept_apart(project: Path, place: str) -> None:
    refused = pysandbox("run", "--cow", place, "--", "true", code=125).stderr
    assert f"what is written to '{place}' cannot be kept apart: the cage has a {place} of its own" in refused


def test_a_commit_is_taken_back_by_enough_of_its_id_alone(project: Path) -> None:
    pysandbox("run", "--workdir", "cow", "--", "sh", "-c", "echo x > notes")
    (done,) = json.loads(pysandbox("commit", "--json").stdout)["commits"]
    written = tree(project)
    pysandbox("run", "--workdir", "cow", "--", "sh", "-c", "echo x > more")
    kept = json.loads(pysandbox("diff", "--list", "--json").stdout)[0]["id"]
    for text in ("", done[-1], done[-3:]):
        assert "too short for an id" in pysandbox("commit", "--undo", text, code=125).stderr
    for text in (kept, kept[-8:], done[1:-1]):
        assert "0 commits of the last hour" in pysandbox("commit", "--undo", text, code=125).stderr
    assert tree(project) == written
    pysandbox("commit", "--undo", done[-8:].lower())
    assert tree(project) != written


def test_no_more_of_a_patch_is_made_than_is_shown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pysandbox("run", "--workdir", "cow", "--", "sh", "-c", "for each in 1 2 3 4 5 6 7 8 9; do echo x > new$each; done")
    (kept,) = Workspace.kept()
    run = SimpleNamespace(apart=[SimpleNamespace(workspace=kept.id)])
    looked: list[object] = []
    lines_of = diff.lines_of
    monkeypatch.setattr(diff, "lines_of", lambda *given: looked.append(1) or lines_of(*given))
    assert len(explain._patch(run)) == 9 * 6 and len(looked) == 9, "CONTROL"  # type: ignore[arg-type]
    monkeypatch.setattr(explain, "MOST_LINES", 10)
    looked.clear()
    shown = explain._patch(run)  # type: ignore[arg-type]
    assert len(shown) == 11 and shown[-1] == f"... and more: pysandbox diff {kept.id[-8:]}" and len(looked) == 2


def test_a_tree_that_is_too_deep_costs_neither_the_rest_nor_the_exit_code(project: Path) -> None:
    script = "echo x > work; i=0; while [ $i -lt 90 ]; do mkdir $D && cd -P $D || exit 1; i=$((i+1)); done; exit 7"
    deep = f"D={'d' * 200}; {script}"
    assert "kept as" in pysandbox("run", "--workdir", "cow", "--", "bash", "-c", deep, code=7).stderr
    assert "a directory so deep in others is never written" in pysandbox("commit").stderr
    assert (project / "work").read_text() == "x\n"
    remove_tree(str(project / ("d" * 200)))


def test_what_cannot_be_kept_is_said_and_no_success(project: Path) -> None:
    """The command's own exit code stays where it is one of a failure."""
    place = project.parent / "state" / "pysandbox" / "workspaces"
    place.mkdir(parents=True, mode=0o700)
    (place.parent).chmod(0o700)
    for code, told in (("0", 125), ("7", 7)):
        place.chmod(0o700)
        script = f"echo x > work; exit {code}"
        assert "kept as" in pysandbox("run", "--workdir", "cow", "--", "sh", "-c", script, code=int(code)).stderr
        pysandbox("discard")
        said = meanwhile(project.parent / f"meeting-{code}", script, lambda: place.chmod(0o500), code=told).stderr
        place.chmod(0o700)
        assert "is lost" in said and "1 change" in said
