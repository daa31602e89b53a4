"""A cage's group, on a directory that plays the part of one: what is written where, what is read, what is left."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysandbox.compile.plan import CgroupPlan, Setting
from pysandbox.errors import StartError
from pysandbox.launch.owner import this_process
from pysandbox.live.cgroup import LEAF, PREFIX, CageCgroup


def plan(parent: Path, *settings: Setting, controllers: tuple[str, ...] = (), way: str = "below") -> CgroupPlan:
    return CgroupPlan(str(parent), way, controllers, settings)


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    (tmp_path / "cgroup.subtree_control").write_text("cpu")
    (tmp_path / "cgroup.procs").write_text("")
    return tmp_path


@pytest.fixture
def group(parent: Path) -> Iterator[CageCgroup]:
    path = parent / "pysandbox-x"
    path.mkdir()
    group = CageCgroup(str(path), os.open(path, os.O_RDONLY | os.O_DIRECTORY))
    yield group
    group.abandon()  # and not closed: the directory holds files here


def test_a_new_group_is_the_owner_s_alone_and_gone_when_closed(parent: Path) -> None:
    made = CageCgroup.make(plan(parent), "01J")
    assert os.stat(made.path).st_mode & 0o777 == 0o700
    made.close()
    made.close()
    assert not os.path.exists(made.path)


def test_missing_controllers_are_handed_down_first(parent: Path) -> None:
    CageCgroup.make(plan(parent, controllers=("memory", "cpu", "pids")), "1").close()
    assert (parent / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_nothing_is_written_when_all_are_handed_down(parent: Path) -> None:
    CageCgroup.make(plan(parent, controllers=("cpu",)), "1").close()
    assert (parent / "cgroup.subtree_control").read_text() == "cpu"


def test_a_process_that_has_to_leave_takes_its_group_s_processes_along(parent: Path) -> None:
    (parent / "cgroup.procs").write_text("12\n")
    (parent / LEAF).mkdir()
    (parent / LEAF / "cgroup.procs").write_text("")
    CageCgroup.make(plan(parent, controllers=("memory",), way="leave"), "1").close()
    assert (parent / LEAF / "cgroup.procs").read_text() == "12"


def test_a_setting_that_cannot_be_made_refuses_the_group_and_leaves_none(parent: Path) -> None:
    with pytest.raises(StartError) as failure:
        CageCgroup.make(plan(parent, Setting("memory.max", "1")), "1")
    assert (failure.value.step, failure.value.errno) == ("cgroup", errno.ENOENT)
    assert failure.value.filename == f"{parent}/{PREFIX}{this_process()}-1/memory.max" and "pysandbox check" in str(
        failure.value
    )
    assert [each.name for each in parent.iterdir() if each.is_dir()] == []


def test_an_optional_setting_may_be_missing(parent: Path) -> None:
    CageCgroup.make(plan(parent, Setting("memory.swap.max", "0", optional=True)), "1").close()


def test_a_parent_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(StartError) as failure:
        CageCgroup.make(plan(tmp_path / "gone"), "1")
    assert (failure.value.step, failure.value.errno) == ("cgroup", errno.ENOENT)


def test_the_directory_names_its_owner(parent: Path) -> None:
    group = CageCgroup.make(plan(parent), "1")
    assert os.path.basename(group.path) == f"{PREFIX}{this_process()}-1"
    group.close()


def test_a_kill_is_one_write(group: CageCgroup) -> None:
    file = Path(group.path, "cgroup.kill")
    file.write_text("")
    group.kill()
    assert file.read_text() == "1"


@pytest.mark.parametrize(("act", "value"), [("freeze", "1"), ("thaw", "0")])
def test_holding_still_waits_for_the_kernel_to_say_so(act: str, value: str, group: CageCgroup) -> None:
    file = Path(group.path, "cgroup.freeze")
    file.write_text("")
    Path(group.path, "cgroup.events").write_text(f"populated 1\nfrozen {value}\n")
    getattr(group, act)()
    assert file.read_text() == value


def test_figures_are_read_and_a_missing_controller_is_none(group: CageCgroup) -> None:
    empty = group.stats()
    assert (empty.memory, empty.cpu_usec, empty.io_bytes, empty.pids) == (None,) * 4
    for name, text in {
        "memory.current": "4096\n", "pids.current": "3\n",
        "cpu.stat": "usage_usec 1500\nuser_usec 1000\n", "memory.events": "low 0\noom 2\noom_kill 3\n",
        "io.stat": "254:0 rbytes=100 wbytes=20 rios=1 wios=1 dbytes=7 dios=0\n8:0 rbytes=1 wbytes=2\n",
        "pids.events": "max 4\n", "cgroup.events": "populated 1\nfrozen 0\n",
    }.items():  # fmt: skip
        Path(group.path, name).write_text(text)
    full = group.stats()
    assert (full.memory, full.cpu_usec, full.io_bytes, full.pids) == (4096, 1500, 123, 3)
    assert (group.oom_kills(), group.forks_refused(), group.is_empty()) == (3, 4, False)
