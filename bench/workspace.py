"""What copy-on-write costs: a cage's directory against a bare overlay mount with the same options, and no cage.

    python -m bench.workspace [--files N] [--rounds N] [--json]

Each round makes the same tree once more and runs the same program over it, in the one and in the other, in an order
that turns: what else the machine does falls on all alike. The figures are medians of processor time, in milliseconds,
and what counts are their ratios. A third subject is the bare overlay below a Landlock domain that grants the same and
a filter of one instruction: what such walls cost, whoever puts them up. Three are jobs as people run them
(workspace_jobs.py). Then the start of a cage with such a directory
and of one without, in turns; the rename of a directory, which an overlay leaves to its user; and what the host does
with it afterwards: the list of changes, what a conflict costs a path once both are read, and a commit beside the same
files written with one syncfs(2).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import workspace_jobs
from pysandbox import Cage, Policy, Runtime
from pysandbox.launch import native
from pysandbox.probe.opening import Opening
from pysandbox.workspace.conflict import conflict_of

FILES, ROUNDS, STARTS, MOVED = 20_000, 5, 150, 1_000
PYTHON = "/usr/bin/python3"
MOUNT = (
    "mount -t tmpfs -o size=1024m,nr_inodes=262144 tmpfs {place}/layers"
    " && mkdir {place}/layers/upper {place}/layers/work"
    " && mount -t overlay -o nosuid,nodev,userxattr,xino=off,index=off,volatile,lowerdir={tree},"
    "upperdir={place}/layers/upper,workdir={place}/layers/work overlay {tree}"
)
WALLS = """
import ctypes, os, struct, sys
libc, tree, argv = ctypes.CDLL(None, use_errno=True), sys.argv[1], sys.argv[2:]
def call(*arguments):
    result = libc.syscall(*[ctypes.c_long(each) if isinstance(each, int) else each for each in arguments])
    if result < 0: raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
every, reading = (1 << 16) - 1, 1 << 0 | 1 << 2 | 1 << 3  # LANDLOCK_ACCESS_FS_*: execute, read a file, a directory
ruleset = call(444, struct.pack("<Q", every), 8, 0)
granted = {"/usr": reading, "/etc": reading, "/dev": every, "/proc": reading, tree: every}
for path, rights in granted.items():
    call(445, ruleset, 1, struct.pack("<Qi", rights, os.open(path, os.O_PATH)), 0)
