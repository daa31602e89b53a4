"""The layers of a cage that waits for its command are open; the workspace itself is opened with the command."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from pysandbox import Cage, Policy, Runtime
from pysandbox.errors import CommitConflict
from pysandbox.launch import native
from pysandbox.probe.kernel import version
from pysandbox.workspace import apart
from pysandbox.workspace.workspace import Workspace

APPEND = ["sh", "-c", 'echo cage >> "$0/file"']


@pytest.fixture
def runtime() -> Iterator[Runtime]:
    made = Runtime()
    yield made
    made.drain()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    top = tmp_path / "tree"
    top.mkdir()
    (top / "file").write_text("one\n")
    return top


def waiting(runtime: Runtime, tree: Path, **more: object) -> Cage:
    """A cage whose cage-init waits already."""
    policy = Policy(cow=[str(tree)], **more)  # type: ignore[arg-type]
    Cage(policy, runtime=runtime).run(["/bin/true"]).check()
    runtime.wait_idle()
    assert runtime.is_warm(policy, os.getcwd())
    return Cage(policy, runtime=runtime)


def descriptors() -> set[tuple[str, str]]:
    """Each with what it is: what an earlier test closes meanwhile does not count."""
    gc.collect()
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # that of the list itself
            found.add((fd, os.readlink(f"/proc/self/fd/{fd}")))
    return found


def test_who_waits_for_a_command_opens_no_layer(runtime: Runtime, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    described: list[object] = []
    real, hidden = native.open_inside, apart._hidden

    def counted(root_fd: int, path: str, *rest: int, **more: object) -> int:
        opened.append(threading.current_thread().name)
        return real(root_fd, path, *rest, **more)  # type: ignore[arg-type]

    cage = waiting(runtime, tree)
    monkeypatch.setattr(native, "open_inside", counted)
    monkeypatch.setattr(apart, "_hidden", lambda prepared: described.append(1) or hidden(prepared))  # type: ignore[func-returns-value]
    cage.run([*APPEND, str(tree)]).check()
    assert threading.current_thread().name not in opened and not described
    runtime.wait_idle()
    assert opened, "control: the worker has, for the next cage"
    assert [each.path for each in cage.workspace.changes()] == ["file"] and described


@pytest.mark.skipif(version() < (6, 13), reason="what changed in the last ticks counts as later")
def test_what_the_host_changes_while_the_cage_waits_is_no_conflict(runtime: Runtime, tree: Path) -> None:
    cage = waiting(runtime, tree)
    (tree / "file").write_text("host\n")
    cage.run([*APPEND, str(tree)]).check()
    assert cage.workspace.commit().written
    assert (tree / "file").read_text() == "host\ncage\n", "and the cage has seen it"


def test_what_the_host_changes_once_the_command_runs_is_a_conflict(runtime: Runtime, tree: Path) -> None:
    cage = waiting(runtime, tree)
    with cage:
        (tree / "file").write_text("host\n")
        cage.run([*APPEND, str(tree)]).check()
    with pytest.raises(CommitConflict):
        cage.workspace.commit()
    assert (tree / "file").read_text() == "host\n"


def test_a_tree_that_was_replaced_while_the_cage_waits_is_the_new_one(runtime: Runtime, tree: Path) -> None:
    cage = waiting(runtime, tree)
    tree.rename(tree.with_name("before"))
    tree.mkdir()
    (tree / "file").write_text("another\n")
    cage.run([*APPEND, str(tree)]).check()
    assert cage.workspace.commit(on_conflict="force").written
    assert (tree / "file").read_text() == "another\ncage\n"
    assert (tree.with_name("before") / "file").read_text() == "one\n"


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_descriptors_go_with_what_was_open_for_nobody(runtime: Runtime, tree: Path, storage: str) -> None:
    waiting(runtime, tree, storage=storage, cow_mb=16)
    runtime.drain()
    before = descriptors()
    cage = waiting(runtime, tree, storage=storage, cow_mb=16)
    assert descriptors() - before, "control"
    runtime.drain()
    assert cage.run([*APPEND, str(tree)]).exit_code == 0
    runtime.drain()
    del cage
    deadline = time.monotonic() + 20
    while descriptors() - before and time.monotonic() < deadline:  # a thread of another test may have one for a moment
        time.sleep(0.05)
    assert descriptors() - before == set()


def test_a_workspace_that_nobody_asked_for_outlives_its_cage(runtime: Runtime, tree: Path) -> None:
    cage = waiting(runtime, tree)
    cage.run([*APPEND, str(tree)]).check()
    runtime.drain()
    found = [threading.Thread(target=cage.workspace.changes) for _ in range(4)]
    for each in found:
        each.start()
    for each in found:
        each.join()
    assert "+cage" in cage.workspace.diff()
    cage.workspace.abort()
    assert (tree / "file").read_text() == "one\n"


def test_whoever_asks_for_the_workspace_gets_the_same(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many threads ask at once: changes of two workspaces of one cage would be committed twice."""
    made: list[object] = []

    def slowly(self: Workspace, *given: object, **named: object) -> None:
        made.append(self)
        time.sleep(0.1)

    with Cage(Policy(cow=[str(tree)])) as cage:
        cage.run([*APPEND, str(tree)]).check()
        monkeypatch.setattr(Workspace, "__init__", slowly)
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(lambda _: cage.workspace, range(4)))
        monkeypatch.undo()
    assert len(made) == 1 and {id(each) for each in found} == {id(made[0])}
