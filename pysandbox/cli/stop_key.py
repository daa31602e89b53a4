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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pysandbox.shapes import Any

LFLAG, SPECIAL = 3, 6  # of what tcgetattr(3) says in Python
TIOCGSID = 0x5429  # ioctl_tty(2): the session that has a terminal
PID = struct.Struct("i")


def stop_key(settings: list[Any]) -> bytes:
    """By what tcgetattr(3) says of a terminal; b"\\0": none."""
    key: bytes = settings[SPECIAL][termios.VSUSP]
    return key if settings[LFLAG] & termios.ISIG else b"\0"


def typed_to_stop(pty: int, keys: bytes, own: bytes) -> int:
    """For `keys`, typed and not written to the master `pty`: how many there are up to one that stops the command, and
    that the kernel will let come to nothing; 0: none.

    The cage chooses what its terminal takes for such a key. It is `own`, the user's, alone, or a cage would choose the
    letter of a text that is being pasted from which on the shell reads it.
    """
    if own == b"\0" or own not in keys:
        return 0
    try:
        if stop_key(termios.tcgetattr(pty)) != own:  # a master is asked for its slave's
            return 0
        leader, foreground = (_pid_of(pty, request) for request in (TIOCGSID, termios.TIOCGPGRP))
        stops = leader > 0 and leader == foreground and _stops_by_default(leader) and _can_be_continued()
    except (termios.error, OSError, LookupError):  # closed, no session's, or just ended
        return 0
    return keys.index(own) + 1 if stops else 0


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
    from pysandbox.live.processes import status_of

    status = status_of(pid)
    held = int(status[b"SigIgn"], 16) | int(status[b"SigCgt"], 16)
    return not held >> (signal.SIGTSTP - 1) & 1


def _can_be_continued() -> bool:
    """Who leads a session (the one process of a container) has nobody to do it, nor who was told to ignore stops."""
    ignored = (signal.getsignal(number) == signal.SIG_IGN for number in (signal.SIGTSTP, signal.SIGCONT))
    return os.getpgrp() != os.getsid(0) and not any(ignored)
