"""A host that is told to end (SIGTERM) ends its cages cleanly first; one that is killed leaves nothing that runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from _support.hosts import comes_true, host, said
from pysandbox import Cage, Runtime
from pysandbox.records import registry
from pysandbox.records.orphans import find_orphans, remove

HOST = """
    import os, signal, sys, threading
    from pysandbox import Cage, Policy, Runtime
    before, isolation, directory = sys.argv[1:]
    if before == "handler":  # it may come while something is printed
        signal.signal(signal.SIGTERM, lambda number, frame: (os.write(1, b"before "), sys.exit(5)))
    elif before == "ignored":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    runtime = Runtime()
    runtime.drain_on_sigterm()
    policy = Policy(isolation=isolation, run_as="self", allow_write=[directory], grace_sec=30)
    polite = "trap 'echo > {}/$1; exit 0' TERM; echo; while :; do sleep 0.01; done"
    def start(cage, name):
        process = cage.spawn(["/bin/sh", "-c", polite.format(directory), "sh", name], stdout=-1)
        process.stdout.read(1)
        return process
    session = Cage(policy, runtime=runtime).open()
    held = [start(session, "one"), start(session, "two"), start(Cage(policy, runtime=runtime), "three")]
    threading.Thread(target=held[2].communicate).start()
    runtime.wait_idle()
    print("ready", flush=True)
    held[0].wait()
    print("over", flush=True)
    while True: signal.pause()
"""


@pytest.mark.parametrize("isolation", ["full", "landlock"])
@pytest.mark.parametrize(("before", "code"), [("default", -signal.SIGTERM), ("handler", 5)])
def test_cages_end_cleanly_before_their_host(
    registry_home: Path, tmp_path: Path, isolation: str, before: str, code: int
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    with host(HOST, before, isolation, str(place)) as draining:
        assert said(draining) == "ready"
        draining.terminate()
        out, _ = draining.communicate(timeout=20)

        assert draining.returncode == code
        # "over" is its own last word about a cage; the signal may end it before it has said that
        assert set(out.split()) - {"over"} == ({"before"} if before == "handler" else set())
    assert sorted(os.listdir(place)) == ["one", "three", "two"], "each saw SIGTERM and did what it had to"
    assert (registry.records(), find_orphans()) == ([], ())


def test_a_signal_that_was_ignored_drains_and_is_ignored(registry_home: Path, tmp_path: Path) -> None:
    with host(HOST, "ignored", "full", str(tmp_path)) as draining:
        assert said(draining) == "ready"
        draining.terminate()
        assert said(draining) == "over"
        assert comes_true(lambda: not registry.records())
        assert draining.poll() is None


def test_a_stubborn_command_is_killed_after_its_grace_period(registry_home: Path) -> None:
    body = """
        from pysandbox import Cage, Policy, Runtime
        runtime = Runtime()
        runtime.drain_on_sigterm()
        with Cage(Policy(grace_sec=0.2), runtime=runtime) as cage:
            process = cage.spawn(["/bin/sh", "-c", "trap '' TERM; echo; while :; do sleep 1; done"], stdout=-1)
            process.stdout.read(1)
            print("ready", flush=True)
            print(process.result().reason, flush=True)
    """
    with host(body) as draining:
        assert said(draining) == "ready"
        draining.terminate()
        assert said(draining) == "cancelled"


def test_two_runtimes_drain_one_after_the_other(registry_home: Path) -> None:
    body = """
        import signal
        from pysandbox import Cage, Runtime
        runtimes = [Runtime(), Runtime()]
        for runtime in runtimes: runtime.drain_on_sigterm()
        cages = [Cage(runtime=runtime).open() for runtime in runtimes]
        for runtime in runtimes: runtime.wait_idle()
        print("ready", flush=True)
        while True: signal.pause()
    """
    with host(body) as draining:
        assert said(draining) == "ready"
        assert len(registry.live()) == 2
        draining.terminate()
        assert draining.wait(timeout=20) == -signal.SIGTERM
    assert registry.records() == []


def test_nothing_can_be_started_while_the_host_drains() -> None:
    from pysandbox import CageClosedError

    runtime = Runtime(warm=0)
    runtime.end_all()
    with pytest.raises(CageClosedError, match="told to end"):
        Cage(runtime=runtime).run(["/bin/true"])


def test_it_is_installed_in_the_main_thread_only() -> None:
    from threading import Thread

    raised: list[BaseException] = []

    def install() -> None:
        try:
            Runtime(warm=0).drain_on_sigterm()
        except ValueError as error:
            raised.append(error)

    thread = Thread(target=install)
    thread.start()
    thread.join()
    assert raised


def test_a_host_that_ends_with_commands_in_its_hands_ends(registry_home: Path) -> None:
    body = """
        import sys
        from pysandbox import Cage, Runtime
        own = Cage(runtime=Runtime(warm=0)).spawn(["/bin/sleep", "600"])
        def fail():
            raise SystemExit(3)
        sys.held = [own, Cage().spawn(["/bin/sleep", "600"]), Cage().open()]
        fail()
    """
    with host(body) as ending:
        assert ending.wait(timeout=20) == 3
    assert comes_true(lambda: not registry.records())


def test_a_record_that_is_being_written_when_its_host_ends_goes_too(
    registry_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes, goes_on, write = Event(), Event(), registry.write

    def slowly(record: registry.CageRecord) -> None:
        write(record)
        writes.set()
        goes_on.wait()

    monkeypatch.setattr(registry, "write", slowly)
    runtime = Runtime(warm=0)
    with Cage(runtime=runtime) as cage:
        cage.open()
        assert writes.wait(10)
        leaving = Thread(target=runtime.at_exit)
        leaving.start()
        leaving.join(0.1)  # far more than it takes when it waits for nothing
        goes_on.set()
        leaving.join()
        runtime.wait_idle()

        assert registry.records() == []


LOOP = """
    import sys
    from pysandbox import Cage, Policy
    print("ready", flush=True)
    while True:
        for policy in (Policy(), Policy(isolation="landlock", run_as="self")):
            Cage(policy).run(["/bin/sleep", "0.001"])
            with Cage(policy) as cage:
                cage.spawn(["/bin/sleep", "600"])
                cage.run(["/bin/true"])
