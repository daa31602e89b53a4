"""A copy-on-write directory in sessions and single commands, beside each other option, and what becomes of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pysandbox import Cage, Policy
from pysandbox.errors import (
    CageClosedError,
    CommitConflict,
    CommitError,
    PolicyError,
    SandboxCompileError,
    UnsupportedError,
)
from pysandbox.probe.kernel import version

WORK = "mv old new && echo more >> new/file && echo made > made && rm gone && cat new/file"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / "tree"
    (top / "old").mkdir(parents=True)
    (top / "old" / "file").write_text("one\n")
    (top / "gone").write_text("gone\n")
    time.sleep(0 if version() >= (6, 13) else 0.1)  # until then what is made in the last ticks counts as changed later
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return top


def rules(tree: Path, **more: object) -> Policy:
    return Policy(cow=[str(tree)], **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("beside", [
    {}, {"run_as": "root"}, {"run_as": "self"}, {"strict": True}, {"why": True}, {"monitor": True},
    {"state": "scratch"}, {"memory_mb": 512, "cow_mb": 64}, {"max_pids": 50}, {"write_mb": 64}, {"scm_rights": "deny"},
    {"deny": ["**/secret"]}, {"mask": ["made/deeper"]}, {"unguarded": [".git"]},
    {"egress": "direct", "unsafe_direct": True}, {"storage": "copy"}, {"storage": "copy", "run_as": "root"},
    {"storage": "copy", "run_as": "self"}, {"storage": "copy", "why": True, "monitor": True},
    {"storage": "copy", "deny": ["**/secret"]}, {"storage": "copy", "write_mb": 64, "cow_mb": 64},
    {"isolation": "landlock", "run_as": "self"}, {"isolation": "landlock", "run_as": "self", "max_pids": 50},
    {"isolation": "landlock", "run_as": "self", "deny": ["**/secret"], "monitor": True},
], ids=lambda beside: "-".join(beside) or "alone")  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_it_is_the_same_beside_each_other_option(tree: Path, beside: dict[str, object]) -> None:
    cage = Cage(rules(tree, **beside))
    result = cage.run(["sh", "-c", WORK], cwd=str(tree))
    assert (result.exit_code, result.stdout) == (0, "one\nmore\n"), result.stderr
    assert sorted(each.name for each in tree.iterdir()) == ["gone", "old"]
    assert {each.path for each in cage.workspace.changes()} >= {"made", "gone", "new/file"}
    cage.workspace.abort()
    assert (tree / "old" / "file").read_text() == "one\n"


def test_a_session_keeps_what_it_wrote_until_somebody_decides(tree: Path) -> None:
    with Cage(rules(tree)) as cage:
        cage.run(["sh", "-c", WORK], cwd=str(tree))
        assert cage.run(["cat", f"{tree}/made"]).stdout == "made\n"
        with pytest.raises(CommitError, match="may still write"):
            cage.workspace.commit()
        cage.pause()
        cage.workspace.commit(["made"])
        cage.resume()
        cage.run(["sh", "-c", f"echo again > {tree}/made"])
    assert (tree / "made").read_text() == "made\n" and (tree / "gone").exists()
    cage.workspace.commit()
    assert (tree / "made").read_text() == "again\n"
    assert sorted(each.name for each in tree.iterdir()) == ["made", "new"]
    assert (tree / "new" / "file").read_text() == "one\nmore\n"


def test_several_cages_try_and_one_is_committed(tree: Path) -> None:
    cages = [Cage(rules(tree)) for _ in range(3)]
    for number, cage in enumerate(cages):
        cage.run(["sh", "-c", f"echo {number} > {tree}/answer"])
    cages[1].workspace.commit()
    assert (tree / "answer").read_text() == "1\n"
    with pytest.raises(CommitConflict, match="answer"):
        cages[2].workspace.commit()
    assert (tree / "answer").read_text() == "1\n"


def test_a_user_without_a_home_is_told_where_commits_could_be_kept(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    cage = Cage(rules(tree))
    cage.run(["sh", "-c", f"echo 2 > {tree}/answer"])
    with pytest.raises(CommitError, match="set XDG_STATE_HOME to a directory that is yours alone"):
        cage.workspace.commit()
    assert not (tree / "answer").exists()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    cage.workspace.commit()
    assert (tree / "answer").read_text() == "2\n"


def test_who_has_none_is_told(tree: Path) -> None:
    with pytest.raises(UnsupportedError, match="keeps nothing apart"):
        _ = Cage(Policy()).workspace
    with pytest.raises(CageClosedError, match="nothing was written yet"):
        _ = Cage(rules(tree)).workspace
    with pytest.raises(PolicyError, match="detached"):
        Cage(rules(tree)).detach(["true"])


def test_a_directory_with_a_mount_below_it_is_refused_by_name() -> None:
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    places = sorted({os.path.dirname(line.split()[4]) for line in lines})
    own = ("/", "/dev", "/proc", "/tmp")
    above = next((each for each in places if each not in own and not each.startswith(("/dev/", "/proc/"))), None)
    if above is None:
        pytest.skip("nothing is mounted below a directory here")
    with pytest.raises(SandboxCompileError, match="without mounts below it"):
        Cage(Policy(cow=[above])).run(["true"])
