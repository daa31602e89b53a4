"""The launcher alone: what it hands over to Python it hands over whole, and what it cannot verify it never starts."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

INSTALLED = shutil.which("pysandbox", path=str(Path(sys.executable).parent)) or "pysandbox"
LIMIT = 60  # seconds after which a test is stuck
HANDED_OVER = 99  # the exit code of the Python command, where a file says so
PLACES = 250  # of a kept plan, each spoilt once
CROWD = 100

# The Python command of a launcher that lies elsewhere.
PYTHON_COMMAND = """#!/bin/sh
[ -e {folder}/quick ] && exit {code}
exec {python} -c 'import sys
sys.argv[0], sys.path[0] = "{folder}/pysandbox-python", "{folder}"
from pysandbox.cli.main import script
script()' "$@"
"""
SHOWS = """#!{python} -S
import json, os, signal, sys
names = sorted(os.listdir("/proc/self/fd"), key=int)
held = [int(each) for each in names if os.path.exists(f"/proc/self/fd/{{each}}")]
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print(json.dumps([sys.argv[1:], sorted(os.environ.items()), held, status["SigIgn"], status["SigBlk"]]), file=sys.stderr)
"""


class Place:
    """A launcher with a Python command of its own, a home and a project."""

    def __init__(self, root: Path) -> None:
        self.folder, self.project, self.home = root / "bin", root / "project", root / "home"
        for each in (self.folder, self.project, self.home):
            each.mkdir()
        self.command = str(self.folder / "pysandbox")
        shutil.copy2(INSTALLED, self.command)
        self.python(PYTHON_COMMAND.format(folder=self.folder, code=HANDED_OVER, python=sys.executable))
        self.env = os.environ | {"HOME": str(self.home)}
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "PYSANDBOX_AUDIT"):
            self.env.pop(name, None)

    def python(self, text: str) -> None:
        (self.folder / "pysandbox-python").write_text(text)
        (self.folder / "pysandbox-python").chmod(0o755)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        command = [self.command, "run", *arguments]
        return subprocess.run(
            command, cwd=self.project, env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT
        )

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([self.command, "run", *arguments], cwd=self.project, env=self.env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)  # fmt: skip

    def keep(self, *arguments: str) -> Path:
        """Runs it until it is kept; from then on a run that is handed over is told by its exit code. The entry."""
        for _ in range(10):
            self.run(*arguments)
            (self.folder / "quick").touch()
            if self.run(*arguments).returncode != HANDED_OVER:
                (entry,) = (self.home / ".cache" / "pysandbox").iterdir()
                return entry
            (self.folder / "quick").unlink()
        raise AssertionError(f"never kept: {arguments}")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    time.sleep(0.06)  # what was written a moment ago is not kept
    return Place(tmp_path)


# ---- what it does not believe --------------------------------------------------------------------------------

COMMAND = ["--", "sh", "-c", "exit 7"]


def spoilt(content: bytes) -> Iterator[bytes]:
    """One bit of each of some hundred bytes, all of the header's among them; and shorter and longer ones."""
    for at in (*range(0, 64, 4), *range(64, len(content), max(1, len(content) // PLACES))):
        changed = bytearray(content)
        changed[at] ^= 1 << at % 8
        yield bytes(changed)
    for size in (0, 1, 31, 32, 33, 335, 336, len(content) // 2, len(content) - 1):
        yield content[:size]
    yield content + b"\0"
    yield bytes(len(content))


def test_a_plan_of_which_any_bit_is_another_is_not_carried_out(place: Place) -> None:
    entry = place.keep(*COMMAND)
    content = entry.read_bytes()
    for each in spoilt(content):
        entry.write_bytes(each)
        assert place.run(*COMMAND).returncode == HANDED_OVER
    entry.write_bytes(content)
    assert place.run(*COMMAND).returncode == 7  # the control: it is the bytes


def test_a_plan_is_of_one_command_line_in_one_place(place: Place) -> None:
    entry = place.keep(*COMMAND)
    content = entry.read_bytes()
    (place.folder / "quick").unlink()
    place.run("--", "true")
    (other,) = set(entry.parent.iterdir()) - {entry}
    (place.folder / "quick").touch()
    assert place.run("--", "true").returncode == 0  # the control
    other.write_bytes(content)  # signed, and of another command line
    assert place.run("--", "true").returncode == HANDED_OVER
    (place.project / "below").mkdir()
    place.project = place.project / "below"
    assert place.run(*COMMAND).returncode == HANDED_OVER


def test_a_plan_of_another_user_is_not_believed(place: Place) -> None:
    entry = place.keep(*COMMAND)
    for mode in (0o644, 0o620, 0o602):
        entry.chmod(mode)
        assert place.run(*COMMAND).returncode == HANDED_OVER
    entry.chmod(0o600)
    assert place.run(*COMMAND).returncode == 7
    copy = entry.with_name("copy")
    shutil.copy2(entry, copy)
    entry.unlink()
    entry.symlink_to(copy)
    assert place.run(*COMMAND).returncode == HANDED_OVER


@pytest.mark.parametrize("what", ["launcher", "python", "cwd"])
def test_what_is_replaced_between_two_runs_is_noticed(place: Place, what: str) -> None:
    place.keep(*COMMAND)
    if what == "launcher":
        shutil.copy2(INSTALLED, place.folder / "fresh")
        os.replace(place.folder / "fresh", place.command)
    elif what == "python":
        os.utime(place.folder / "pysandbox-python")
    else:
        place.project.rename(place.project.with_name("old"))
        place.project.mkdir()
    assert place.run(*COMMAND).returncode == HANDED_OVER


# ---- what it hands over --------------------------------------------------------------------------------------


def shown(place: Place, script: str, *arguments: str) -> list[object]:
    """What the Python command finds, started by way of a shell's script; `$0` is the launcher."""
    place.python(SHOWS.format(python=sys.executable))
    done = subprocess.run(["sh", "-c", script, place.command, *arguments], cwd=place.project, env=place.env,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)  # fmt: skip
    answer: list[object] = json.loads(done.stderr)
    return answer


@pytest.mark.parametrize(
    "redirection", ["", "0<&-", "1>&-", "0<&- 1>&-", "7</etc/passwd", "9>/dev/null 200</dev/zero"], ids=str
)
@pytest.mark.parametrize(
    "command", [["run", "--", "true"], ["run", "--detach", "--", "true"], ["ps"], []], ids=" ".join
)
def test_what_was_inherited_reaches_python(place: Place, redirection: str, command: list[str]) -> None:
    straight = f'trap "" HUP PIPE; exec "$0-python" "$@" {redirection}'
    assert shown(place, straight, *command) == shown(place, f'trap "" HUP PIPE; exec "$0" "$@" {redirection}', *command)


def test_a_plan_that_fails_late_hands_over_all_the_same(place: Place) -> None:
    """The cage was opened by then, and signals were ours."""
    (place.project / "interpreter").symlink_to("/bin/sh")
    (place.project / "program").write_text(f"#!{place.project}/interpreter\nexit 7\n")
    (place.project / "program").chmod(0o755)
    place.keep("--", "./program")
    (place.project / "interpreter").unlink()
    assert place.run("--", "./program").returncode == HANDED_OVER
    trail = place.home / ".local" / "state" / "pysandbox" / "audit" / "events.jsonl"
    assert json.loads(trail.read_text().splitlines()[-1])["type"] == "cage.start_failed"


def test_a_link_to_the_command_is_the_command(place: Place, tmp_path: Path) -> None:
    place.keep(*COMMAND)
    (tmp_path / "elsewhere").symlink_to(place.command)
    place.command = str(tmp_path / "elsewhere")
    assert place.run(*COMMAND).returncode == 7


def test_without_the_python_command_it_says_what_to_do(place: Place) -> None:
    (place.folder / "pysandbox-python").unlink()
    done = place.run("--json", *COMMAND)
    assert done.returncode == 125
    assert b"install pysandbox again" in done.stderr


# ---- what becomes of a run -----------------------------------------------------------------------------------

WAITS = ["--", "sh", "-c", "echo $$ ready; [ -e stay ] || exit 0; exec sleep 1000"]


@contextlib.contextmanager
def waiting(place: Place) -> Iterator[subprocess.Popen[bytes]]:
    place.keep(*WAITS)
    (place.project / "stay").touch()
    with place.start(*WAITS) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(b"ready\n")
        try:
            yield process
        finally:
            process.kill()


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def runs(pid: str) -> bool:
    """Whether there is such a process, and it does not only wait to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_nothing_is_left_of_a_launcher_that_is_killed(place: Place) -> None:
    with waiting(place) as process:
        (init,) = children(process.pid)
        process.kill()
        assert process.stdout is not None
        assert process.stdout.read() == b""  # the command held the other end
        deadline = time.monotonic() + LIMIT
        while runs(init) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not runs(init)


def test_a_launcher_that_was_stopped_goes_on(place: Place) -> None:
    with waiting(place) as process:
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        process.send_signal(signal.SIGTERM)  # waits until it goes on
        process.send_signal(signal.SIGCONT)
        assert process.wait(LIMIT) == 128 + signal.SIGTERM


def test_an_impatient_user_is_heard(place: Place) -> None:
    command = ["--", "sh", "-c", "trap '' INT; echo ready; [ -e stay ] || exit 0; while :; do sleep 0.05; done"]
    place.keep(*command)
    (place.project / "stay").touch()
    with place.start(*command) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for _ in range(3):
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        assert process.wait(LIMIT) == 128 + signal.SIGINT


def test_a_hundred_at_once(place: Place) -> None:
    command = ["--", "sh", "-c", "echo out; exit 7"]
    place.keep(*command)
    running = [place.start(*command) for _ in range(CROWD)]
    ends = [(process.communicate(timeout=LIMIT)[0], process.returncode) for process in running]
    assert ends == [(b"out\n", 7)] * CROWD
    verified = subprocess.run([INSTALLED, "audit", "verify"], cwd=place.project, env=place.env, capture_output=True)
    assert verified.returncode == 0, verified.stderr


def test_standard_descriptors_of_every_kind(place: Place, tmp_path: Path) -> None:
    """Files are read from and written at their place, pipes carry all, and what is closed is the null device."""
    command = ["--", "sh", "-c", "cat; echo err >&2"]
    entry = place.keep(*command)
    (tmp_path / "in").write_bytes(b"skipped" + b"x" * 200_000)
    (tmp_path / "out").write_bytes(b"before")
    script = 'exec 0<"$1" 1>>"$2" 2>&1; head -c 7 >/dev/null; "$0" run -- sh -c "cat; echo err >&2"; echo $?'
    done = subprocess.run(["sh", "-c", script, place.command, str(tmp_path / "in"), str(tmp_path / "out")],
                          cwd=place.project, env=place.env, timeout=LIMIT)  # fmt: skip
    assert done.returncode == 0 and entry.exists()
    assert (tmp_path / "out").read_bytes().endswith(b"x" * 1000 + b"err\n0\n")
    assert (tmp_path / "out").read_bytes().startswith(b"beforexxx")


def test_a_trail_that_may_not_grow_is_an_error_and_not_a_signal(place: Place) -> None:
    """RLIMIT_FSIZE of the caller: Python ignores SIGXFSZ, and so do we."""
    place.keep("--", "true")
    (place.folder / "quick").unlink()
    limited = ["sh", "-c", 'ulimit -f 1; exec "$0" run -- true', place.command]
    big = place.home / ".local" / "state" / "pysandbox" / "audit" / "events.jsonl"
    assert big.stat().st_size > 512
    done = subprocess.run(limited, cwd=place.project, env=place.env, stdin=subprocess.DEVNULL, capture_output=True,
                          timeout=LIMIT)  # fmt: skip
    assert done.returncode == 125
    assert b"cannot be written (File too large)" in done.stderr
