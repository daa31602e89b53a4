"""Several copy-on-write directories: each name means its own, and a commit writes to all of them or to none."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pysandbox import Cage, Policy
from pysandbox.errors import CommitConflict, CommitError
from pysandbox.workspace import commit as commit_module
from pysandbox.workspace import moves, store
from pysandbox.workspace.recovery import recover
from pysandbox.workspace.workspace import Workspace

BOTH = "echo HOSTILE > Makefile; echo harmless > $OTHER/Makefile"


@pytest.fixture(autouse=True)
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("PYSANDBOX_AUDIT", "off")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for file in ("Makefile", "notes"):
            (tmp_path / name / file).write_text(f"old {name}\n")
    monkeypatch.chdir(tmp_path / "a")
    monkeypatch.setenv("OTHER", str(tmp_path / "b"))
    time.sleep(0.1)
    return tmp_path / "a", tmp_path / "b"


def content(trees: tuple[Path, Path], name: str = "Makefile") -> list[str]:
    return [(tree / name).read_text().strip() for tree in trees]


def pysandbox(*arguments: str, answers: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(["pysandbox", *arguments], capture_output=True, text=True, input=answers, check=False)
    assert ended.returncode == code, (ended.stdout, ended.stderr)
    return ended


def run(script: str, trees: tuple[Path, Path]) -> str:
    return pysandbox("run", "--workdir", "cow", "--cow", str(trees[1]), "-e", "OTHER", "--", "sh", "-c", script).stderr


def written(script: str, trees: tuple[Path, Path], **more: Any) -> Cage:
    cage = Cage(Policy(workdir="cow", cow=[str(trees[1])], cow_mb=16, **more))
    cage.run(["sh", "-c", script.replace("$OTHER", str(trees[1]))]).check()
    return cage


@pytest.mark.parametrize(("answers", "after"), [
    ("n\ny\n", ["old a", "harmless"]), ("y\nn\n", ["HOSTILE", "old b"]), ("a\n", ["HOSTILE", "harmless"]),
    ("q\n", ["old a", "old b"]),
])  # fmt: skip
def test_each_answer_is_of_the_tree_that_was_asked_about(
    answers: str, after: list[str], trees: tuple[Path, Path]
) -> None:
    run(BOTH, trees)
    asked = pysandbox("commit", "-p", answers=answers).stderr
    assert f"write modified {trees[0]}/Makefile" in asked
    assert content(trees) == after


def test_each_tree_is_named_where_there_are_several(trees: tuple[Path, Path]) -> None:
    said = run(BOTH, trees)
    assert all(f"in {tree}:" in said for tree in trees)
    patch, lines = pysandbox("diff").stdout, pysandbox("diff", "--stat").stdout
    assert all(f"# in {tree}\n" in patch and f" {tree}/Makefile | +1 -1" in lines for tree in trees)
    pysandbox("discard")
    pysandbox("run", "--workdir", "cow", "--", "sh", "-c", "echo x > notes")  # CONTROL: of one tree
    assert "# in" not in pysandbox("diff").stdout and pysandbox("diff", "--stat").stdout.startswith("modified notes |")


def test_chosen_bytes_are_of_one_tree(trees: tuple[Path, Path]) -> None:
    cage = written(BOTH, trees)
    cage.workspace.commit(contents={"Makefile": b"first", f"{trees[1]}/Makefile": b"second"})
    assert content(trees) == ["first", "second"]
    cage.workspace.close()
    cage = written("echo one > notes; echo two > $OTHER/notes", trees)
    cage.workspace.commit(contents={f"{trees[1]}/notes": b"chosen"})
    assert content(trees, "notes") == ["one", "chosen"]


@pytest.mark.parametrize("said", ["Makefil", "notes", "$OTHER/notes", "$LINK/Makefile", "gone", "dir", "link", "/etc/x",
                                  "b/Makefile", "."])  # fmt: skip
def test_chosen_bytes_of_what_is_not_written_are_refused(said: str, trees: tuple[Path, Path], tmp_path: Path) -> None:
    """A slip in a name would have the cage's bytes written in place of those that were looked at."""
    (tmp_path / "link").symlink_to(trees[1])
    (trees[0] / "gone").write_text("old")
    time.sleep(0.1)
    cage = written(BOTH + "; rm gone; mkdir dir; ln -s dir link; mkfifo queue", trees)
    path = said.replace("$OTHER", str(trees[1])).replace("$LINK", str(tmp_path / "link"))
    with pytest.raises(ValueError, match=r"contents: .* is no file that this commit is to write: name a changed file"):
        cage.workspace.commit(contents={"Makefile": b"first", path: b"reviewed"})
    assert content(trees) == ["old a", "old b"]
    cage.workspace.commit(contents={"Makefile": b"first", f"{trees[1]}/./Makefile": b"second"})
    assert content(trees) == ["first", "second"]
    cage.workspace.close()


