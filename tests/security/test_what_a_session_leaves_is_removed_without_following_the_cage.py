"""Claim: the host removes a session's scratch: nothing outside of it goes, whatever the cage makes of it meanwhile.

The attack fills /scratch with directories that only a change of mode opens, and turns each into a link to a directory
of the host as soon as the removal has begun in it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pysandbox import Cage, CageClosedError, Policy, Runtime, Session
from pysandbox.launch.removal import remove_tree

from .harness import PYTHON

GUEST = r"""
import os, sys
root, victim, wide = sys.argv[1], sys.argv[2], 40
for n in range(wide):
    d = f"{root}/a{n}"
    os.mkdir(d)
    for i in range(20):
        os.mkdir(f"{d}/d{i}"); os.chmod(f"{d}/d{i}", 0)
    os.mkdir(f"{d}/precious"); os.mkdir(f"{d}/precious/in"); os.chmod(f"{d}/precious", 0)
print("ready", flush=True)
left = set(range(wide))
while left:
    for n in sorted(left):
        try:
            begun = len(os.listdir(f"{root}/a{n}")) < 21
        except OSError:
            begun = True
        if begun:
            left.discard(n)
            try:
                os.rename(f"{root}/a{n}", f"{root}/b{n}"); os.symlink(victim, f"{root}/a{n}")
            except OSError:
                pass
"""

HOST = """
import sys
from pysandbox import PIPE, Cage, Policy, Runtime, Session
guest, victim, how = sys.argv[1:]
shared = Session() if how == "session" else "work"
cage = Cage(Policy(state="scratch"), session=shared, runtime=Runtime(warm=0))
if how != "oneshot":
    cage.open()
process = cage.spawn(["/usr/bin/python3", "-c", guest, "/scratch", victim], stdout=PIPE)
assert process.stdout.readline() == b"ready\\n"
if how == "end_session":
    cage.runtime.end_session("work")
if how == "session":
    shared.close()
print("ended")
"""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "victim" / "precious").mkdir(parents=True)
    (tmp_path / "victim" / "precious" / "file").write_text("only copy")
    (tmp_path / "victim").chmod(0o755)
    return tmp_path / "victim"


def is_whole(victim: Path) -> bool:
    return (victim / "precious" / "file").exists() and victim.stat().st_mode & 0o777 == 0o755


def test_control_a_removal_by_paths_follows_the_attack(victim: Path, tmp_path: Path) -> None:
    """The attack, uncaged, against a removal that changes modes by their paths."""
    import shutil

    def open_up(function: object, path: str, _: object) -> None:
        try:
            os.chmod(os.path.dirname(path), 0o700)
            os.chmod(path, 0o700)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            return

    for attempt in range(10):
        root = tmp_path / f"scratch{attempt}"
        root.mkdir()
        guest = subprocess.Popen([PYTHON, "-c", GUEST, str(root), str(victim)], stdout=subprocess.PIPE)
        assert guest.stdout is not None and guest.stdout.readline() == b"ready\n"
        shutil.rmtree(root, onerror=open_up)
        guest.kill()
        guest.communicate()
        remove_tree(str(root))
        if not is_whole(victim):
            return
    pytest.fail("the attack does not even reach a removal by paths")


@pytest.mark.parametrize("how", ["exit", "oneshot", "end_session", "session"])
def test_attack_nothing_of_the_host_is_removed(victim: Path, how: str) -> None:
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", HOST, GUEST, str(victim), how], capture_output=True, text=True, timeout=120
        )
        assert done.stdout == "ended\n", done.stderr
        assert is_whole(victim)


def test_attack_the_removal_itself_holds_against_a_program_that_lives(victim: Path, tmp_path: Path) -> None:
    """The second wall: also what no cage's end precedes."""
    for attempt in range(10):
        root = tmp_path / f"scratch{attempt}"
        root.mkdir()
        guest = subprocess.Popen([PYTHON, "-c", GUEST, str(root), str(victim)], stdout=subprocess.PIPE)
        assert guest.stdout is not None and guest.stdout.readline() == b"ready\n"
        remove_tree(str(root))
        guest.kill()
        guest.communicate()
        assert is_whole(victim)


def test_evidence_cages_end_before_what_they_share_is_removed() -> None:
    runtime, shared = Runtime(warm=1), Session()
    cage = Cage(Policy(state="scratch"), session=shared, runtime=runtime).open()
    process = cage.spawn(["/bin/sleep", "60"])
    shared.close()
    assert process.wait(10) == -9 and not os.path.exists(shared.path)
    with pytest.raises(CageClosedError):
        cage.run(["/bin/true"])
    with pytest.raises(CageClosedError, match="session is closed"):
        Cage(Policy(state="scratch"), session=shared, runtime=runtime).open()
    cage.close()
    runtime.drain()


def test_evidence_a_forked_copy_leaves_it_to_the_original() -> None:
    with Session() as shared:
        child = os.fork()
        if child == 0:
            shared.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert os.path.isdir(shared.path)
