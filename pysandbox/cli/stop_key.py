"""Ctrl-Z for a command that no shell in the cage attends to.

The kernel drops a SIGTSTP from the keyboard for an orphaned process group, one that nobody of its session could
continue (setpgid(2), POSIX 3.265). The command leads the session of the cage's terminal, so its own group is one.
Who could continue it is the user's shell, which knows us: in the foreground and with the signal's default action,
the command is stopped by us, and we with it. A shell in the cage ignores the signal, and its jobs are no orphans.
"""

from __future__ import annotations

import _signal as signal
import fcntl
import os
import struct
import termios

LFLAG, SPECIAL = 3, 6  # of what tcgetattr(3) says in Python
TIOCGSID = 0x5429  # ioctl_tty(2): the session that has a terminal
PID = struct.Struct("i")


def is_stop_typed(pty: int, keys: bytes) -> bool:
    """Whether it is among `keys`, written to the master `pty`, and the kernel lets it come to nothing."""
    try:
        inside = termios.tcgetattr(pty)  # a master is asked for its slave's
        key = inside[SPECIAL][termios.VSUSP]
        if not inside[LFLAG] & termios.ISIG or key == b"\0" or key not in keys:
            return False
        leader, foreground = (_pid_of(pty, request) for request in (TIOCGSID, termios.TIOCGPGRP))
    except (termios.error, OSError):  # closed, or no session's
        return False
    return leader > 0 and leader == foreground and _stops_by_default(leader) and _can_be_continued()


def stop_our_group() -> None:
    """Stops our process group as the key would; returns when we go on.

    SIGSTOP, and raise(3): we have stopped when it returns, whatever threads there are.
    """
    before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    os.kill(0, signal.SIGTSTP)
    signal.raise_signal(signal.SIGSTOP)
    signal.signal(signal.SIGTSTP, before)


def _pid_of(pty: int, request: int) -> int:
    pid: int = PID.unpack(fcntl.ioctl(pty, request, bytes(PID.size)))[0]
    return pid


def _stops_by_default(pid: int) -> bool:
    """Bit N - 1 of either mask is signal N (proc_pid_status(5))."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        masks = [int(line.split()[1], 16) for line in file if line.startswith(("SigIgn:", "SigCgt:"))]
    return len(masks) == 2 and not (masks[0] | masks[1]) >> (signal.SIGTSTP - 1) & 1


def _can_be_continued() -> bool:
    """Who leads a session (the one process of a container) has nobody to do it, nor who was told to ignore stops."""
    return os.getpgrp() != os.getsid(0) and signal.getsignal(signal.SIGTSTP) != signal.SIG_IGN