def test_chosen_bytes_beside_what_is_asked_for_are_refused(trees: tuple[Path, Path]) -> None:
    with Cage(Policy(workdir="read", cow=[str(trees[1])], cow_mb=16)) as cage:
        cage.run(["sh", "-c", f"echo cage > {trees[1]}/notes; echo cage > {trees[1]}/Makefile"]).check()
    name = str(trees[1] / "notes")
    with pytest.raises(ValueError, match="contents"):
        cage.workspace.commit([str(trees[1] / "Makefile")], contents={name: b"reviewed\n"})
    assert content(trees) == ["old a", "old b"]
    cage.workspace.commit([name], contents={"notes": b"reviewed\n"})  # CONTROL: the first copy-on-write tree
    assert content(trees, "notes") == ["old a", "reviewed"]
    cage.workspace.close()


def test_conflicts_of_all_trees_are_told(trees: tuple[Path, Path]) -> None:
    cage = written(CHANGES, trees)
    for tree in trees:
        (tree / "notes").write_text("the host's")
    with pytest.raises(CommitConflict) as raised:
        cage.workspace.commit()
    assert raised.value.tree == str(trees[0])
    assert [each.path for each in raised.value.conflicts] == ["notes", f"{trees[1]}/notes"]
    cage.workspace.close()


def test_hunks_are_of_the_tree_that_was_asked_about(trees: tuple[Path, Path]) -> None:
    text = [f"l{number}" for number in range(60)]
    for tree in trees:
        (tree / "big").write_text("\n".join(text) + "\n")
    time.sleep(0.1)
    run("sed -i 's/^l2$/X/; s/^l50$/Y/' big $OTHER/big", trees)
    pysandbox("commit", "-p", answers="n\ny\ny\nn\n")
    first, second = ((tree / "big").read_text().split() for tree in trees)
    assert (first[2], first[50], second[2], second[50]) == ("l2", "Y", "X", "l50")


def test_what_lies_in_an_accepted_directory_is_asked_about_by_itself(trees: tuple[Path, Path]) -> None:
    (trees[0] / "there").mkdir()
    time.sleep(0.1)
    run("mkdir new; echo x > new/good; echo x > new/refused; chmod 700 there; echo x > there/refused", trees)
    asked = [each["path"] for each in json.loads(pysandbox("diff", "--json").stdout)]
    pysandbox("commit", "-p", answers="".join("n\n" if "refused" in path else "y\n" for path in asked))
    assert os.listdir("new") == ["good"] and os.listdir("there") == []
    assert os.stat("there").st_mode & 0o777 == 0o700
    assert {each["path"] for each in json.loads(pysandbox("diff", "--json").stdout)} == {"new/refused", "there/refused"}


def test_what_is_left_is_told_by_a_path_that_means_its_own_tree(trees: tuple[Path, Path]) -> None:
    done = written("mkfifo queue $OTHER/queue", trees).workspace.commit()
    assert [each.path for each in done.skipped] == ["queue", f"{trees[1]}/queue"]


# ---- all or none ----------------------------------------------------------------------------------------------------


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "no room", "file")


def fails_for_the_second(step: Callable[..., Any]) -> Callable[..., Any]:
    calls = []

    def acted(*given: Any, **more: Any) -> Any:
        calls.append(1)
        return step(*given, **more) if len(calls) == 1 else full()

    return acted


CHANGES = "echo new > notes; echo fresh > fresh; echo new > $OTHER/notes; echo fresh > $OTHER/fresh; rm $OTHER/Makefile"
STEPS = [(commit_module, "stage_all"), (commit_module, "apply"), (commit_module.CommitJournal, "begin"),
         (commit_module.CommitJournal, "apply"), (commit_module.CommitJournal, "done"),
         (commit_module, "trait_of"), (commit_module, "_unchanged")]  # fmt: skip


