"""The host's end of a pty: send what a person would type, wait for what they would see."""

from __future__ import annotations

import os
import select
import time

CTRL_C, CTRL_D, CTRL_Z = "\x03", "\x04", "\x1a"


class Terminal:
    """`fd` is borrowed. `seen` is everything since the last `expect`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.seen = ""

    def send(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def hand_over(self, line: str, within: float = 20.0) -> None:
        """Types a line that starts a job or brings one forward; returns when the keys go to the job, not the shell.

        Until it executes its program a job is a copy of the shell, which does as the shell does with a key: Ctrl-Z is
        ignored there.
        """
        shell, deadline = os.tcgetpgrp(self.fd), time.monotonic() + within
        self.send(line)
        while (group := os.tcgetpgrp(self.fd)) == shell or _program(group) == _program(shell):
            assert time.monotonic() < deadline, f"{line!r} did not take the terminal; it shows:\n{self.seen}"
            time.sleep(0.01)

    def expect(self, text: str, within: float = 20.0) -> str:
        """Reads on until `text` has been seen; returns what came up to its end."""
        deadline = time.monotonic() + within
        while text not in self.seen:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"waited {within} s for {text!r}; the terminal shows:\n{self.seen}")
            try:
                more = os.read(self.fd, 4096)
            except OSError:  # EIO: nobody holds the other end any more
                more = b""
            if not more:
                raise AssertionError(f"the terminal closed before {text!r}; it shows:\n{self.seen}")
            self.seen += more.decode(errors="replace")
        end = self.seen.index(text) + len(text)
        before, self.seen = self.seen[:end], self.seen[end:]
        return before


def _program(pid: int) -> bytes:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""
