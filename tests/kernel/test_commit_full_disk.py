"""A disk of the tree that is full half way, by bytes or by names: nothing is written and nothing is left, and once
there is room all of it is written.

The disks are real: small memory file systems in a user namespace, one for the tree, one for what was written, and one
for the journal. What is free on the first grows from nothing to enough, so that each step of a commit meets its end.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PLACES = """
    import errno, json, os, shutil, subprocess, sys, time
    from pathlib import Path
    from _support.overlays import DirectoryUpper, look
    from pysandbox.errors import CommitError
    from pysandbox.workspace.changes import changes_of
    from pysandbox.workspace.commit import commit
    from pysandbox.workspace.recovery import interrupted, recover
    from pysandbox.probe.opening import Opening

    def mounted(path, options):
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True)
        return path

    place = Path(sys.argv[1])
    state = mounted(place / "state", "size=16m,mode=700")
    os.environ["XDG_STATE_HOME"] = str(state / "home" if sys.argv[2] == "another" else place / "lower" / ".state")
    lower = mounted(place / "lower", "size=2m,nr_inodes=200")
    over = mounted(place / "over", "size=16m")
    (place / "merged").mkdir()
    for name in ("file", "gone"):
        (lower / name).write_text(f"old {name}")
    for name in ("folder", "deep/er"):
        (lower / name).mkdir(parents=True)
        (lower / name / "inside").write_text("old")
    pristine = shutil.copytree(lower, over / "pristine", symlinks=True)
    time.sleep(0.02)
    opening = Opening.now()
    for name in ("upper", "work"):
        (over / name).mkdir()
    layers = f"userxattr,xino=off,lowerdir={lower},upperdir={over}/upper,workdir={over}/work"
    subprocess.run(["mount", "-t", "overlay", "-o", layers, "overlay", place / "merged"], check=True)
    merged = place / "merged"
    (merged / "file").write_bytes(b"new" * 20000)
    (merged / "gone").unlink()
    (merged / "deep/er/inside").write_bytes(b"x" * 30000)
    for number in range(6):
        (merged / f"fresh{number}" / "below").mkdir(parents=True)
        (merged / f"fresh{number}" / "below" / "file").write_bytes(bytes([number]) * 9000)
    shutil.rmtree(merged / "folder")
    subprocess.run(["umount", merged], check=True)
    (place / "upper").symlink_to(over / "upper")

    def without_state(found):
        return {name: each for name, each in found.items() if not name.startswith((".state", "filler"))}

    def fill(left):
        "Leaves so much: bytes, or names."
        room = os.statvfs(lower)
        if sys.argv[3] == "names":
            (lower / "filler").mkdir()
            for number in range(room.f_ffree - left - 1):
                (lower / "filler" / str(number)).touch()
        else:
            with open(lower / "filler", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(1, room.f_bavail * room.f_frsize - left))

    def reset():
        for path in lower.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        shutil.copytree(pristine, lower, symlinks=True, dirs_exist_ok=True)

    old, outcomes = look(pristine), []
    for step in range(int(sys.argv[4])):
        reset()
        if sys.argv[2] == "the same":
            (lower / ".state").mkdir(mode=0o700)
        fill(step * (3 if sys.argv[3] == "names" else 16384))
        upper = DirectoryUpper(place, opening)
        try:
            commit(upper, changes_of(upper), on_conflict="force")
            outcomes.append("written")
        except (CommitError, OSError) as error:
            number = getattr(error, "errno", None) or getattr(error.__cause__, "errno", None)
            assert number == errno.ENOSPC, error
            outcomes.append("full")
            assert without_state(look(lower)) == old, (step, sorted(look(lower)))
        upper.drop()
        found = look(lower)
        assert not [name for name in without_state(found) if ".pysandbox-" in name], (step, sorted(found))
        recover()
        assert interrupted() == []
        assert outcomes[-1] == "full" or "fresh5/below/file" in found and "gone" not in found
    filler = lower / "filler"
    shutil.rmtree(filler) if filler.is_dir() else filler.unlink()
    print(json.dumps(outcomes))
"""


@pytest.mark.parametrize("of", ["bytes", "names"])
@pytest.mark.parametrize("journal", ["another", "the same"])
def test_a_full_disk_leaves_the_old_tree_and_room_the_new_one(tmp_path: Path, journal: str, of: str) -> None:
    command = ["unshare", "-Urm", sys.executable, "-c", textwrap.dedent(PLACES), str(tmp_path), journal, of, "24"]
    tests = str(Path(__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [tests, *sys.path]))}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert ended.returncode == 0, ended.stderr
    outcomes = json.loads(ended.stdout)
    assert outcomes[0] == "full" and outcomes[-1] == "written", outcomes