@pytest.mark.parametrize(("where", "name"), STEPS, ids=lambda value: value if isinstance(value, str) else "")
def test_whatever_fails_in_one_tree_leaves_the_other_as_it_was(
    where: object, name: str, trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = CHANGES + ("; chmod 700 d $OTHER/d" if name == "trait_of" else "")
    for tree in trees:
        (tree / "d").mkdir()
    time.sleep(0.1)
    cage = written(changes, trees, on_exit="defer")
    before = content(trees, "notes"), [sorted(os.listdir(tree)) for tree in trees]
    with monkeypatch.context() as broken:
        broken.setattr(where, name, fails_for_the_second(getattr(where, name)))
        with pytest.raises(CommitError, match=r"no room.*nothing was written") as raised:
            cage.workspace.commit()
    assert raised.value.errno == errno.ENOSPC and raised.value.left == ()
    assert (content(trees, "notes"), [sorted(os.listdir(tree)) for tree in trees]) == before
    assert recover() == [] and store.names() == []
    done = cage.workspace.commit(on_conflict="force")  # CONTROL: nothing else stood in its way
    assert len(done.ids) == 2 and content(trees, "notes") == ["new", "new"]
    for name in reversed(done.ids):
        Workspace.undo(name)
    assert (content(trees, "notes"), [sorted(os.listdir(tree)) for tree in trees]) == before


def test_by_itself_it_is_all_or_nothing_too(trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_module, "stage_all", fails_for_the_second(commit_module.stage_all))
    with pytest.warns(UserWarning, match="nothing was written"):
        cage = written("echo new > notes; echo new > $OTHER/notes", trees, on_exit="commit")
    outcome = cage.workspace.outcome
    assert outcome is not None and (outcome.action, outcome.commits) == ("kept", ())
    assert content(trees, "notes") == ["old a", "old b"]
    monkeypatch.undo()


def test_what_cannot_be_taken_back_is_said_and_taken_back_later(
    trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    cage = written(CHANGES, trees)
    with monkeypatch.context() as broken:
        broken.setattr(commit_module, "apply", fails_for_the_second(commit_module.apply))
        broken.setattr(moves, "unmake", full)
        with pytest.raises(CommitError) as raised:
            cage.workspace.commit()
    ((name, tree),) = raised.value.left
    assert tree == str(trees[0]) and name in str(raised.value) and "nothing was written" not in str(raised.value)
    assert content(trees, "notes") == ["new", "old b"], "EVIDENCE: it could not be taken back"
    assert [each.outcome for each in recover()] == ["undone"]
    assert content(trees, "notes") == ["old a", "old b"] and store.names() == []
    assert [sorted(os.listdir(tree)) for tree in trees] == [["Makefile", "notes"]] * 2


def test_what_can_no_longer_be_looked_at_is_said_to_be_left(
    trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host renames the directory of what was written, before another tree fails."""
    (trees[0] / "d").mkdir()
    time.sleep(0.1)
    cage = written("echo new > d/fresh; echo new > $OTHER/fresh", trees)
    real, calls = commit_module.apply, []

    def renamed_behind(*given: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            os.rename(trees[0] / "d", trees[0] / "elsewhere")
            full()
        real(*given)

    with monkeypatch.context() as broken:
        broken.setattr(commit_module, "apply", renamed_behind)
        with pytest.raises(CommitError) as raised:
            cage.workspace.commit()
    assert [tree for _, tree in raised.value.left] == [str(trees[0])]
    assert "nothing was written" not in str(raised.value)
    assert (trees[0] / "elsewhere" / "fresh").read_text() == "new\n", "EVIDENCE: it was written"
    os.rename(trees[0] / "elsewhere", trees[0] / "d")
    assert [each.outcome for each in recover()] == ["undone"] and os.listdir(trees[0] / "d") == []
    cage.workspace.close()


def test_a_directory_that_went_before_anything_was_written_is_a_conflict(
    trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (trees[1] / "d").mkdir()
    time.sleep(0.1)
    cage = written("echo new > fresh; echo new > $OTHER/d/fresh", trees)
    real, calls = commit_module.apply, []

    def renamed_before(*given: Any) -> None:
        calls.append(1)
        if len(calls) == 2:
            os.rename(trees[1] / "d", trees[1] / "elsewhere")
        real(*given)

    with monkeypatch.context() as broken:
        broken.setattr(commit_module, "apply", renamed_before)
        with pytest.raises(CommitConflict, match="nothing was written"):
            cage.workspace.commit()
    assert not (trees[0] / "fresh").exists() and not (trees[1] / "elsewhere" / "fresh").exists()
    os.rename(trees[1] / "elsewhere", trees[1] / "d")
    recover()
    assert os.listdir(trees[1] / "d") == []
    cage.workspace.close()


@pytest.mark.parametrize("script", ["echo new > notes", "mkdir d; echo new > d/notes", "chmod 700 there"])
def test_the_file_is_named_whose_attributes_have_no_room(
    script: str, trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    (trees[0] / "there").mkdir()
    time.sleep(0.1)
    cage = written(script, trees)

    def no_room(fd: int, mode: int) -> None:
        raise OSError(errno.ENOSPC, "no room", fd)

    with monkeypatch.context() as broken:
        broken.setattr(os, "fchmod", no_room)
        with pytest.raises(CommitError, match=r"no room: '(d/)?(notes|there)'"):
            cage.workspace.commit()
    cage.workspace.close()
