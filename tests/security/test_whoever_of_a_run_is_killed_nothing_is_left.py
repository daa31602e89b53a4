"""Claim: SIGKILL to the launcher, the shim, cage-init or a host that has forked, whenever it comes, leaves no process
3 s later, and nothing of what the run had made that the next host cannot find and remove: no record, socket, scratch
directory, cgroup, mount or listening port."""

from __future__ import annotations

import glob
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from pysandbox.records.orphans import find_orphans, remove

from .harness import SLOWNESS, wait_until
from .test_no_moment_of_a_host_s_death_leaves_a_process import SEED, of_this_run

KILLS = int(os.environ.get("PSB_KILLS", "1"))  # of each shape, at random moments; PSB_KILLS gives more, half early
EARLY, LATE = 0.1, 0.6  # seconds
BUSY = ["/bin/sh", "-c", "setsid -f sleep 60; (trap '' TERM; sleep 60) & sleep 60"]
HEAD = """
    import os, sys, socket, threading, time
    from pysandbox import DEVNULL, Cage, Policy, Session
    port = sys.argv[1]
    busy = %r
    quiet = {"stdin": DEVNULL, "stdout": DEVNULL, "stderr": DEVNULL}
    knock = "while true; do (exec 3<>/dev/tcp/198.51.100.1/443) 2>/dev/null; (exec 3<>/dev/tcp/127.0.0.1/1080); done"
    serve = "import socket; s = socket.create_server(('127.0.0.1', 8000))\\nwhile True: s.accept()[0].sendall(b'hi')"
    print("ready", flush=True)
"""
# What a host does when it, or what it has started, is killed: {name: the rest of its program}.
HOSTS = {
    "published ports": """
        with Cage(Policy(ports=(port + ":8000",))) as cage:
            cage.spawn(["/usr/bin/python3", "-c", serve], **quiet)
            while True:
                try: socket.create_connection(("127.0.0.1", int(port)), 1).recv(2)
                except OSError: pass
    """,
    "doors": """
        with Cage(Policy(hosts=["example.com:443"])) as cage:
            for _ in range(3): cage.spawn(["/bin/bash", "-c", knock], **quiet)
            while True: cage.run(["/bin/true"])
    """,
    "a callback that decides": """
        with Cage(policy_fn=lambda event, context: None) as cage:
            cage.spawn(busy, **quiet)
            while True: cage.run(["/bin/true"])
    """,
    "a session with scratch and limits": """
        with Session() as session:
            cage = Cage(Policy(state="scratch", memory_mb=200, max_pids=60), session=session)
            with cage:
                cage.spawn(busy, **quiet)
                while True: cage.run(["/bin/sh", "-c", "echo kept >/scratch/file"])
    """,
    "a host that has forked": """
        with Cage(Policy(hosts=["example.com:443"])) as cage:
            cage.spawn(busy, **quiet)
            if not os.fork():
                time.sleep(60)
            while True: cage.run(["/bin/true"])
    """,
}
COMMANDS = {
    "pysandbox run": ["run", "--host", "example.com:443", "--", *BUSY],
    "pysandbox run --pty": ["run", "--pty", "--", *BUSY],
    "pysandbox up": ["up", "--trust", "it"],
}
MANIFEST = '[sandbox.it]\nrecipes = ["python"]\ncommand = "sh -c \'setsid -f sleep 60; sleep 60 & sleep 60\'"\n'
Choose = Callable[[subprocess.Popen[bytes], random.Random, set[int]], list[int]]


def launcher(started: subprocess.Popen[bytes], chance: random.Random, ours: set[int]) -> list[int]:
    return [started.pid]


def somebody(started: subprocess.Popen[bytes], chance: random.Random, ours: set[int]) -> list[int]:
    """Anyone of the run, a helper, cage-init, a command; and then the launcher, which may go on without it."""
    return [chance.choice(sorted(ours | {started.pid})), started.pid]


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