"""


def test_a_host_killed_at_any_point_leaves_nothing_that_runs(registry_home: Path) -> None:
    """What it leaves is found, stays until it is asked for, and hinders nobody."""
    for lines in range(12):
        with host(LOOP) as killed:
            said(killed)
            comes_true(iter([False] * (3 * lines) + [True]).__next__)  # another point each time
            killed.kill()
            killed.wait()
    assert comes_true(lambda: {each.kind for each in find_orphans()} <= {"record", "scratch"}), find_orphans()
    left = {path for path in registry_home.glob("pysandbox-*") if path.is_dir()}

    with Cage(runtime=Runtime(warm=0)) as cage:
        assert cage.run(["/bin/true"]).ok

    assert {path for path in registry_home.glob("pysandbox-*") if path.is_dir()} == left
    for each in find_orphans():
        remove(each)
    assert find_orphans() == ()
    assert not list(registry_home.glob("pysandbox-*"))


def test_the_command_line_takes_its_command_along(registry_home: Path) -> None:
    command = [sys.executable, "-m", "pysandbox", "run", "--", "sh", "-c", "trap 'echo told; exit 0' TERM; echo on; "
               "while :; do sleep 0.01; done"]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert said(process) == "on"
    assert comes_true(registry.live)

    process.terminate()

    out, _ = process.communicate(timeout=20)
    assert (out, process.returncode) == ("told\n", 0)  # the signal is the command's, and so is its exit code
    assert registry.records() == []
