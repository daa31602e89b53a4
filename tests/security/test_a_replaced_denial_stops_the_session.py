"""Claim: when the host replaces a denied or guarded file, a session that would now show the new one runs nothing more,
and a cage that waits for its command is not used: whatever number the new file has.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest

from pysandbox import Cage, CageClosedError, CageError, CageExecutor, Grant, Policy
from pysandbox.runtime.runtime import Runtime

pytestmark = pytest.mark.guest


def save(path: Path, text: str) -> None:
    """As an editor does: another file, renamed over the old one."""
    path.with_suffix(".new").write_text(text)
    os.replace(path.with_suffix(".new"), path)


@pytest.mark.parametrize("kind", ["deny", "mask"])
def test_nothing_runs_after_the_host_has_replaced_what_is_covered(tmp_path: Path, kind: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old secret")
    policy = Policy(allow_write=[str(tmp_path)], **{kind: [str(secret)]})  # type: ignore[arg-type]
    with Cage(policy) as cage:
        assert "secret" not in str(cage.run(["/bin/cat", str(secret)]).stdout)

        save(secret, "new secret")

        with pytest.raises(CageClosedError, match="open another"):
            cage.run(["/bin/cat", str(secret)])
    assert "secret" not in str(Cage(policy).run(["/bin/cat", str(secret)]).stdout)


def test_what_is_only_granted_may_be_replaced(tmp_path: Path) -> None:
    note = tmp_path / "note"
    note.write_text("old")
    with Cage(Policy(allow=[str(tmp_path)])) as cage:
        save(note, "new")
        assert cage.run(["/bin/cat", str(note)]).stdout == "new"


def make_again(path: Path, text: str) -> None:
    """A file system may give the new file the number of the old one: ext4 does."""
    path.unlink()
    path.write_text(text)


def put_back(path: Path, text: str) -> None:
    """The very same file, whose name was gone for a moment."""
    other = path.with_suffix(".other")
    os.link(path, other)
    path.unlink()
    path.write_text("between")
    os.replace(other, path)
    with path.open("r+") as file:
        file.write(text)


def save_twice(path: Path, text: str) -> None:
    for _ in range(2):
        save(path, text)


REPLACE = pytest.mark.parametrize("replace", [save, make_again, put_back, save_twice])


@REPLACE
@pytest.mark.parametrize("kind", ["deny", "mask"])
def test_a_file_with_the_number_of_the_old_one_is_another_one(
    tmp_path: Path, kind: str, replace: Callable[[Path, str], None]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old secret")
    policy = Policy(allow_write=[str(tmp_path)], **{kind: [str(secret)]})  # type: ignore[arg-type]
    with Cage(policy) as cage:
        assert "secret" not in str(cage.run(["/bin/cat", str(secret)]).stdout)
        replace(secret, "new secret")
        with pytest.raises(CageClosedError, match="open another"):
            cage.run(["/bin/cat", str(secret)])


@REPLACE
def test_a_cage_that_waits_for_its_command_meanwhile_is_never_used(
    tmp_path: Path, replace: Callable[[Path, str], None]
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("old secret")
    policy = Policy(allow_write=[str(tmp_path)], deny=[str(secret)])
    runtime = Runtime()
    runtime.prewarm(policy, 2)
    for _ in range(3):
        replace(secret, "new secret")
        assert "secret" not in str(Cage(policy, runtime=runtime).run(["/bin/cat", str(secret)]).stdout)
    runtime.drain()


@pytest.mark.parametrize("replace", [save, make_again, save_twice])
def test_a_guarded_file_that_is_replaced_is_not_written_either(
    tmp_path: Path, replace: Callable[[Path, str], None]
) -> None:
    guarded = tmp_path / ".envrc"
    guarded.write_text("mine")
    policy, runtime = Policy(allow_write=[str(tmp_path)]), Runtime()
    runtime.prewarm(policy, 2)
    write = ["/bin/sh", "-c", f"echo evil >> {guarded}"]
    for _ in range(3):
        replace(guarded, "mine")
        assert Cage(policy, runtime=runtime).run(write).exit_code != 0
    with Cage(policy, runtime=runtime) as cage:
        assert cage.run(write).exit_code != 0
        replace(guarded, "mine")
        with pytest.raises(CageClosedError, match="open another"):
            cage.run(write)
    assert guarded.read_text() == "mine"
    runtime.drain()


def test_what_is_written_in_its_place_stays_covered(tmp_path: Path) -> None:
    secret, other = tmp_path / "secret", tmp_path / "other"
    for each in (secret, other):
        each.write_text("old secret")
    with Cage(Policy(allow_write=[str(tmp_path)], deny=[str(secret)])) as cage:
        cage.run(["/bin/true"])
        secret.write_text("new secret")
        other.unlink()
        assert "secret" not in str(cage.run(["/bin/cat", str(secret)]).stdout)


@pytest.mark.parametrize("make", [Path.write_text, save])
@pytest.mark.parametrize("grant", ["allow", "allow_write", "cow"])
@pytest.mark.parametrize("kind", ["deny", "mask"])
def test_nothing_runs_after_the_host_has_made_what_was_not_there(
    tmp_path: Path, kind: str, grant: str, make: Callable[[Path, str], object]
) -> None:
    secret = tmp_path / ".env"
    (tmp_path / "other").write_text("plain")
    policy = Policy(cow_mb=16, **{grant: [str(tmp_path)], kind: [str(secret)]})  # type: ignore[arg-type]
    look = ["/bin/sh", "-c", f"cat {tmp_path}/other {secret}"]
    with Cage(policy) as cage:
        assert cage.run(look).stdout == "plain"
        (tmp_path / "other").write_text("more")
        is_copy = grant == "cow" and cage.run(look).stdout == "plain"  # without an overlay
        assert is_copy or cage.run(look).stdout == "more", "what is not denied goes on"
        with suppress(PermissionError):  # where the cage could make it, a file of ours is in its place
            make(secret, "secret")
        if not is_copy and secret.exists() and secret.stat().st_size == len("secret"):
            with pytest.raises(CageClosedError, match="open another"):
                cage.run(look)
        else:
            assert "secret" not in str(cage.run(look).stdout)
    assert "secret" not in str(Cage(policy).run(look).stdout)


def test_what_may_be_there_later_may(tmp_path: Path) -> None:
    """By the policy's own word; and in what is denied altogether, or is not shown, nothing shows."""
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for each in (inside / "shut", outside):
        each.mkdir(parents=True)
    denied = [Grant(str(inside / "may"), optional=True), str(inside / "shut"), str(inside / "shut" / "x"),
              str(outside / "x")]  # fmt: skip
    with Cage(Policy(allow=[str(inside)], deny=denied)) as cage:
        cage.run(["/bin/true"])
        for name in ("inside/may", "inside/shut/x", "outside/x"):
            (tmp_path / name).write_text("secret")
        shown = cage.run(["/bin/cat", str(inside / "may"), str(inside / "shut/x"), str(outside / "x")])
        assert shown.stdout == "secret", "the first alone"


def content(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


@pytest.mark.parametrize("isolate", ["cage", pytest.param("worker", marks=pytest.mark.landlock(6))])
def test_a_function_is_never_called_where_it_would_show(tmp_path: Path, isolate: Literal["cage", "worker"]) -> None:
    secret, other = tmp_path / "secret", tmp_path / "other"
    for each in (secret, other):
        each.write_text("old secret")
    policy = Policy(allow=[str(tmp_path)], deny=[str(secret)])
    with CageExecutor(policy, max_workers=1, isolate=isolate, timeout=60) as executor:
        assert executor.submit(content, str(other)).result() == "old secret", "the control"
        make_again(secret, "new secret")
        for _ in range(3):
            with suppress(CageError):
                assert executor.submit(content, str(secret)).result() == ""