def start(name: str, port: int, where: Path) -> subprocess.Popen[bytes]:
    if name in HOSTS:
        body = textwrap.dedent(HEAD % BUSY) + textwrap.dedent(HOSTS[name])
        command = [sys.executable, "-c", body, str(port)]
    else:
        command = [str(Path(sys.executable).with_name("pysandbox")), *COMMANDS[name]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        command, env=environment, cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def new_processes(before: set[int]) -> dict[int, str]:
    return {pid: text for pid, text in of_this_run().items() if pid not in before}


def demand_nothing(before: set[int], paths: set[str], mounts: int, home: Path, told: str) -> None:
    """First what the kernel does alone, then what the next host finds."""
    wait_until(lambda: not new_processes(before), within=3 * SLOWNESS)
    assert not new_processes(before), told
    for orphan in find_orphans():
        remove(orphan)
    assert not find_orphans(), told
    assert sorted(os.listdir(home / "pysandbox")) in ([], ["told"]) if (home / "pysandbox").exists() else True, told
    assert things() - paths == set(), told
    assert Path("/proc/self/mountinfo").read_bytes().count(b"\n") == mounts, told


def things() -> set[str]:
    """Directories and groups of cages of hosts that were killed: every other host of ours has ended."""
    places = {tempfile.gettempdir(), "/dev/shm", os.environ["XDG_RUNTIME_DIR"]}
    found = {path for place in places for path in glob.glob(f"{place}/pysandbox-*")}
    return {path for path in found if os.lstat(path).st_uid == os.geteuid()}


@pytest.mark.slow
@pytest.mark.parametrize("choose", [launcher, somebody], ids=["the launcher", "somebody"])
@pytest.mark.parametrize("name", [*HOSTS, *COMMANDS])
def test_nothing_is_left(name: str, choose: Choose, tmp_path: Path, registry_home: Path) -> None:
    chance = random.Random(f"{SEED} {name} {choose.__name__}")
    (tmp_path / "pysandbox.toml").write_text(MANIFEST)
    before, paths = set(of_this_run()), things()
    mounts = Path("/proc/self/mountinfo").read_bytes().count(b"\n")
    for turn in range(KILLS):
        port, moment = free_port(), chance.uniform(0, EARLY if turn % 2 else LATE)
        with start(name, port, tmp_path) as started:
            if name in HOSTS:
                assert started.stdout is not None and started.stdout.readline() == b"ready\n"
            time.sleep(moment)
            assert started.poll() is None, f"the control: {name} runs"
            for pid in choose(started, chance, set(new_processes(before))):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            started.wait()
            if name == "a host that has forked":
                end_the_copy(started.pid, before)
        told = f"{name}, seed {SEED}, killed after {moment:.3f} s"
        demand_nothing(before, paths, mounts, registry_home, told)
        with socket.create_server(("127.0.0.1", port)):
            pass  # nobody listens there any more


def end_the_copy(session: int, before: set[int]) -> None:
    """A copy of the host holds copies of all its descriptors: the cage ends for all that, while the copy lives. That is
    the user's own process, and goes on; the cage's are those of other sessions."""

    def of_the_cage() -> dict[int, str]:
        return {pid: text for pid, text in new_processes(before).items() if not _in_session(pid, session)}

    wait_until(lambda: not of_the_cage(), within=3 * SLOWNESS)
    assert not of_the_cage()
    for pid in new_processes(before):
        os.kill(pid, signal.SIGKILL)


def _in_session(pid: int, session: int) -> bool:
    try:
        return os.getsid(pid) == session
    except ProcessLookupError:
        return False


@pytest.mark.slow
def test_nothing_is_left_of_a_detached_cage_whose_shim_is_killed(tmp_path: Path, registry_home: Path) -> None:
    chance = random.Random(f"{SEED} shim")
    before, paths = set(of_this_run()), things()
    mounts = Path("/proc/self/mountinfo").read_bytes().count(b"\n")
    body = f"from pysandbox import Cage, Policy\nprint(Cage(Policy(hosts=['example.com:443'])).detach({BUSY!r}).id)"
    for turn in range(KILLS):
        detached = subprocess.run([sys.executable, "-c", body], capture_output=True, text=True, check=True)
        time.sleep(chance.uniform(0, EARLY if turn % 2 else LATE))
        record = json.loads((registry_home / "pysandbox" / f"{detached.stdout.strip()}.json").read_text())
        os.kill(record["host"][1], signal.SIGKILL)
        demand_nothing(before, paths, mounts, registry_home, f"seed {SEED}, turn {turn}")


def test_the_control_what_a_living_host_has_is_seen(tmp_path: Path, registry_home: Path) -> None:
    before = set(of_this_run())
    with start("doors", free_port(), tmp_path) as started:
        wait_until(
            lambda: len(new_processes(before)) > 2 and bool(find_orphans() or os.listdir(registry_home)), within=10
        )
        seen, registered = new_processes(before), os.listdir(registry_home)
        started.kill()
    assert len(seen) > 2, "a launcher, cage-init and a command"
    assert registered
