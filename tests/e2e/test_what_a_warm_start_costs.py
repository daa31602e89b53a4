"""What a start costs where a cage already waits: so many calls of Python functions, so many system calls, and no more;
and how many functions and files a reader walks through from the call to the order that cage-init gets.

Counts, since a time tells nothing on a machine that does something else besides. Whoever adds a call to the way of
every command sees it here; a ceiling is raised only by somebody who says in the commit what the call is worth.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from operator import le
from pathlib import Path

import pytest

LIMIT = 120.0
# By CPython 3.11, whose comprehensions count as calls; a later one has fewer.
PYTHON = {"run": 127, "spawn": 122, "session": 96}
# Functions of this package and their files, from the call of `run` or `spawn` to the order; with a grant to be watched
# and a limit. A first start of a policy, where the modules are loaded and the host is known, goes through the compiler;
# with one function more where $HOME is not the home that the user database has, as in the suite.
WALKS = {"run": (48, 15), "spawn": (45, 15), "session": (33, 11), "first": (287, 70)}
# In the thread of the caller, without those that look at the plan's paths, one for each at most.
CALLER = {"run": 27, "spawn": 28, "session": 22}  # "spawn" with the thread that watches outputs, if it has ended
INIT = {"run": 16, "spawn": 17, "session": 15}
COMMAND = 21  # up to execve(2)
BY_CHANCE = {
    "brk", "clock_nanosleep", "futex", "madvise", "mmap", "munmap", "poll", "ppoll", "restart_syscall", "sched_yield",
}  # fmt: skip
STATS = {"newfstatat", "stat", "statx", "fstatat64"}

PREPARED = """
import gc, os, sys, time
from pysandbox import Cage, Policy
from pysandbox.testing import wait_idle

policy = Policy()
session = Cage(policy).open()

def spawn():
    with Cage(policy).spawn(["/bin/true"], stdout=log, stderr=log) as process:
        process.wait()

log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
start = {
    "run": lambda: Cage(policy).run(["/bin/true"]),
    "spawn": spawn,
    "session": lambda: session.run(["/bin/true"]),
}[sys.argv[1]]
for _ in range(20):  # what is called often has been compiled by then (shapes.made.BY_HAND)
    start()
    wait_idle()
gc.collect()
gc.disable()
"""
COUNTED = (
    PREPARED
    + """
def count(frame, event, argument):
    calls[0] += event == "call"

counts = []
for _ in range(5):
    calls = [0]
    sys.setprofile(count)
    start()
    sys.setprofile(None)
    counts.append(calls[0])
    wait_idle()
print(min(counts) - 1, flush=True)
os._exit(0)
"""
)
WALKED = """
import os, re, sys
from pysandbox import DEVNULL, Cage, Policy
from pysandbox.testing import wait_idle

way, grants = sys.argv[1], [os.path.join(sys.argv[2], name) for name in ("known", "new")]
for each in grants:
    os.makedirs(each)
known, new = (Policy(allow_write=[each], walltime_sec=30) for each in grants)
session = Cage(known).open()
start = {
    "run": lambda: Cage(known).run(["/bin/true"]),
    "spawn": lambda: Cage(known).spawn(["/bin/true"], stdout=DEVNULL, stderr=DEVNULL).wait(),
    "session": lambda: session.run(["/bin/true"]),
    "first": lambda: Cage(new).run(["/bin/true"]),
}
for _ in range(20):
    for each in ("run", "spawn", "session"):
        start[each]()
    wait_idle()
walked = []

def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and "/pysandbox/" in code.co_filename and not re.search("<(?!locals)", code.co_qualname):
        walked.append((code.co_filename, code.co_qualname))

walks = []
for _ in range(1 if way == "first" else 3):  # some of what a plan rests on is looked at now and then
    walked.clear()
    sys.setprofile(note)
    start[way]()
    sys.setprofile(None)
    walks.append(set(walked[: [name for _, name in walked].index("send_exec") + 2]))
    wait_idle()
walk = min(walks, key=len)
print(len(walk), len({path for path, _ in walk}), sorted(walk), flush=True)
os._exit(0)
"""
TRACED = (
    PREPARED
    + """
paths = len(session._launcher.prepare(policy).paths.facts)
for _ in range(3):
    os.write(2, b"BEGINS %d\\n" % paths)
    start()
    os.write(2, b"IS OVER\\n")
    wait_idle()
    time.sleep(0.05)  # the next cage-init is ready
os._exit(0)
"""
)


def run(code: str, *argv: str, traced: Path | None = None) -> str:
    strace = [] if traced is None else ["strace", "-f", "-o", str(traced)]
    done = subprocess.run(
        [*strace, sys.executable, "-c", code, *argv], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


Calls = Mapping[str, Counter[str]]


def starts(trace: Path) -> list[tuple[str, Calls]]:
    """For each start the caller's thread, and the system calls of every thread meanwhile, up to its execve."""
    found: list[tuple[str, Calls]] = []
    calls: dict[str, Counter[str]] | None = None
    for line in trace.read_text(errors="replace").splitlines():
        thread, said = line.split(None, 1)
        name = re.match(r"(\w+)\(", said)
        if "BEGINS" in said:
            calls = defaultdict(Counter)
        elif "IS OVER" in said and calls is not None:
            found.append((thread, calls))
            calls = None
        elif calls is not None and name is not None and name[1] not in BY_CHANCE and "execve" not in calls[thread]:
            calls[thread][name[1]] += 1
    return found


@pytest.mark.parametrize("way", PYTHON)
def test_a_warm_start_calls_no_more_python_than_this(way: str, tmp_path: Path) -> None:
    assert int(run(COUNTED, way, str(tmp_path / "log"))) <= PYTHON[way]


@pytest.mark.parametrize("way", WALKS)
def test_a_reader_walks_through_no_more_than_this(way: str, tmp_path: Path) -> None:
    functions, files, walk = run(WALKED, way, str(tmp_path)).split(maxsplit=2)
    most = WALKS[way]
    assert 10 < int(functions) <= most[0], walk  # the control: it was counted
    assert int(files) <= most[1], walk


@pytest.mark.parametrize("way", CALLER)
def test_a_warm_start_makes_no_more_system_calls_than_this(way: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    run(TRACED, way, str(tmp_path / "log"), traced=trace)
    paths = int(re.search(r"BEGINS (\d+)", trace.read_text(errors="replace"))[1])  # type: ignore[index]
    counted = [figures(*each) for each in starts(trace)]
    fewest = [min(each) for each in zip(*counted, strict=True)]  # a refill may fall into one of them
    most = [paths + 1, CALLER[way], INIT[way], COMMAND]
    assert all(map(le, fewest, most)), f"{fewest} of at most {most}: {trace.read_text(errors='replace')}"


def figures(caller: str, calls: Calls) -> tuple[int, int, int, int]:
    """What the caller looks at, what it calls besides; the calls of cage-init, and of the command."""
    stats = sum(calls[caller][name] for name in STATS)
    (init,) = (each for each in calls.values() if "wait4" in each)
    (command,) = (each for each in calls.values() if "execve" in each)
    return stats, calls[caller].total() - stats, init.total(), command.total()
