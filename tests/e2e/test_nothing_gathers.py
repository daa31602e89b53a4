"""What a host must not gather, however it is used: waiting cages, processes, directories, and other hosts' reports."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pysandbox import PIPE, Cage, CageClosedError, CageTimeout, Policy
from pysandbox.launch.stdio import null_device
from pysandbox.live.init import CageInit
from pysandbox.runtime.pool import MOST_OF_ALL
from pysandbox.runtime.runtime import Runtime
from pysandbox.testing import wait_idle


@pytest.fixture(scope="module", autouse=True)
def _opened_once() -> None:
    """What the library opens once and keeps is open before the first test is looked at."""
    null_device()


def children() -> set[int]:
    """Our child processes, the dead ones that nobody has collected included."""
    ours = set()
    for name in os.listdir("/proc"):
        try:
            text = Path(f"/proc/{name}/stat").read_text() if name.isdigit() else ""
        except OSError:
            continue
        if text and int(text.rpartition(")")[2].split()[1]) == os.getpid():
            ours.add(int(name))
    return ours


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_different_policies_do_not_gather_waiting_cages() -> None:
    runtime, before = Runtime(), children()
    for number in range(3 * MOST_OF_ALL):
        Cage(Policy(env={"N": str(number)}), runtime=runtime).run(["/bin/true"])

    runtime.wait_idle()

    assert 0 < len(children() - before) <= MOST_OF_ALL
    runtime.drain()


def is_dead(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "Z"


def test_a_waiting_cage_that_was_killed_is_not_handed_out() -> None:
    runtime, before = Runtime(), children()
    Cage(runtime=runtime).run(["/bin/true"])
    runtime.wait_idle()
    killed = children() - before
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert within(5, lambda: all(is_dead(pid) for pid in killed))

    assert within(1, lambda: Cage(runtime=runtime).run(["/bin/true"]).ok)
    runtime.drain()


def test_a_cage_that_nobody_closed_is_closed_with_its_last_reference() -> None:
    cage = Cage().open()
    init = cage.init_pid
    assert init in children()

    del cage
    gc.collect()

    assert within(2, lambda: init not in children())


def test_a_close_that_was_interrupted_has_ended_the_cage() -> None:
    cage = Cage(Policy(grace_sec=30)).open()
    init, stubborn = cage.init_pid, "trap '' TERM; echo; while :; do sleep 1; done"
    running = cage.spawn(["/bin/sh", "-c", stubborn], stdout=PIPE)
    assert running.stdout is not None and running.stdout.read(1)
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()

    with pytest.raises(KeyboardInterrupt):
        cage.close()

    assert within(2, lambda: init not in children())
    running.close()


def test_ctrl_c_is_heard_while_a_command_without_pipes_runs() -> None:
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()

    with pytest.raises(KeyboardInterrupt):
        Cage().run(["sleep", "10"], stdout=None, stderr=None)

    assert time.monotonic() - began < 5


@pytest.mark.parametrize("own", [False, True], ids=["default runtime", "own runtime"])
def test_a_forked_copy_of_the_host_takes_no_report_from_it(own: bool) -> None:
    runtime = Runtime() if own else None
    process = Cage(runtime=runtime).spawn(["/bin/sh", "-c", "read line; exit 7"], stdin=PIPE)
    pid = os.fork()
    if pid == 0:
        try:
            process.wait()
        except CageClosedError:
            process.close()
            os._exit(0)
        finally:
            os._exit(1)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert process.stdin is not None
    process.stdin.write(b"\n")
    assert process.wait(5) == 7
    process.close()
    if runtime is not None:
        runtime.drain()


def test_a_host_that_ends_leaves_no_directory_of_its_cages(tmp_path: Path) -> None:
    body = """if True:
        from pysandbox import Cage, Policy
        policy = Policy(isolation="landlock", run_as="self")
        Cage(policy).run(["/bin/true"])
        cage = Cage(policy).open()
    """
    places = {"TMPDIR": str(tmp_path), "XDG_RUNTIME_DIR": ""}
    subprocess.run([sys.executable, "-c", body], env=os.environ | places, check=True)

    assert list(tmp_path.iterdir()) == []


def test_a_sink_that_raises_does_not_end_the_background_work() -> None:
    def sink(_: object) -> None:
        raise RuntimeError("a sink of the user's")

    runtime = Runtime(sink=sink)
    runtime._worker.submit(lambda: 1 / 0)
    ran = threading.Event()
    runtime._worker.submit(ran.set)

    assert ran.wait(5)


def test_the_cap_on_output_holds_over_a_timeout() -> None:
    flood = "for i in 1 2 3; do (exec cat /dev/zero) & done; wait"
    with pytest.raises(CageTimeout) as error:
        Cage(Policy(output_mb=1)).run(["/bin/sh", "-c", flood], timeout=0.5, text=False)

    assert len(error.value.result.stdout) == 1 << 20
    assert error.value.result.truncated


@pytest.mark.parametrize("timeout", [1e8, 1e9])
def test_a_timeout_longer_than_poll_can_wait_is_waited_for(timeout: float) -> None:
    assert Cage(Policy(walltime_sec=1e8, grace_sec=1e8)).run(["/bin/true"], timeout=timeout).ok


def test_a_variable_is_passed_on_as_it_is_now(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Policy(env_passthrough=["PSB_NOW"])
    for value in ("one", "two"):
        monkeypatch.setenv("PSB_NOW", value)

        assert Cage(policy).run(["/bin/sh", "-c", "echo $PSB_NOW"]).stdout == f"{value}\n"


def test_variables_may_be_bytes() -> None:
    assert "A=\\xff" in ascii(Cage().run(["/usr/bin/env"], env={b"A": b"\xff"}, text=False).stdout)


def held(live: CageInit) -> list[int]:
    """The descriptors of a cage's table of mounts, by which this process keeps its mount namespace."""
    table = f"/proc/{live.pid}/mountinfo"
    names = {fd: f"/proc/self/fd/{fd}" for fd in map(int, os.listdir("/proc/self/fd"))}
    return [fd for fd, name in names.items() if os.path.lexists(name) and os.readlink(name) == table]


def test_the_mounts_of_a_cage_are_held_while_it_waits_and_no_longer() -> None:
    """Whoever lets go of them last takes them down: not this process, which has other things to do."""
    runtime = Runtime(warm=1)
    prepared = runtime.prepare(Policy(), os.getcwd())
    first = runtime.take(prepared)
    assert not held(first), "nobody has asked what it covers"
    runtime.replenish(prepared, first, last=True)
    wait_idle(runtime)
    waiting = runtime.take(prepared)
    assert held(waiting), "the control: whether it covers was asked"
    runtime.replenish(prepared, waiting, last=True)
    wait_idle(runtime)
    assert not held(waiting)
    with Cage(Policy(), runtime=runtime) as cage:
        assert cage.run(["true"]).exit_code == 0
        assert cage._opened is not None and held(cage._opened.live)
    for live in (first, waiting):
        live.close()
    runtime.drain()
