"""Claim: while nobody is there yet who decides a kept run's calls, none of them is carried out; where nobody comes, or
who comes ends again, the run ends with it.

CONTROL   once Python is there, a listed address is reached, and no other
ATTACK    every way to an address, from many threads at once, while Python is late, ends at once, dies of a signal,
          stands still, or cannot be started for want of descriptors; and the launcher is stopped meanwhile
EVIDENCE  the servers at both addresses have heard nothing, the run ends with 125, and nothing of it is left
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from _support.kept_runs import COMMAND, Home, is_alive
from _support.outside import LISTED, OTHER, outside

LIMIT = 60  # seconds after which a test is stuck
HELD = 0.5  # seconds in which a call that nothing holds would long have arrived

# Each way once for both addresses; then the connections, from many threads at once.
CALLS = """
import os, socket, sys, threading, time
if not os.path.exists("stay"):
    sys.exit()
port = int(sys.argv[1])
def try_all(at):
    def new(kind): return socket.socket(socket.AF_INET, kind)
    for act in (lambda: new(socket.SOCK_STREAM).connect((at, port)),
                lambda: new(socket.SOCK_DGRAM).sendto(b"x", (at, port)),
                lambda: new(socket.SOCK_DGRAM).sendmsg([b"x"], [], 0, (at, port)),
                lambda: new(socket.SOCK_STREAM).sendto(b"x", socket.MSG_FASTOPEN, (at, port)),
                lambda: new(socket.SOCK_DGRAM).connect((at, port))):
        try:
            act()
            os.write(1, f"reached {at}\\n".encode())
        except OSError as error:
            os.write(1, f"{at} {error.errno}\\n".encode())
threads = [threading.Thread(target=try_all, args=(at,), daemon=True) for at in sys.argv[2:] * 16]
os.write(1, b"calls\\n")
[each.start() for each in threads]
[each.join() for each in threads]
"""
UNSERVED = {
    "ends": "raise SystemExit",
    "ends well": "os._exit(0)",
    "dies": "os.kill(os.getpid(), 9)",
    "fails later": "sys.argv[3:3] = ['--memory-mb', '77']; sys.orig_argv[:] = sys.argv",
}


class Ground:
    """Two addresses with a server of each kind, and a kept run that may connect to one of them."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.servers = [socket.create_server((LISTED, 0))]
        self.port = self.servers[0].getsockname()[1]
        self.servers.append(socket.create_server((OTHER, self.port)))
        for at in (LISTED, OTHER):
            heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            heard.bind((at, self.port))
            self.servers.append(heard)
        self.arguments = ["--allow-ip", f"{LISTED}:{self.port}", "--", "/usr/bin/python3", "-c", CALLS,
                          str(self.port), LISTED, OTHER]  # fmt: skip
        self.home.keep(*self.arguments)
        (self.home.project / "stay").touch()

    def heard(self) -> list[str]:
        ready = select.select(self.servers, [], [], 0)[0]
        return sorted({each.getsockname()[0] for each in ready})

    def python(self, code: str) -> None:
        """What the Python beside the launcher does first."""
        path = self.home.project.parent / "tells" / "sitecustomize.py"
        path.write_text(f"import os, sys, time\nif 'beside' in sys.orig_argv[2:4]:\n  {code}\n")

    def start(self, descriptors: int | None = None) -> subprocess.Popen[bytes]:
        def few() -> None:
            if descriptors is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        return subprocess.Popen(
            [COMMAND, "run", *self.arguments], cwd=self.home.project, env=self.home.env, preexec_fn=few,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


def calls(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"calls\n"


def of(process: int, seen: set[int] | None = None) -> set[int]:
    """A process and all below it."""
    seen = {process} if seen is None else seen | {process}
    for each in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        seen |= of(int(each), seen)
    return seen


def left(pids: set[int], within: float = LIMIT) -> list[int]:
    end = time.monotonic() + within
    while (alive := [pid for pid in pids if is_alive(pid)]) and time.monotonic() < end:
        time.sleep(0.01)
    return alive


def reach(root: str) -> list[Any]:
    ground = Ground(Path(root))
    process = ground.start()
    said, _ = process.communicate(timeout=LIMIT)
    return [process.returncode, b"reached " + LISTED.encode() in said, ground.heard()]


def test_the_control_reaches_what_is_listed(tmp_path: Path) -> None:
    assert outside(reach, str(tmp_path)) == [0, True, [LISTED]]


def call_unserved(root: str) -> dict[str, list[Any]]:
    ground, ended = Ground(Path(root)), {}
    for how, first in UNSERVED.items():
        ground.python(first)
        process = ground.start()
        said, _ = process.communicate(timeout=LIMIT)
        ended[how] = [process.returncode, b"reached" in said, ground.heard(), left({process.pid})]
    return ended


def test_where_nobody_comes_to_decide_nothing_is_reached(tmp_path: Path) -> None:
    assert outside(call_unserved, str(tmp_path)) == {how: [125, False, [], []] for how in UNSERVED}


STANDS_STILL = {  # and what the Python beside does meanwhile
    "python": "os.kill(os.getpid(), 19)",
    "launcher": "while not os.path.exists('late'): time.sleep(0.02)",
}


def call_while_anybody_stands_still(root: str) -> dict[str, list[Any]]:
    ground = Ground(Path(root))
    return {who: call_while_it_stands_still(ground, who) for who in STANDS_STILL}


def call_while_it_stands_still(ground: Ground, who: str) -> list[Any]:
    ground.python(STANDS_STILL[who])
    late = ground.home.project / "late"
    late.unlink(missing_ok=True)
    with ground.start() as process:
        calls(process)
        if who == "launcher":
            process.send_signal(signal.SIGSTOP)
        time.sleep(HELD)
        early, pids = ground.heard(), of(process.pid)
        beside = {pid for pid in pids if b"beside" in Path(f"/proc/{pid}/cmdline").read_bytes()}
        process.kill()
        process.wait()
        cage = left(pids - beside)
        late.touch()
        for pid in beside & {*left(beside, 0.2)}:
            os.kill(pid, signal.SIGCONT)  # whoever stopped it
        said = process.stdout.read() if process.stdout is not None else b""
    return [early, b"reached" in said, ground.heard(), cage, left(beside), len(pids) > 2]


def test_while_who_decides_stands_still_nothing_is_reached(tmp_path: Path) -> None:
    held: list[Any] = [[], False, [], [], [], True]
    assert outside(call_while_anybody_stands_still, str(tmp_path)) == dict.fromkeys(STANDS_STILL, held)


def call_without_descriptors(root: str) -> list[Any]:
    """However few the launcher may have: it serves, hands over to Python from the start, or ends the run."""
    ground, wrong = Ground(Path(root)), []
    for descriptors in (12, 16, 20, 24):
        said, _ = (process := ground.start(descriptors)).communicate(timeout=LIMIT)
        served = process.returncode == 0 and b"reached " + LISTED.encode() in said
        if not served and (process.returncode not in (125, 126) or b"reached" in said):
            wrong.append([descriptors, process.returncode, said.decode()])
    return [wrong, OTHER in ground.heard()]


def test_without_descriptors_nothing_is_reached_that_is_not_listed(tmp_path: Path) -> None:
    assert outside(call_without_descriptors, str(tmp_path)) == [[], False]
