"""Claim: whenever the host is killed, in whatever it was just doing, nothing that it started is there 3 s later."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from _support.lineage import is_ours
from pysandbox.records.orphans import find_orphans, remove

from .harness import SLOWNESS, wait_until

SEED = int(os.environ.get("PSB_SEED", "20261122"))
KILLS = 4  # of each shape; PSB_KILLS gives more
EARLY, LATE = 0.15, 0.6  # seconds: half of the moments are before the first, half before the second

HEAD = """
    import sys, threading, time
    from pysandbox import DEVNULL, PIPE, Cage, Policy, Runtime
    directory = sys.argv[1]
    busy = ['/bin/sh', '-c', 'setsid -f sleep 60; (trap "" TERM; sleep 60) & sleep 60']
    quiet = {"stdin": DEVNULL, "stdout": DEVNULL, "stderr": DEVNULL}
    print("ready", flush=True)
"""
SESSION = "cage = Cage({policy})\nwith cage:\n    cage.spawn(busy, **quiet)\n    while True: cage.run(['/bin/true'])"
# What a host is doing when it is killed: {name: the rest of its program}.
SHAPES = {
    "one after another": "while True: Cage().run(['/bin/true'])",
    "a session": SESSION.format(policy=""),
    "calls decided at run time": SESSION.format(policy="Policy(allow_ips=['192.0.2.1:9'])"),
    "names": SESSION.format(policy="Policy(hosts=['example.com:443'])"),
    "without namespaces": SESSION.format(policy="Policy(isolation='landlock', run_as='self')"),
    "limits": SESSION.format(policy="Policy(memory_mb=200, max_pids=50, cpu_percent=50)"),
    "a terminal": "cage = Cage()\nwith cage:\n    while True: cage.spawn(busy, pty=True)",
    "files": "with Cage() as cage:\n    while True: cage.files.write('/tmp/a', b'x'); cage.files.read('/tmp/a')",
    "threads and a warm pool": "def work():\n    runtime = Runtime(warm=4)\n"
    "    while True: Cage(runtime=runtime).run(['/bin/true'])\n"
    "for _ in range(4): threading.Thread(target=work).start()",
}
# The command line, as it is typed: {name: arguments}.
COMMANDS = {
    "pysandbox run": ["run", "--", "/bin/sh", "-c", "setsid -f sleep 60; sleep 60"],
    "pysandbox run --timeout": ["run", "--timeout", "50", "--", "/bin/sh", "-c", "sleep 60 & sleep 60"],
    "pysandbox run --pty": ["run", "--pty", "--", "/bin/sh", "-c", "sleep 60"],
}


def program(name: str, directory: Path) -> list[str]:
    if name in COMMANDS:
        return [str(Path(sys.executable).with_name("pysandbox")), *COMMANDS[name]]
    return [sys.executable, "-c", textwrap.dedent(HEAD) + SHAPES[name], str(directory)]


def of_this_run() -> dict[int, str]:
    """Living processes that bear this run's mark, but this one."""
    return dict(_living())


def _living() -> Iterator[tuple[int, str]]:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            state = Path("/proc", pid, "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            if int(pid) != os.getpid() and is_ours(pid) and state not in "ZX":
                yield int(pid), Path("/proc", pid, "cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:  # it ended
            continue


def killed_after(command: list[str], seconds: float, where: Path) -> None:
    """Starts it, and kills it so many seconds after it is up."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        command, env=environment, cwd=where, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, start_new_session=True,
    ) as host:  # fmt: skip
        if command[1] == "-c":
            assert host.stdout is not None and host.stdout.readline() == b"ready\n"
        time.sleep(seconds)
        host.send_signal(signal.SIGKILL)
        host.wait()


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SHAPES, *COMMANDS])
def test_nothing_is_left_of_a_host_that_is_killed(name: str, tmp_path: Path) -> None:
    chance = random.Random(f"{SEED} {name}")
    before = of_this_run()
    for turn in range(int(os.environ.get("PSB_KILLS", KILLS))):
        moment = chance.uniform(0, EARLY if turn % 2 else LATE)
        killed_after(program(name, tmp_path), moment, tmp_path)
        wait_until(lambda: of_this_run().keys() <= before.keys(), within=3 * SLOWNESS)
        left = {pid: text for pid, text in of_this_run().items() if pid not in before}
        assert not left, f"seed {SEED}, killed after {moment:.3f} s"
    for orphan in find_orphans():  # what only a living host can remove: scratch directories, cgroups
        if orphan.kind != "record":
            remove(orphan)


def test_the_control_a_process_without_a_cage_lives_on(tmp_path: Path) -> None:
    before = of_this_run()
    started = "import subprocess; subprocess.Popen(['/bin/sleep', '60'], stdout=subprocess.DEVNULL)"
    body = f"{started}\nprint('ready', flush=True)\nimport time; time.sleep(60)"
    killed_after([sys.executable, "-c", body], 0.05, tmp_path)
    left = [pid for pid in of_this_run() if pid not in before]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left
