"""What no cage may reach: a file, two listeners and a process of this very user. And the script that tries.

The canary dies of what it notices: `harmed` names it. Before the run the script is let loose without a cage, and must
be noticed: a canary that sings for nobody guards nothing.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

BASH = "/bin/bash"
PATIENCE = 10.0
WAYS = ("file", "TCP", "abstract", "process")  # how `harmed` speaks of each
# Every way is tried, whatever became of the one before.
TRY = r"""
cat "$CANARY_FILE"
echo broken >>"$CANARY_FILE"
rm -f "$CANARY_FILE" || true
exec 3<>"/dev/tcp/127.0.0.1/$CANARY_PORT" && echo broken >&3
"$CANARY_PYTHON" -I -S -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect("\0" + sys.argv[1])' "$CANARY_NAME"
[ "$CANARY_KILL" = "" ] || kill -KILL "$CANARY_KILL"
exit 0
"""


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What an attacker is told."""

    file: str
    port: int
    name: str  # of the abstract socket
    pid: int

    def environment(self, *, own_pids: bool) -> dict[str, str]:
        """`own_pids`: where the attacker has process ids of its own, the canary's would name one of those."""
        return {
            "CANARY_FILE": self.file, "CANARY_PORT": str(self.port), "CANARY_NAME": self.name,
            "CANARY_KILL": "" if own_pids else str(self.pid), "CANARY_PYTHON": "/usr/bin/python3",
        }  # fmt: skip

    def text(self) -> str:
        return f"{self.file}:{self.port}:{self.name}:{self.pid}"

    @classmethod
    def of(cls, text: str) -> Whereabouts:
        file, port, name, pid = text.split(":")
        return cls(file, int(port), name, int(pid))


class Canary:
    """A context manager."""

    def __init__(self, directory: Path) -> None:
        self.secret = f"canary-{uuid.uuid4().hex}"
        self._file = directory / "secret"
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._unix = socket.socket(socket.AF_UNIX)
        self._name = f"psb-{uuid.uuid4().hex}"
        self._unix.bind(f"\0{self._name}")
        self._unix.listen()
        self._tcp.setblocking(False)
        self._unix.setblocking(False)
        self._file.write_text(self.secret)
        self._process, self._mourned = _started(), False

    def restore(self) -> None:
        """Makes its file whole. A process that was killed stays dead and uncollected: hosts know its number, which
        nobody else is to get while they may try to kill it."""
        self._file.write_text(self.secret)

    def renew(self) -> None:
        """All of it, while no host knows it."""
        self.restore()
        _end(self._process)
        self._process, self._mourned = _started(), False

    def whereabouts(self) -> Whereabouts:
        return Whereabouts(str(self._file), self._tcp.getsockname()[1], self._name, self._process.pid)

    def harmed(self) -> list[str]:
        """Everything that has happened to it since the last call."""
        found = []
        if self._content() != self.secret:
            found.append("its file was changed")
        found += [f"its {kind} socket was reached" for kind, each in (("TCP", self._tcp), ("abstract", self._unix))
                  if heard(each)]  # fmt: skip
        if not self._mourned and self._is_dead():
            self._mourned = True
            found.append("its process was killed")
        return found

    def _content(self) -> str:
        try:
            return self._file.read_text()
        except FileNotFoundError:
            return ""

    def _is_dead(self) -> bool:
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def betrayed_by(self, output: str) -> bool:
        return self.secret in output

    def __enter__(self) -> Canary:
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._process)
        self._tcp.close()
        self._unix.close()


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def heard(listener: socket.socket) -> bool:
    """Whether somebody has connected to a socket that does not block."""
    try:
        listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def uncaged(where: Whereabouts) -> str:
    """The control: what the script says without a cage."""
    environment: Mapping[str, str] = {**os.environ, **where.environment(own_pids=False)}
    done = subprocess.run(
        [BASH, "-c", TRY], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True, timeout=60,
    )  # fmt: skip
    return done.stdout


def unnoticed(canary: Canary) -> list[str]:
    """What it fails to notice when nothing stands in the way; afterwards it is as new."""
    said = uncaged(canary.whereabouts())
    noticed, deadline = " ".join(canary.harmed()), time.monotonic() + PATIENCE
    while "process" not in noticed and time.monotonic() < deadline:  # a signal takes its time
        noticed += " ".join(canary.harmed())
    missed = [way for way in WAYS if way not in noticed]
    canary.renew()
    return missed if canary.betrayed_by(said) else [*missed, "secret"]