call(446, ruleset, 0)
allow = ctypes.create_string_buffer(struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000))  # return SECCOMP_RET_ALLOW
libc.prctl(22, 2, ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", 1, ctypes.addressof(allow))))  # PR_SET_SECCOMP
os.execv(argv[0], argv)
"""
PROGRAM = """
import json, os, sys, time
os.chdir(sys.argv[1])
names = sorted(os.listdir("many"))
took = {}
def row(name, work):
    start = time.process_time(); work(); took[name] = (time.process_time() - start) * 1000
def read():
    for name in names:
        fd = os.open("many/" + name, os.O_RDONLY); os.read(fd, 4096); os.close(fd)
def create():
    os.mkdir("new")
    for name in names:
        fd = os.open("new/" + name, os.O_WRONLY | os.O_CREAT); os.write(fd, b"x" * 1024); os.close(fd)
def append():
    for name in names[:1000]:
        fd = os.open("many/" + name, os.O_WRONLY | os.O_APPEND); os.write(fd, b"x"); os.close(fd)
def each(call, where): return lambda: [call(where + name) for name in names]
row("stat cold", each(os.stat, "many/")); row("stat warm", each(os.stat, "many/"))
row("read cold", read); row("read warm", read)
row("create", create); row("append to 1,000", append); row("append again", append)
row("unlink new", each(os.unlink, "new/")); row("whiteout", each(os.unlink, "many/"))
print(json.dumps(took))
"""


def plant(tree: Path, count: int) -> None:
    (tree / "many").mkdir(parents=True)
    for number in range(count):
        (tree / "many" / f"file{number:06}").write_bytes(b"x" * 1024)


def bare(program: str, tree: Path, *first: str) -> dict[str, float]:
    script = MOUNT.format(place=tree.parent, tree=tree) + ' && exec "$@"'
    argv = ["unshare", "-Urm", "sh", "-c", script, "sh", *first, PYTHON, "-I", "-S", "-c", program, str(tree)]
    return dict(json.loads(subprocess.run(argv, check=True, capture_output=True, text=True).stdout))


def walled(program: str, tree: Path) -> dict[str, float]:
    return bare(program, tree, PYTHON, "-I", "-S", "-c", WALLS, str(tree))


def caged(program: str, tree: Path) -> dict[str, float]:
    result = Cage(Policy(cow=[str(tree)])).run([PYTHON, "-I", "-S", "-c", program, str(tree)])
    return dict(json.loads(result.check().stdout))


SUBJECTS: tuple[Callable[[str, Path], dict[str, float]], ...] = (bare, walled, caged)


def rows(program: str, plant: Callable[[Path], object], rounds: int) -> dict[str, tuple[float, ...]]:
    """The median of each row of `program` for each of SUBJECTS, each over a tree that `plant` has made anew."""
    taken: dict[str, tuple[list[float], ...]] = {}
    for number in range(rounds):
        for index in (each % len(SUBJECTS) for each in range(number, number + len(SUBJECTS))):
            with tempfile.TemporaryDirectory() as place:
                tree = Path(place, "tree")
                plant(tree)
                Path(place, "layers").mkdir()
                for name, milliseconds in SUBJECTS[index](program, tree).items():
                    taken.setdefault(name, ([], [], []))[index].append(milliseconds)
    return {name: tuple(map(statistics.median, each)) for name, each in taken.items()}


def starts(count: int) -> dict[str, float]:
    """Medians of a run of /bin/true to its end: by subprocess, in a cage, and in one with such a directory; in an order
    that turns, since the kernel takes a cage down while the next one starts."""
    with tempfile.TemporaryDirectory() as place:
        runtime = Runtime()
        subjects: dict[str, Callable[[], object]] = {
            "subprocess.run": lambda: subprocess.run(["/bin/true"], check=True),
            "a cage": lambda: Cage(Policy(allow=[place]), runtime=runtime).run(["/bin/true"]).check(),
            "with copy-on-write": lambda: Cage(Policy(cow=[place]), runtime=runtime).run(["/bin/true"]).check(),
        }
        taken: dict[str, list[float]] = {name: [] for name in subjects}
        orders = list(itertools.permutations(subjects))
        for number in range(count + 3):
            for name in orders[number % len(orders)]:
                began = time.perf_counter()
                subjects[name]()
                taken[name].append((time.perf_counter() - began) * 1000)
                runtime.wait_idle()
        runtime.drain()
    return {name: statistics.median(times[3:]) for name, times in taken.items()}


def renamed(count: int, rounds: int) -> float:
    program = (
        "import os, sys, time; os.chdir(sys.argv[1]); t = time.perf_counter(); os.rename('many', 'moved'); "
        "print((time.perf_counter() - t) * 1000)"
    )
    taken = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as place:
            tree = Path(place, "tree")
            plant(tree, count)
            result = Cage(Policy(cow=[str(tree)])).run([PYTHON, "-I", "-S", "-c", program, str(tree)])
            taken.append(float(result.check().stdout))
    return statistics.median(taken)


WRITE = """
import os, sys
os.chdir(sys.argv[1])
os.mkdir("made")
for number in range(int(sys.argv[2])):
    with open(f"made/file{number:06}", "wb") as file: file.write(os.urandom(8192))
"""


def host_side(rounds: int) -> dict[str, float]:
    """Medians: of the list of changes, of a look for conflicts a path (us), and of a commit, in milliseconds."""
    taken: dict[str, list[float]] = {}

    def row(name: str, work: Callable[[], object], scale: float = 1000) -> None:
        began = time.perf_counter()
        work()
        taken.setdefault(name, []).append((time.perf_counter() - began) * scale)

    def measure(count: int) -> None:
        with tempfile.TemporaryDirectory() as place:
            cage = Cage(Policy(cow=[place]))
            cage.run([PYTHON, "-I", "-S", "-c", WRITE, place, str(count)]).check()
            row(f"changes of {count:,}", cage.workspace.changes)
            if count == 2_000:
                found, opening = cage.workspace.changes(), Opening.now()
                row("conflict once read, us", lambda: [conflict_of(each, opening) for each in found], 1e6 / len(found))
                row("the same, written", lambda: written(Path(place, "beside"), count))
                row("commit of 2,000", cage.workspace.commit)
            cage.workspace.abort()

    for _ in range(rounds):
        measure(2_000)
        measure(20_000)
    return {name: statistics.median(times) for name, times in taken.items()}


def written(place: Path, count: int) -> None:
    """What a commit writes, by a program: each file under a name of its own, and all of them on the disk."""
    place.mkdir()
    content = b"x" * 8192
    for number in range(count):
        with (place / f"file{number:06}").open("wb") as file:
            file.write(content)
    fd = os.open(place, os.O_RDONLY)
    native.sync_file_system(fd)
    os.close(fd)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = rows(PROGRAM, lambda tree: plant(tree, asked.files), asked.rounds)
    found |= rows(workspace_jobs.PROGRAM, workspace_jobs.plant, asked.rounds)
    began, moved, host = starts(STARTS), renamed(MOVED, asked.rounds), host_side(asked.rounds)
    if asked.json:
        json.dump({"rows": found, "starts": began, "rename of 1,000": moved, "host": host}, sys.stdout)
        return
    print(f"{'':18}{'bare overlay':>14}{'with walls':>12}{'in a cage':>12}{'of bare':>9}{'of walls':>9}")
    for name, (one, walls, other) in found.items():
        print(f"{name:18}{one:14.1f}{walls:12.1f}{other:12.1f}{other / one:9.2f}{other / walls:9.2f}")
    for name, milliseconds in began.items():
        print(f"{name:24}{milliseconds:8.2f} ms, {milliseconds / began['subprocess.run']:.2f} of subprocess.run")
    print(f"rename of a directory with {MOVED:,} files: {moved:.0f} ms")
    for name, value in host.items():
        print(f"{name:24}{value:8.2f}" + ("" if "us" in name else " ms"))
    print(f"a commit of the same files written: {host['commit of 2,000'] / host['the same, written']:.2f}")


if __name__ == "__main__":
    main()
