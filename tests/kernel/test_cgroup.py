"""csrc/host/spawn/clone3.c and live/cgroup.py on the kernel: a cage is born in its group, held still, killed,
removed.

Where no part of the cgroup v2 tree is this process's to use, that is what is asserted, with what stands in for it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pysandbox import Cage, Policy, Runtime
from pysandbox.compile.plan import CgroupPlan, Plan, Setting
from pysandbox.errors import StartError
from pysandbox.launch import native
from pysandbox.launch.structs import encode_plan
from pysandbox.live.cgroup import PREFIX, CageCgroup
from pysandbox.probe import cgroups, kernel

from .plans import Init, flat, plan, refusal

pytestmark = pytest.mark.guest

FACTS = cgroups.find_cgroup()
WHERE = CgroupPlan(FACTS.parent, FACTS.way, (), ())
SCOPED = kernel.landlock_abi() >= 6  # else cage-init of landlock mode has no domain of its own
MODES = pytest.mark.parametrize("wanted", [plan(), flat(scoped=SCOPED)], ids=["full", "flat"])


def members(group: CageCgroup) -> list[int]:
    return sorted(map(int, Path(group.path, "cgroup.procs").read_text().split()))


def own_group(pid: int) -> str:
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next(line[3:] for line in lines if line.startswith("0::"))


def born_in(group: CageCgroup, wanted: Plan | None = None) -> Init:
    carried = encode_plan(wanted or plan(), os.getuid(), os.getgid())
    init_fd = os.open(native.INIT_PATH, os.O_PATH | os.O_CLOEXEC)
    try:
        cage = carried.open(init_fd, "cage", "", group.fd)
        cage.release()  # Init closes it
        return Init(cage)
    finally:
        os.close(init_fd)


@contextlib.contextmanager
def housed(name: str, wanted: Plan) -> Iterator[tuple[CageCgroup, Init]]:
    group = CageCgroup.make(WHERE, name)
    try:
        init = born_in(group, wanted)
        try:
            yield group, init
        finally:
            init.close()
    finally:
        group.close()


def have_none() -> bool:
    """Whether this process may make no group; then a limit on the whole cage is the watchdog's, and says so."""
    if FACTS.parent and FACTS.way != "systemd":
        return False
    assert FACTS.reason or FACTS.way == "systemd"
    if FACTS.way != "systemd":
        with Cage(Policy(memory_mb=64)) as cage:
            assert cage._live is not None and cage._live.cgroup is None and cage._live.tree is not None
            assert any("watchdog" in note.message for note in cage.run(["/bin/true"]).notes)
    return True


def test_a_descriptor_that_is_no_group_refuses_the_cage_and_leaves_nothing(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(StartError) as failure:
            born_in(CageCgroup(str(tmp_path), fd))
    finally:
        os.close(fd)
    assert refusal(failure.value) == ("clone", "EBADF", None)


@MODES
def test_a_cage_and_what_it_runs_is_born_in_its_group(wanted: Plan) -> None:
    if have_none():
        return
    with housed("kernel-born", wanted) as (group, init):
        assert members(group) == [init.pid]
        assert own_group(init.pid).endswith("-kernel-born")
        assert init.run("/bin/true").code == 0
        init.start("/bin/sleep", "60").expect("started")
        assert len(members(group)) == 2
    assert not os.path.exists(group.path)


def test_a_group_is_not_seen_from_inside() -> None:
    if have_none():
        return
    with housed("kernel-inside", plan()) as (_, init):
        assert init.sh("grep ^0:: /proc/self/cgroup").said == "0::/\n"


def test_a_frozen_cage_stands_still_until_it_is_thawed_and_dies_of_a_kill() -> None:
    if have_none():
        return
    group = CageCgroup.make(WHERE, "kernel-frozen")
    init = born_in(group)
    try:
        group.freeze()
        command = init.start("/bin/true", oneshot=False)
        assert "frozen 1" in Path(group.path, "cgroup.events").read_text() and group.is_frozen()
        group.thaw()
        assert not group.is_frozen()
        command.expect("started")
        command.expect("exited")
        group.freeze()
        group.kill()
        assert init.ended()
    finally:
        init.close()
        group.close()


def test_closing_a_group_kills_what_is_left_in_it() -> None:
    if have_none():
        return
    group = CageCgroup.make(WHERE, "kernel-left")
    init = born_in(group)
    group.close()
    assert init.ended(0.1) and not os.path.exists(group.path)
    init.close()


@pytest.mark.parametrize(("setting", "controller"), [
    (Setting("memory.max", "67108864"), "memory"),
    (Setting("pids.max", "33"), "pids"),
    (Setting("cpu.max", "50000 100000"), "cpu"),
    (Setting("cpu.weight", "30"), "cpu"),
])  # fmt: skip
def test_a_setting_is_in_force_or_the_missing_controller_is_an_error(setting: Setting, controller: str) -> None:
    if have_none():
        return
    given = (controller,) if controller in FACTS.controllers else ()
    wanted = CgroupPlan(FACTS.parent, FACTS.way, given, (setting,))
    if not given:
        with pytest.raises(StartError) as failure:
            CageCgroup.make(wanted, "kernel-set")
        assert (failure.value.step, failure.value.errno) == ("cgroup", errno.ENOENT)
        return
    group = CageCgroup.make(wanted, "kernel-set")
    try:
        assert Path(group.path, setting.file).read_text().strip() == setting.value
    finally:
        group.close()


def test_the_cages_that_wait_have_their_groups_and_drop_them_with_the_runtime() -> None:
    if have_none():
        return
    runtime = Runtime(warm=1)
    policy = Policy(cpu_percent=50, max_pids=50, limits_required=False)
    assert Cage(policy, runtime=runtime).run(["/bin/true"]).ok
    runtime.wait_idle()
    waiting = [each for each in os.listdir(FACTS.parent) if each.startswith(PREFIX) and each != "pysandbox-host"]
    assert len(waiting) == 1
    runtime.drain()
    assert not os.path.exists(f"{FACTS.parent}/{waiting[0]}")
