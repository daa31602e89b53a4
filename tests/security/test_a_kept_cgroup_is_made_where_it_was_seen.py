"""Claim: a run from a kept plan with a limit of the whole cage is born in a cgroup of its own, made below the very
directory that was seen when the plan was kept; a plan that another directory or another caller's group would be needed
for is not used; and nothing of it is left, whoever was killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.kept_runs import COMMAND, LIMIT, Home, story
from pysandbox.live.cgroup import PREFIX
from pysandbox.probe import cgroups

pytestmark = pytest.mark.root

MEMORY = ["--memory-mb", "128", "--", "sh", "-c"]
HOG = ["--memory-mb", "64", "--", "/usr/bin/python3", "-c", "a = [bytearray(8 << 20) for _ in range(99)]"]
WAITS = "echo ready; exec sleep 60"


class Group:
    """A group that this process is in, below which those of its cages are made."""

    def __init__(self) -> None:
        self.before = Path(cgroups.find_cgroup().parent)
        self.path = self.before / f"of-a-test-{os.getpid()}"

    def enter(self) -> None:
        self.path.mkdir(exist_ok=True)
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def leave(self) -> None:
        (self.before / "cgroup.procs").write_text(str(os.getpid()))
        if self.path.exists():
            self.path.rmdir()

    def cages(self) -> list[Path]:
        parent = Path(cgroups.find_cgroup().parent)
        return [each for each in parent.iterdir() if each.name.startswith(PREFIX) and each.is_dir()]


@pytest.fixture
def group() -> Iterator[Group]:
    made = Group()
    made.enter()
    yield made
    made.leave()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def begin(home: Home) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [COMMAND, "run", *MEMORY, WAITS], cwd=home.project, env=home.env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def keep(home: Home) -> None:
    """The plan of what `begin` starts."""
    for _ in range(3):
        with begin(home) as process:
            process.terminate()
            process.wait(LIMIT)


def of_the_launcher(process: subprocess.Popen[bytes]) -> bool:
    return Path(f"/proc/{process.pid}/exe").resolve().name == "pysandbox"


def test_control_a_second_run_starts_no_python(group: Group, home: Home) -> None:
    assert home.until_warm(*MEMORY, "echo out; exit 3").stdout == b"out\n"
    assert group.cages() == []


def test_a_cage_of_a_kept_plan_is_born_in_its_own_group_which_goes_with_it(group: Group, home: Home) -> None:
    keep(home)
    with begin(home) as process:
        assert of_the_launcher(process)
        (cage,) = group.cages()
        members = set((cage / "cgroup.procs").read_text().split())
        init = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert {*init} <= members and str(process.pid) not in members
        assert str(process.pid) in cage.name
        process.terminate()
        process.wait(LIMIT)
    assert group.cages() == []


def test_what_a_killed_launcher_leaves_goes_with_the_next_run(group: Group, home: Home) -> None:
    keep(home)
    with begin(home) as process:
        assert of_the_launcher(process)
        process.send_signal(signal.SIGKILL)
    (left,) = group.cages()
    with begin(home) as other:  # whose own stays, as one whose owner lives does
        (own,) = group.cages()
        assert own != left
        assert home.run(*MEMORY, "true").code == 0
        assert group.cages() == [own]
        other.terminate()
        other.wait(LIMIT)
    assert group.cages() == []


def test_attack_another_directory_of_that_name_is_not_taken_for_it(group: Group, home: Home) -> None:
    arguments = [*MEMORY, "echo out"]
    home.until_warm(*arguments)
    group.leave()
    group.enter()
    if cgroups.find_cgroup().parent == str(group.path):  # else the cages' groups are elsewhere
        assert not home.run(*arguments).warm
    assert home.until_warm(*arguments).stdout == b"out\n"


def test_attack_a_caller_in_another_group_does_not_get_that_plan(group: Group, home: Home) -> None:
    arguments = [*MEMORY, "echo out"]
    home.until_warm(*arguments)
    group.leave()
    ran = home.run(*arguments)
    assert (ran.warm, ran.code, ran.stdout) == (False, 0, b"out\n")


def test_a_limit_that_is_met_is_told_the_same_either_way(group: Group, home: Home) -> None:
    cold = home.run_by_python(*HOG)
    told = home.records()
    ran = [home.run(*HOG) for _ in range(2)]
    assert [(each.code, each.stderr.count(b"memory_mb")) for each in ran] == [
        (cold.code, cold.stderr.count(b"memory_mb"))
    ] * 2
    assert cold.code == 128 + signal.SIGKILL and ran[-1].served
    kinds = [kind for kind, _ in story(told)]
    assert [kind for kind, _ in story(home.records()[len(told) :])] == kinds * 2
    assert group.cages() == []
