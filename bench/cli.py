"""What the command costs as a whole process, beside an empty interpreter and bwrap: python -m bench.cli [ROUNDS]

python -m bench.cli --cpu [ROUNDS]: CPU seconds instead, of the options that runs are made with, the first time (nothing
is kept) and the second, and of the import; steadier than the clock on a machine that others use.

Interleaved in an order that is drawn anew for each round, since who comes after a large program finds cold caches;
medians; read the ratios. What the bars compare runs first and alone: the others write plans and byte code, and the
record of a run, which is on the disk before its command starts, would wait for that. The first runs by each way are not
counted: they write the plan that the launcher reads, and the byte code of our modules, without which a first run costs
twice as much: where that cannot be written, the last line says so. bwrap is asked for about the same cage
(bench/peers.py), and writes no record of it.
"""

from __future__ import annotations

import compileall
import importlib.util
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pysandbox
from bench.peers import bwrap

SESSION = "import pysandbox; pysandbox.Cage().run(['/bin/true'])"
LAUNCHER, YARDSTICK, PEER = "pysandbox run -- /bin/true", "python3 -c pass (yardstick)", "bwrap ... /bin/true"
SEED = 20
KEPT_BY = 2  # rounds after which the plan is kept
BARS = {YARDSTICK: 0.5, PEER: 1.0}


def subjects(command: str) -> dict[str, list[str]]:
    peer = shutil.which("bwrap")
    return {
        YARDSTICK: [sys.executable, "-c", "pass"],
        LAUNCHER: [command, "run", "--", "/bin/true"],
        **({PEER: [peer, *bwrap()[1:], "/bin/true"]} if peer else {}),
        "pysandbox run, nothing kept": [command, "run", "--max-pids", "100", "--", "/bin/true"],
        "pysandbox --version": [command, "--version"],
        "import pysandbox": [sys.executable, "-c", "import pysandbox"],
        "import pysandbox, first Cage().run()": [sys.executable, "-c", SESSION],
    }


def milliseconds(argv: list[str]) -> float:
    silence = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1)]
    began = time.perf_counter()
    pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=silence)
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit(f"{argv} ended with status {status:#x}")
    return (time.perf_counter() - began) * 1000


OPTIONS: dict[str, list[str]] = {
    "": [],
    "--env A=b": ["--env", "A=b"],
    "-r python": ["-r", "python"],
    "--timeout 60": ["--timeout", "60"],
    "--memory-mb 512": ["--memory-mb", "512"],
    "--allow-ip 203.0.113.7": ["--allow-ip", "203.0.113.7:443/tcp"],
    "--host example.org": ["--host", "example.org:443"],
}
IMPORTS = {
    YARDSTICK: "pass",
    "import asyncio": "import asyncio",
    "from pysandbox import Cage, Policy, run": "from pysandbox import Cage, Policy, run",
}


def cpu(argv: list[str], cache: str) -> float:
    """Milliseconds of user and system time, of the command and all that it waited for."""
    silence = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
    pid = os.posix_spawn(argv[0], argv, os.environ | {"XDG_CACHE_HOME": cache}, file_actions=silence)
    _, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"{argv} ended with status {status:#x}")
    return (used.ru_utime + used.ru_stime) * 1000


def measure_cpu(command: str, home: str, rounds: int) -> None:
    taken: dict[str, list[float]] = {}
    for number in range(rounds + KEPT_BY):
        for name, code in IMPORTS.items():
            taken.setdefault(name, []).append(cpu([sys.executable, "-c", code], home))
        for name, flags in OPTIONS.items():
            argv, fresh = [command, "run", *flags, "--", "/bin/true"], f"{home}/fresh-{number}{flags}"
            taken.setdefault(f"run {name}, first", []).append(cpu(argv, fresh))
            taken.setdefault(f"run {name}, again", []).append(cpu(argv, f"{home}/cache"))
    medians = {name: statistics.median(each[KEPT_BY:]) for name, each in taken.items()}
    for name, median in medians.items():
        print(f"{name:<42} {median:8.2f} ms CPU   {median / medians[YARDSTICK]:5.2f}")
    empty, loop, ours = (medians[name] for name in IMPORTS)
    print(f"the import over an empty interpreter, to import asyncio: {(ours - empty) / (loop - empty):.2f}; bar 0.6")


def uncompiled() -> list[str]:
    """Modules of ours that every run would compile anew."""
    root = Path(pysandbox.__file__).parent
    sources = [each for name in ("cli", "compile", "policy", "shapes") for each in (root / name).glob("*.py")]
    return [each.name for each in sources if not os.path.exists(importlib.util.cache_from_source(str(each)))]


def in_turns(wanted: dict[str, list[str]], rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each, in `rounds` rounds."""
    taken: dict[str, list[float]] = {name: [] for name in wanted}
    turns, chance = list(wanted.items()), random.Random(SEED)
    for number in range(rounds + KEPT_BY):
        for name, argv in turns:
            took = milliseconds(argv)
            if number >= KEPT_BY:
                taken[name].append(took)
        chance.shuffle(turns)
    return taken


def main(rounds: int, of_cpu: bool = False) -> None:
    command = shutil.which("pysandbox", path=os.path.dirname(sys.executable)) or shutil.which("pysandbox")
    if command is None:
        raise SystemExit("pysandbox is not installed beside this interpreter: pip install .")
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, XDG_CACHE_HOME=f"{home}/cache")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        compileall.compile_dir(os.path.dirname(pysandbox.__file__), quiet=2)
        os.mkdir(f"{home}/project")
        os.chdir(f"{home}/project")
        if of_cpu:
            measure_cpu(command, home, rounds)
            if missing := uncompiled():
                print(f"{len(missing)} modules have no byte code ({missing[0]}, ...): a first run compiles them")
            return
        every = subjects(command)
        compared = {name: argv for name, argv in every.items() if name in (YARDSTICK, LAUNCHER, PEER)}
        rest = {name: argv for name, argv in every.items() if name not in compared}
        taken = {**in_turns(compared, rounds), **in_turns(rest, rounds)}
    medians = {name: statistics.median(each) for name, each in taken.items()}
    for name, median in medians.items():
        print(f"{name:<40} {median:8.2f} ms   {median / medians[YARDSTICK]:5.2f}")
    for name, bar in BARS.items():
        if name in medians:
            print(f"{LAUNCHER}, to {name}: {medians[LAUNCHER] / medians[name]:.2f}; the bar is {bar}")


if __name__ == "__main__":
    given = [each for each in sys.argv[1:] if each != "--cpu"]
    main(int(given[0]) if given else 30, of_cpu="--cpu" in sys.argv)
