"""This machine's files as a guest sees them: one virtiofsd, in a mount namespace where every mount is read-only.

virtiofsd 7.2 has no read-only mode of its own, and root in the guest could remount; so the kernel of this machine says
no, whatever the guest does.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from tools.guests.kernels import MatrixError

PROGRAMS = (Path("/usr/lib/qemu/virtiofsd"), Path("/usr/libexec/virtiofsd"))
PATIENCE = 10.0  # seconds until it listens
DIE_WITH_ME = ("setpriv", "--pdeathsig", "KILL", "--")

READ_ONLY_VIEW = r"""
set -eu
view=$1 socket=$2 program=$3
mount --rbind / "$view"
awk -v view="$view" '$5 == view || index($5, view "/") == 1 { print $5 }' /proc/self/mountinfo |
    while read -r point; do mount -o remount,bind,ro "$(printf '%b' "$point")"; done
exec "$program" --socket-path="$socket" -o source="$view" -o cache=always -o sandbox=chroot --thread-pool-size=0
"""


class Share:
    """The server of one guest. Ends with the guest, and with `close` at the latest."""

    def __init__(self, work: Path) -> None:
        self.socket = work / "virtiofs.sock"
        view = work / "view"
        view.mkdir()
        self._log = work / "virtiofsd.log"
        with self._log.open("wb") as log:
            self._server = subprocess.Popen(
                [*DIE_WITH_ME, "unshare", "--mount", "--propagation", "private", "sh", "-c", READ_ONLY_VIEW, "sh",
                 str(view), str(self.socket), str(_program())],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        try:
            self._await()
        except BaseException:
            self.close()
            raise

    def _await(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.socket.exists():
            if self._server.poll() is not None or time.monotonic() > deadline:
                raise MatrixError(f"virtiofsd does not start: {self._log.read_text(errors='replace').strip()}")
            time.sleep(0.02)

    def close(self) -> None:
        self._server.kill()
        self._server.wait()


def _program() -> Path:
    if os.geteuid() != 0:
        raise MatrixError("sharing this machine's files needs root: run tools/matrix as root")
    for program in PROGRAMS:
        if program.exists():
            return program
    raise MatrixError("virtiofsd is missing: apt-get install qemu-system-common")
