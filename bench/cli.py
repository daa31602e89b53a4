"""What the command costs as a whole process, beside an empty interpreter: python -m bench.cli [ROUNDS]

Interleaved, medians; read the ratios. The first run by each way is not counted: it writes what the warm one reads.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time

SESSION = "import pysandbox; pysandbox.Cage().run(['/bin/true'])"
BAR = 2.0


def subjects(command: str) -> dict[str, list[str]]:
    return {
        "python3 -c pass (yardstick)": [sys.executable, "-c", "pass"],
        "pysandbox run -- /bin/true": [command, "run", "--", "/bin/true"],
        "the same, nothing kept": [command, "run", "--max-pids", "100", "--", "/bin/true"],
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


def main(rounds: int) -> None:
    command = shutil.which("pysandbox", path=os.path.dirname(sys.executable)) or shutil.which("pysandbox")
    if command is None:
        raise SystemExit("pysandbox is not installed beside this interpreter: pip install .")
    with tempfile.TemporaryDirectory() as home:
        os.environ.update(HOME=home, XDG_CACHE_HOME=f"{home}/cache")
        os.chdir(home)
        taken: dict[str, list[float]] = {name: [] for name in subjects(command)}
        for number in range(rounds + 2):
            for name, argv in subjects(command).items():
                took = milliseconds(argv)
                if number >= 2:
                    taken[name].append(took)
    yardstick = statistics.median(next(iter(taken.values())))
    for name, each in taken.items():
        median = statistics.median(each)
        print(f"{name:<40} {median:8.2f} ms   {median / yardstick:5.2f}")
    print(f"the bar for the second line is {BAR}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 30)
