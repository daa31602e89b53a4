"""The host that faults.c traces: opens one cage after another, each with one more call that fails, and judges them.

    faulted_host.py WALLS DIRECTORY SHAPE PART ERRNO[,ERRNO...] FIRST STRIDE

Says one JSON object a line for each thing that was wrong, and at last what was tried. Wrong is: a cage whose program
does not say of its walls what it says in a whole cage, an exception that is no error of a start, a hang, anything left.
"""

from __future__ import annotations

import collections
import ctypes
import errno
import gc
import glob
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from typing import Any

import pysandbox
from pysandbox import Policy, Runtime

MAGIC, ARM, COUNT, HIT = 0x50534246, 1, 2, 3
PARTS = ("host", "born", "init", "command", "watcher")
HANGS = 8  # seconds
libc = ctypes.CDLL(None, use_errno=True)
NAMESPACES = ("user", "pid", "mnt", "net", "ipc", "uts", "cgroup")


class Hung(Exception):
    pass


def ask(*arguments: int) -> int:
    return int(libc.prctl(MAGIC, *(ctypes.c_ulong(each) for each in arguments)))


def policies(directory: str, program: str) -> dict[str, dict[str, Any]]:
    files = {"allow": [program], "allow_write": [directory + "/inside"], "run_as": "self"}
    return {
        "full": files,
        "denies": {**files, "deny": [directory + "/inside/denied"], "tmp_mb": 8, "max_pids": 20},
        "landlock": {**files, "isolation": "landlock"},
        "ips": {**files, "allow_ips": ["192.0.2.1:9"]},
        "hosts": {**files, "hosts": ["example.com:443"]},
        "pty": files,
    }


class Trials:
    settles = 2.0  # seconds until what is being torn down is gone

    def __init__(self, walls: str, directory: str, shape: str) -> None:
        os.makedirs(directory + "/inside/denied", exist_ok=True)
        open(directory + "/outside", "w").close()
        own = [os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES]
        self.argv = [walls, directory + "/outside", directory + "/inside", *own]
        self.shape = shape
        self.policy = Policy(**policies(directory, walls)[shape])
        self.runtime = Runtime(warm=0)
        self.kinds: collections.Counter[str] = collections.Counter()

    def run(self) -> str:
        if self.shape == "pty":
            with pysandbox.Cage(self.policy, runtime=self.runtime) as cage:
                process = cage.spawn(self.argv, pty=True)
                said = b""
                while True:
                    try:
                        chunk = os.read(process.pty_fd, 65536)
                    except OSError as error:
                        if error.errno != errno.EIO:  # the end of a terminal (tty_ioctl(4)); all else is the fault
                            raise
                        break
                    if not chunk:
                        break
                    said += chunk
                process.wait()
                return said.decode()
        result = pysandbox.Cage(self.policy, runtime=self.runtime).run(self.argv, stdin=pysandbox.DEVNULL)
        if result.exit_code or result.stderr:
            raise OSError(errno.EPROTO, f"exit {result.exit_code} {result.reason}: {result.stderr}")
        return str(result.stdout)

    def left(self) -> list[str]:
        fds = []
        for name in os.listdir("/proc/self/fd"):
            try:
                fds.append(f"fd {name} " + os.readlink(f"/proc/self/fd/{name}"))
            except OSError:
                continue
        children = [
            f"child {pid}"
            for task in os.listdir("/proc/self/task")
            for pid in read(f"/proc/self/task/{task}/children").split()
        ]
        folders = {tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR", "/nowhere"), "/dev/shm"}
        paths = [path for folder in folders for path in glob.glob(folder + "/pysandbox-*")]
        # Nobody else could leave one in the host's namespace, where others come and go.
        mounts = [f"mounts {read('/proc/self/mountinfo').count(chr(10))}"] if os.geteuid() == 0 else []
        powers = [line for line in read("/proc/thread-self/status").splitlines() if line.startswith(("Cap", "SigBlk"))]
        return sorted(fds + children + paths + mounts + powers)

    def settled(self, before: list[str]) -> list[str]:
        deadline = time.monotonic() + self.settles
        while True:
            new = sorted((collections.Counter(self.left()) - collections.Counter(before)).elements())
            if not new or time.monotonic() > deadline:
                return new
            gc.collect()
            time.sleep(0.002)

    def trial(self, part: int, n: int, number: int, good: str) -> None:
        outcome, trace, fine, before = "", "", False, self.left()
        signal.setitimer(signal.ITIMER_REAL, HANGS)
        try:
            ask(ARM, part, n, number)
            try:
                said = self.run()
            finally:
                hit = ask(HIT)
                ask(COUNT, part)
            fine = said == good
            outcome = "same" if fine else "OTHER: " + difference(good, said)
        except Hung:
            outcome, trace = "HUNG", traceback.format_exc()
        except BaseException as error:
            step = f"{getattr(error, 'step', '')}"
            outcome, trace = f"{type(error).__name__} {step}: {error}", traceback.format_exc()
            fine = isinstance(error, (pysandbox.CageError, OSError, MemoryError))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        kind = outcome.split(":")[0]
        self.kinds[kind] += 1
        left = self.settled(before)
        told = {"part": PARTS[part], "n": n, "call": hit, "errno": errno.errorcode[number], "outcome": outcome}
        if left or not fine or (hit < 0 and outcome != "same"):
            print(json.dumps({**told, "left": left, "trace": trace}), flush=True)


def difference(good: str, said: str) -> str:
    one, other = collections.Counter(good.splitlines()), collections.Counter(said.splitlines())
    return f"-{list((one - other).elements())} +{list((other - one).elements())}"


def read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def hung(*_: object) -> None:
    raise Hung


def main() -> None:
    walls, directory, shape, part, numbers, first, stride = sys.argv[1:]
    signal.signal(signal.SIGALRM, hung)
    trials = Trials(walls, directory, shape)
    for _ in range(3):
        good = trials.run()
    index = PARTS.index(part)
    tried = 0
    for turn, name in enumerate(numbers.split(",")):  # each errno meets other calls
        ask(ARM, index, 0, 0)
        trials.run()
        calls = ask(COUNT, index)
        for n in range(1 + (int(first) + 5 * turn) % int(stride), calls + 1, int(stride)):
            trials.trial(index, n, getattr(errno, name), good)
            tried += 1
    other = Trials(walls, directory, "landlock" if shape != "landlock" else "full").run() != good
    print(json.dumps({"calls": calls, "tried": tried, "kinds": trials.kinds, "other": other}))


if __name__ == "__main__":
    main()
