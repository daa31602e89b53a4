"""Claim: what a cage writes apart on disk is bounded, and goes with it: whatever it hid there, and whatever ended it.

`storage = "disk"` has no quota of the kernel's: a cage that has written more than `cow_mb` is ended by the watchdog,
whether the files have names, rights or are too deep to be named. The directory of the layers is removed with the last
that holds it; after a kill of the host, by whoever touches a workspace next; and never by a path that was changed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.overlays import takes_layers
from pysandbox import Cage, Policy, StartError
from pysandbox.launch.native import file_system
from pysandbox.launch.removal import remove_tree
from pysandbox.live import disk_use, layers
from pysandbox.probe.file_systems import FILE_SYSTEMS, FileSystem
from pysandbox.workspace.recovery import recover

from .harness import first_line, host_script, in_cage, program, wait_until

LOCKED = """
    os.chdir(TREE)
    for number in range(40):
        os.mkdir("deep"); os.chdir("deep")
        open("file", "w").write("x")
    os.chmod(".", 0)
    os.chdir(TREE)
    os.mkdir("shut"); open("shut/file", "w").write("x"); os.chmod("shut", 0)
    os.mkdir("mine"); os.symlink("/etc", "mine/link"); os.mkfifo("mine/queue")
    say("done")
"""
HOGS = {
    "a file": """
        file = open("big", "wb", buffering=0)
    """,
    "a file without a name": """
        file = open("big", "w+b", buffering=0)
        os.unlink("big")
    """,
    "a file that never had a name": """
        file = open(os.open(".", os.O_TMPFILE | os.O_RDWR), "w+b", buffering=0)
    """,
    "a file in a directory without rights": """
        os.mkdir("shut"); file = open("shut/big", "wb", buffering=0); os.chmod("shut", 0)
    """,
    "a file too deep to be named": """
        for number in range(30): os.mkdir("d" * 200); os.chdir("d" * 200)
        file = open("big", "wb", buffering=0)
    """,
}
FILL = """
    for number in range(MEBIBYTES): file.write(b"x" * 1048576)
    os.fsync(file.fileno())
    say("written")
    import time; time.sleep(SECONDS)
"""
NAMES = """
    os.chdir(TREE)
    for number in range(20): os.mkdir(f"n{number}")
    for number in range(6000): os.close(os.open(f"n{number % 20}/f{number}", os.O_CREAT | os.O_WRONLY))
    import time; time.sleep(60)
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    if not takes_layers(tmp_path):
        pytest.skip("no layer can lie on this file system")
    top = tmp_path / "tree"
    top.mkdir()
    yield top
    remove_tree(str(tmp_path / "state"))  # the kernel leaves a directory of mode 000 in each


def rules(tree: Path, **more: object) -> Policy:
    return Policy(cow=[str(tree)], storage="disk", **{"cow_mb": 64, **more})  # type: ignore[arg-type]


def held() -> list[str]:
    return sorted(os.listdir(layers.directory()))


@pytest.mark.parametrize("how", HOGS)
@pytest.mark.filterwarnings("ignore")
def test_whoever_writes_more_is_ended(tree: Path, how: str) -> None:
    body = "    os.chdir(TREE)\n" + HOGS[how].replace("\n        ", "\n    ") + FILL
    control = Cage(rules(tree)).run(program(body, TREE=str(tree), MEBIBYTES=24, SECONDS=0))
    assert control.exit_code == 0 and "written" in control.stdout, control.stderr
    hog = Cage(rules(tree, cow_mb=8)).run(program(body, TREE=str(tree), MEBIBYTES=24, SECONDS=60))
    assert (hog.exit_code, hog.reason) == (137, "cancelled"), hog.stderr
    assert [note.key for note in hog.notes if note.event == "policy.violation"] == ["layers"]


@pytest.mark.filterwarnings("ignore")
def test_names_are_counted_like_pages(tree: Path) -> None:
    assert Cage(rules(tree, cow_mb=8)).run(program(NAMES, TREE=str(tree))).reason == "cancelled"


@pytest.mark.filterwarnings("ignore")
def test_the_disk_is_never_filled_up(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_use, "KEPT_FREE", 1 << 60)
    assert Cage(rules(tree)).run(["sleep", "60"]).reason == "cancelled"


def test_whatever_it_left_goes_with_the_last_who_holds_it(tree: Path) -> None:
    with Cage(rules(tree)) as cage:
        in_cage(cage, program(LOCKED, TREE=str(tree)))
        workspace = cage.workspace
    cage.runtime.drain()
    assert len(held()) == 1, "CONTROL: a workspace is held after its cage"
    workspace.abort()
    assert held() == []


KILLED = """
    import os, sys, time
    from pysandbox import Cage, Policy
    cage = Cage(Policy(cow=[sys.argv[1]], storage="disk", cow_mb=64)); cage.open()
    cage.run(["sh", "-c", f"cd {sys.argv[1]}; mkdir -p a/b; touch a/b/c; chmod 0 a/b"])
    print("ready", flush=True)
    time.sleep(600)
"""


def test_after_a_kill_of_the_host_the_next_removes_it(tree: Path) -> None:
    with host_script(KILLED, str(tree)) as host:
        assert first_line(host).strip() == b"ready"
        there = held()
        recover()
        assert there and held() == there, "CONTROL: what somebody holds is nobody else's to remove"
        host.send_signal(signal.SIGKILL)
        host.wait()

    def is_gone() -> bool:  # its processes end a moment after it
        recover()
        return held() == []

    assert wait_until(is_gone, 10.0), held()


def test_a_path_that_was_changed_is_not_followed(tree: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    with Cage(rules(tree)) as cage:
        cage.run(["touch", f"{tree}/file"])
        own = held()
        for name in own:
            (victim / name).mkdir(parents=True)
            (victim / name / "precious").write_text("kept")
        place = Path(layers.directory())
        place.rename(tmp_path / "moved")
        place.symlink_to(victim)
        workspace = cage.workspace
    workspace.abort()
    cage.runtime.drain()
    assert os.listdir(tmp_path / "moved") == []
    assert [(victim / name / "precious").read_text() for name in own] == ["kept"] * len(own)
    with pytest.raises(StartError):
        Cage(rules(tree)).run(["true"])


def test_no_cage_sees_the_layers_of_another(tree: Path, tmp_path: Path) -> None:
    with Cage(rules(tree)) as cage:
        cage.run(["touch", f"{tree}/secret"])
        names = Cage(Policy(allow_write=[str(tmp_path)])).run(["find", str(tmp_path)]).stdout.split()
    assert str(tree) in names, "CONTROL: it sees what it was granted"
    assert not [name for name in names if "secret" in name or name.startswith(layers.directory())]


def test_where_it_cannot_lie_is_refused_by_name(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StartError, match="cannot be kept inside of it"):
        Cage(rules(tmp_path)).run(["true"])
    with pytest.raises(StartError, match="make room, or set a smaller cow_mb"):
        Cage(rules(tree, cow_mb=1 << 30)).run(["true"])
    fd = os.open(tmp_path, os.O_RDONLY)
    monkeypatch.setitem(FILE_SYSTEMS, file_system(fd), FileSystem("this one", takes_layer=False))
    os.close(fd)
    with pytest.raises(StartError, match="this one takes no layer"):
        Cage(rules(tree)).run(["true"])
