"""The records of live cages: one for each that lasts, none when it is gone, and none believed without a look."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from _support.hosts import comes_true, host, said
from pysandbox import Cage, Policy, Runtime
from pysandbox.events import NOTE, UNTRACKED, Event
from pysandbox.launch.owner import owner_of, this_process
from pysandbox.records import recorder, registry
from pysandbox.records.orphans import find_orphans
from pysandbox.records.registry import CageRecord

KILLED = """
    from pysandbox import Cage
    cage = Cage().open()
    cage.runtime.wait_idle()
    print(cage.id, flush=True)
    input()
"""


def test_a_session_has_a_record_until_it_is_closed(registry_home: Path) -> None:
    with Cage() as cage:
        cage.runtime.wait_idle()
        (record,) = registry.live()
        assert (record.id, record.init.pid, record.argv) == (cage.id, cage.init_pid, ())
        assert record.host == this_process()
        assert len(record.digest) == 64
    assert registry.records() == []


def test_a_command_of_its_own_cage_has_one_with_its_words(registry_home: Path) -> None:
    cage = Cage()
    with cage.spawn(["/bin/sleep", "60"]):
        cage.runtime.wait_idle()
        assert [record.argv for record in registry.live()] == [("/bin/sleep", "60")]
    cage.runtime.wait_idle()
    assert registry.records() == []


def test_a_command_that_is_over_at_once_has_none_and_one_that_lasts_has(
    registry_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[CageRecord] = []
    monkeypatch.setattr(registry, "write", written.append)
    monkeypatch.setattr(recorder, "LASTING", 3600)  # however slow this machine is
    cage = Cage(runtime=Runtime(warm=0))
    cage.run(["/bin/true"])
    cage.runtime.wait_idle()
    assert written == []
    monkeypatch.setattr(recorder, "LASTING", 0.01)
    with cage.spawn(["/bin/sleep", "60"]):
        assert comes_true(lambda: bool(written)), "nobody waits for the worker"
    cage.runtime.drain()


def test_a_runtime_that_registers_nothing_leaves_no_record(registry_home: Path) -> None:
    runtime = Runtime(register=False)
    with Cage(runtime=runtime):
        runtime.wait_idle()
        assert registry.records() == []
    runtime.drain()


def test_the_directory_is_ours_alone(registry_home: Path) -> None:
    with Cage() as cage:
        cage.runtime.wait_idle()
        directory = registry_home / "pysandbox"
        assert directory.stat().st_mode & 0o777 == 0o700
        assert [path.stat().st_mode & 0o777 for path in directory.iterdir()] == [0o600]


def others_may_use_it(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)


def a_symlink(directory: Path) -> None:
    (directory.parent / "elsewhere").mkdir(mode=0o700)
    directory.symlink_to("elsewhere")


@pytest.mark.parametrize("spoil", [others_may_use_it, a_symlink, Path.touch], ids=["mode", "symlink", "file"])
def test_a_directory_that_is_not_is_not_used(registry_home: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(registry_home / "pysandbox")
    events: list[Event] = []
    runtime = Runtime(sink=events.append)

    with Cage(runtime=runtime) as cage:
        assert cage.run(["/bin/true"]).ok
        runtime.wait_idle()

    assert [event.data["key"] for event in events if event.type == NOTE.name] == ["registry"]
    with pytest.raises(PermissionError, match=r"remove it, or set XDG_RUNTIME_DIR"):
        registry.live()
    runtime.drain()


def forged(**changes: object) -> CageRecord:
    me = this_process()
    return replace(CageRecord("01FORGED", me, me, (), "", 0.0), **changes)  # type: ignore[arg-type]


def test_a_process_that_is_no_cage_is_never_taken_for_one(registry_home: Path) -> None:
    registry.write(forged())
    assert [record.id for record in registry.records()] == ["01FORGED"]
    assert registry.live() == []


def test_a_pid_that_came_round_is_not_taken_for_the_cage(registry_home: Path) -> None:
    with Cage() as cage:
        assert cage.init_pid is not None
        init = owner_of(cage.init_pid)
        assert init is not None
        registry.write(forged(init=init))
        assert "01FORGED" in [record.id for record in registry.live()], "the control: this is a cage-init"

        registry.write(forged(init=init._replace(start=init.start - 1)))

        assert "01FORGED" not in [record.id for record in registry.live()]
    registry.remove("01FORGED")


def test_a_cage_of_another_pid_namespace_is_left_alone(registry_home: Path) -> None:
    elsewhere = this_process()._replace(namespace=1)
    registry.write(forged(init=elsewhere, host=elsewhere))
    assert (registry.live(), find_orphans()) == ([], ())
    registry.remove("01FORGED")


def test_the_record_of_a_killed_host_is_swept_by_the_next(registry_home: Path) -> None:
    with host(KILLED) as killed:
        cage_id = said(killed)
        assert [record.id for record in registry.live()] == [cage_id]
        killed.kill()
        killed.wait()
    assert comes_true(lambda: not registry.live())
    assert [(each.kind, each.id) for each in find_orphans()] == [("record", cage_id)]

    with Cage(runtime=Runtime(warm=0)) as cage:
        cage.runtime.wait_idle()
        assert [record.id for record in registry.records()] == [cage.id]


def test_what_an_earlier_host_left_is_told_and_stays(registry_home: Path) -> None:
    events: list[Event] = []
    body = KILLED.replace("Cage()", "Cage(Policy(isolation='landlock', run_as='self'))").replace(
        "import Cage", "import Cage, Policy"
    )
    with host(body) as killed:
        said(killed)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    scratches = {str(path) for path in registry_home.glob("pysandbox-*")}
    runtime = Runtime(sink=events.append, warm=0)

    with Cage(runtime=runtime) as cage:
        assert cage.run(["/bin/true"]).ok
        runtime.wait_idle()

    told = {event.data["path"] for event in events if event.type == UNTRACKED.name and event.data["kind"] == "scratch"}
    assert told == scratches != set()
    assert {str(path) for path in registry_home.glob("pysandbox-*")} == scratches
    runtime.drain()


def test_a_forked_copy_leaves_the_records_of_the_original(registry_home: Path) -> None:
    with Cage() as cage:
        cage.runtime.wait_idle()
        pid = os.fork()
        if pid == 0:
            try:
                cage.close()
                cage.runtime.at_exit()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
        assert [record.id for record in registry.live()] == [cage.id]


def test_a_host_that_ends_without_closing_takes_its_record_along(registry_home: Path) -> None:
    body = "from pysandbox import Cage; cage = Cage().open(); cage.runtime.wait_idle(); print(cage.id)"
    done = subprocess.run([sys.executable, "-c", body], check=True, capture_output=True, text=True)
    assert done.stdout.strip()
    assert registry.records() == []


def test_the_plan_of_a_cage_is_in_its_record(registry_home: Path) -> None:
    policy = Policy(env={"A": "B"})
    with Cage(policy) as cage:
        cage.runtime.wait_idle()
        (record,) = registry.live()
        assert record.digest == cage.runtime.prepare(policy, os.getcwd()).plan.digest
