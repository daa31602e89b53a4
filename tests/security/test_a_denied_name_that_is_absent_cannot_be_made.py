"""Claim: a cage cannot make a name that its policy denies or masks and that is not there, and leaves nothing of it.

A program of the host would obey a planted `.env`. The name is kept by a placeholder of ours while a cage needs it: also
while several do, and after a host that was killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysandbox import Cage, CageClosedError, Policy, StartError, run
from pysandbox.launch import placeholder

from .harness import caged, program

pytestmark = pytest.mark.guest

ATTACK = """
    name, other = TREE + "/.env", TREE + "/other"
    attempt("make another name", os.mknod, other, 0o600)
    attempt("create", os.mknod, name, 0o600)
    attempt("mkdir", os.mkdir, name)
    attempt("symlink", os.symlink, other, name)
    attempt("link", os.link, other, name)
    attempt("rename over it", os.rename, other, name)
    attempt("exchange with it", call, "renameat2", -100, other, -100, name, 2)
    attempt("open for writing", overwrite, name)
    attempt("unlink", os.unlink, name)
    attempt("rename it away", os.rename, name, TREE + "/away")
    attempt("chmod", os.chmod, name, 0o700)
    attempt("unmount it", call, "umount2", name, 2)
    attempt("still not there for the host", os.mknod, name, 0o600)
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    top = tmp_path / "tree"
    top.mkdir()
    monkeypatch.chdir(top)
    yield top


def rules(word: str = "deny") -> Policy:
    return Policy(allow_write=["."], **{word: [".env"]})  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["deny", "mask"])
def test_no_call_makes_it(tree: Path, word: str) -> None:
    control = caged(program(ATTACK, TREE=str(tree)), Policy(allow_write=["."]))
    assert control.attempts["create"].errno is None, "CONTROL: without the denial the cage makes it"
    for left in tree.iterdir():
        left.rmdir() if left.is_dir() and not left.is_symlink() else left.unlink()

    report = caged(program(ATTACK, TREE=str(tree)), rules(word))

    assert report.attempts["make another name"].errno is None
    made = [name for name, each in report.attempts.items() if each.errno is None and name != "make another name"]
    assert made == [] or (word == "mask" and made == ["open for writing"])  # which is written to the cage's /dev/null
    assert [each.name for each in tree.iterdir()] == ["other"], "and nothing is left behind"


def test_the_last_of_several_cages_removes_it(tree: Path) -> None:
    with Cage(rules()) as first:
        with Cage(rules()) as second:
            assert second.run(["/bin/sh", "-c", "echo > .env"]).returncode
        assert first.run(["/bin/sh", "-c", "echo > .env"]).returncode, "the end of another cage uncovers nothing"
        assert (tree / ".env").exists()
    assert not (tree / ".env").exists()


def test_a_session_whose_placeholder_was_removed_runs_nothing_more(tree: Path) -> None:
    with Cage(rules()) as cage:
        assert cage.run(["/bin/true"]).ok  # CONTROL
        (tree / ".env").unlink()
        with pytest.raises(CageClosedError, match="replaced on the host"):
            cage.run(["/bin/true"])


HOST = """
    import sys, time
    from pysandbox import Cage, Policy
    with Cage(Policy(allow_write=["."], deny=[".env"])) as cage:
        print("open", flush=True)
        time.sleep(60)
"""


def test_what_a_killed_host_leaves_says_what_it_is_and_is_removed_by_the_next(tree: Path) -> None:
    arguments = [sys.executable, "-c", textwrap.dedent(HOST)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as host:
        assert host.stdout is not None and host.stdout.readline() == b"open\n"
        host.send_signal(signal.SIGKILL)
    assert b"you can delete it" in (tree / ".env").read_bytes()

    assert run(["/bin/sh", "-c", "echo > .env"], rules()).returncode

    assert not (tree / ".env").exists()


@pytest.mark.parametrize("text", [b"", b"MINE=1", placeholder.TEXT + b"MINE=1"])
def test_what_is_the_user_s_is_never_removed(tree: Path, text: bytes) -> None:
    (tree / ".env").write_bytes(text)
    (tree / ".env").chmod(placeholder.MODE)
    assert run(["/bin/sh", "-c", "cat .env"], rules()).returncode
    assert (tree / ".env").read_bytes() == text


def test_one_that_another_holds_for_ever_is_an_error_and_no_wait(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the lock of our own state is not to be had (`test_a_cage_holds_up_no_start`)."""
    import fcntl

    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    monkeypatch.setattr(placeholder, "TRIES", 3)
    (tree / ".env").write_bytes(placeholder.TEXT)
    (tree / ".env").chmod(placeholder.MODE)
    with (tree / ".env").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StartError, match="deny"):
            run(["/bin/true"], rules())


def test_a_directory_that_takes_no_file_is_an_error(tree: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root makes files everywhere")
    tree.chmod(0o500)
    try:
        with pytest.raises(StartError, match="optional = true"):
            run(["/bin/true"], rules())
    finally:
        tree.chmod(0o700)
    assert run(["/bin/true"], Policy(allow_write=["."], deny=[{"path": ".env", "optional": True}])).ok  # type: ignore[list-item]
