"""A kept plan with a limit of memory, addresses or hosts: the launcher starts it, and Python comes beside it only when
the command calls on what serves the cage. Whichever way it goes, it ends and is told as Python alone does it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from _support.kept_runs import BESIDE, COMMAND, LIMIT, Home, is_alive, story
from _support.outside import LISTED, OTHER, outside
from pysandbox.probe import cgroups

MEMORY = ["--memory-mb", "128"]
ADDRESS = ["--allow-ip", "203.0.113.7:443/tcp"]
HOST = ["--host", "allowed.test"]
held_by_a_watch = pytest.mark.skipif("memory" in cgroups.find_cgroup().controllers, reason="a controller holds memory")


def python(code: str) -> list[str]:
    return ["--", "/usr/bin/python3", "-c", code]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# ---- it does the same ----------------------------------------------------------------------------------------

RESOLVE = "import socket\ntry: socket.getaddrinfo('refused.test', 80)\nexcept OSError as e: print(e)"
DIAL = (
    "import socket\nfor to in (('198.51.100.7', 80), ('127.0.0.1', 9)):\n"
    "  try: socket.create_connection(to, timeout=9)\n  except OSError as e: print(to, e)"
)
OWN = (
    "import socket; s = socket.create_server(('127.0.0.1', 0)); "
    "c = socket.create_connection(s.getsockname()); c.sendall(b'own'); print(s.accept()[0].recv(9))"
)
SHARED = (  # four processes that share the same pages: their sum is beyond the limit, what they use is not
    "import os, time; kept = bytearray(48 << 20); r, w = os.pipe()\nfor _ in range(4):\n"
    "  if os.fork() == 0: time.sleep(1); os._exit(0)\n"
    "[os.wait() for _ in range(4)]; print('survived')"
)
# Those that call on nobody, and those that do.
QUIET: dict[str, list[str]] = {
    "memory": [*MEMORY, *python("a = bytearray(32 << 20); print(len(a))")],
    "address": [*ADDRESS, "--", "sh", "-c", "echo out; exit 3"],
    "host": [*HOST, "--", "sh", "-c", "echo out; exit 3"],
    "all": [*MEMORY, *ADDRESS, *HOST, "--", "/bin/true"],
    "strict": ["--strict", "--", "sh", "-c", "echo out; exit 3"],
    "wall time": [*HOST, "--walltime", "1", "--grace", "0", "--", "sleep", "1000"],
}
CALLING: dict[str, list[str]] = {
    "refused address": [*ADDRESS, *python(DIAL)],
    "own loopback": [*ADDRESS, *python(OWN)],
    "refused name": [*HOST, *python(RESOLVE)],
    "and a failure": [*HOST, *python(RESOLVE + "\nraise SystemExit(3)")],
    "and a signal": [*HOST, *python(RESOLVE + "\nimport os; os.kill(os.getpid(), 9)")],
    "and the wall time": [*HOST, "--walltime", "2", "--grace", "0", *python(RESOLVE + "\nimport time; time.sleep(99)")],
    "and a timeout": [*HOST, "--timeout", "2", *python(RESOLVE + "\nimport time; time.sleep(99)")],
    "all": [*MEMORY, *ADDRESS, *HOST, *python(RESOLVE + "\n" + DIAL)],
}
WATCHED: dict[str, list[str]] = {
    "a hog": [*MEMORY, *python("a = [bytearray(8 << 20) for _ in range(99)]")],
    "a hog at once": [*MEMORY, *python("import mmap; mmap.mmap(-1, 600 << 20, flags=0x8022); print('survived')")],
    "files": [*MEMORY, "--", "sh", "-c", "head -c 300M /dev/zero > /dev/shm/a; echo survived"],
    "shared": [*MEMORY, *python(SHARED)],
}


def assert_same(home: Home, arguments: list[str], *, served: bool) -> None:
    cold = home.run_by_python(*arguments)
    told = home.records()
    first, kept = home.run(*arguments), home.run(*arguments)
    every = home.records()
    assert (cold.warm, cold.served, first.warm, kept.warm, kept.served) == (False, False, False, not served, served)
    for ran in (first, kept):
        assert (ran.code, ran.stdout) == (cold.code, cold.stdout)
        assert list(map(of_no_process, ran.stderr.splitlines())) == list(map(of_no_process, cold.stderr.splitlines()))
    assert of_no_pid(story(every[len(told) :])) == of_no_pid(story(told)) * 2
    assert home.python("audit", "verify").returncode == 0


def of_no_process(line: bytes) -> bytes:
    """A line without the number of the run that it names."""
    return b" ".join(word for word in line.split() if not (word.isalnum() and word.isupper() and len(word) > 5))


def of_no_pid(told: Any) -> Any:
    """Without process ids: they differ between any two runs."""
    if isinstance(told, dict):
        return {name: of_no_pid(each) for name, each in told.items() if name not in ("pid", "time")}
    return [of_no_pid(each) for each in told] if isinstance(told, (list, tuple)) else told


@pytest.mark.parametrize("name", QUIET)
def test_a_command_that_calls_on_nobody_starts_no_python(home: Home, name: str) -> None:
    assert_same(home, QUIET[name], served=False)


@pytest.mark.parametrize("name", CALLING)
def test_a_command_that_calls_is_served_and_told_the_same(home: Home, name: str) -> None:
    assert_same(home, CALLING[name], served=True)


@held_by_a_watch
@pytest.mark.parametrize("name", WATCHED)
def test_memory_beyond_the_limit_by_the_first_count_is_looked_at_closer(home: Home, name: str) -> None:
    assert_same(home, WATCHED[name], served=True)


def dial_granted(root: str) -> list[Any]:
    home = Home(Path(root))
    with socket.create_server((LISTED, 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=answer, args=(server,), daemon=True).start()
        code = (
            f"import socket\nfor at in ('{LISTED}', '{OTHER}'):\n"
            f"  try: print(at, socket.create_connection((at, {port}), timeout=9).recv(9))\n"
            "  except OSError as e: print(at, e)"
        )
        arguments = ["--allow-ip", f"{LISTED}:{port}/tcp", *python(code)]
        return [[ran.code, ran.stdout.decode(), ran.served] for ran in (home.run(*arguments) for _ in range(2))]


def answer(server: socket.socket) -> None:
    while True:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"granted")


def test_a_granted_address_is_reached_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    cold, kept = outside(dial_granted, str(tmp_path / "there"))
    assert kept[:2] == cold[:2] == [0, f"{LISTED} b'granted'\n{OTHER} [Errno 111] Connection refused\n"]
    assert (cold[2], kept[2]) == (False, True)


# ---- what nobody serves does not go on -----------------------------------------------------------------------

# Kept by a first run that ends at once; the next ones wait for a line, and then call.
CALLS_LATER = (
    "import os, sys, time\nprint('ready', flush=True)\nif os.path.exists('stay'):\n  sys.stdin.readline()\n"
    "  import socket\n  try: socket.getaddrinfo('refused.test', 80)\n  except OSError as e: print(e, flush=True)\n"
    "  time.sleep(60)"
)


class Running:
    """A kept run whose command waits to be told to call."""

    def __init__(self, home: Home, *flags: str) -> None:
        home.keep(*flags, *python(CALLS_LATER))
        (home.project / "stay").touch()
        read, self._tell = os.pipe()
        self.process = subprocess.Popen(
            [COMMAND, "run", *flags, *python(CALLS_LATER)], cwd=home.project,
            env=home.env | {"PSB_TELL": str(self._tell)}, pass_fds=(self._tell,),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._told = open(read, "rb")  # noqa: SIM115 - until the end of the test
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def call(self, *, answered: bool = True) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        if answered:
            assert b"not known" in self.process.stdout.readline()

    def beside(self) -> int:
        """The pid of the Python beside the launcher, once there is one."""
        assert self._told.readline().decode() == f"{BESIDE}\n"
        (pid,) = [int(each) for each in children(self.process.pid) if b"beside" in command_line(int(each))]
        return pid

    def end(self) -> tuple[int, bytes]:
        try:
            _, stderr = self.process.communicate(timeout=LIMIT)
        finally:
            os.close(self._tell)
            self._told.close()
            self.process.kill()
        return self.process.returncode, stderr


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def command_line(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):  # it has ended since it was listed
        return []


def await_end_of(pids: list[int]) -> None:
    deadline = time.monotonic() + LIMIT
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, "something of it is left"
        time.sleep(0.01)


@pytest.fixture
def running(home: Home) -> Iterator[Running]:
    run = Running(home, *HOST)
    yield run
    run.process.kill()
    run.process.communicate()


def test_when_the_python_beside_is_killed_the_cage_ends_and_that_is_recorded(home: Home, running: Running) -> None:
    running.call()
    os.kill(running.beside(), signal.SIGKILL)
    code, stderr = running.end()
    assert code == 125
    assert b"what served the cage has ended, and the cage with it" in stderr
    assert [record["type"] for record in home.records()[-2:]] == ["subagent.killed", "subagent.exit"]
    assert home.python("audit", "verify").returncode == 0


def test_when_the_launcher_is_killed_nothing_is_left(running: Running) -> None:
    running.call()
    pids = [running.beside(), *map(int, children(running.process.pid))]
    running.process.kill()
    running.end()
    await_end_of(pids)


def test_a_policy_that_changed_before_the_first_call_ends_the_cage(home: Home) -> None:
    home.recipe(home.recipes, "before")
    running = Running(home, "-r", "word", *HOST)
    home.recipe(home.recipes, "after")
    running.call(answered=False)
    code, stderr = running.end()
    assert code == 125
    assert b"has changed since it began" in stderr


def test_what_the_command_made_before_it_calls_is_told_and_ends_nothing(home: Home) -> None:
    made = "import os\nif os.path.exists('stay'): [os.makedirs(name) for name in ('.vscode', 'sub/.git/hooks')]\n"
    arguments = [*HOST, *python(made + RESOLVE)]
    home.keep(*arguments)
    (home.project / "stay").touch()
    ran = home.run(*arguments)
    assert (ran.code, ran.stdout, ran.served) == (0, b"[Errno -2] Name or service not known\n", True)
    assert b".vscode" in ran.stderr
    assert any(".vscode" in str(record["data"]) for record in home.records() if record["type"] == "sandbox.planted")


def test_a_signal_reaches_the_command_and_not_the_python_beside(home: Home, running: Running) -> None:
    running.call()
    running.beside()
    os.kill(running.process.pid, signal.SIGTERM)
    code, stderr = running.end()
    assert (code, stderr) == (128 + signal.SIGTERM, b"")
    assert home.records()[-1]["data"]["reason"] in ("cancelled", "signaled")


def test_a_caller_who_waits_for_no_child_is_told_the_same(home: Home) -> None:
    arguments = CALLING["and a failure"]
    home.keep(*arguments)
    ignoring = 'trap \'\' CHLD; exec "$0" run "$@"'
    done = subprocess.run(
        ["bash", "-c", ignoring, COMMAND, *arguments],
        cwd=home.project,
        env=home.env,
        capture_output=True,
        timeout=LIMIT,
    )
    assert done.returncode == 3 and b"refused.test" in done.stderr, done


@held_by_a_watch
def test_what_goes_beyond_the_limit_stands_still_until_python_has_looked(home: Home) -> None:
    """A Python that is slow to come: meanwhile nothing in the cage runs, also when somebody says that it may."""
    code = f"import os, sys, time\nif not os.path.exists('stay'): sys.exit()\n{SHARED}"
    arguments = [*MEMORY, *python(code)]
    home.keep(*arguments)
    (home.project / "stay").touch()
    (home.project.parent / "tells" / "sitecustomize.py").write_text("import sys, time\ntime.sleep(2)\n")
    with subprocess.Popen([COMMAND, "run", *arguments], cwd=home.project, env=home.env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # fmt: skip
        while not (beside := [int(each) for each in children(process.pid) if b"beside" in command_line(int(each))]):
            assert process.poll() is None
        (init,) = {int(each) for each in children(process.pid)} - {*beside}
        process.send_signal(signal.SIGCONT)
        time.sleep(0.2)
        states = {Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()[0] for each in children(init)}
        stdout, stderr = process.communicate(timeout=LIMIT)
    assert states == {"T"}
    assert (process.returncode, stdout) == (0, b"survived\n"), stderr
