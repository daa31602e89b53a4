"""A terminal between a user and a cage: ours in raw mode, the cage's own pty behind it, bytes copied both ways.

The cage never holds the user's terminal, so nothing in it can push input into the shell that started us. Job control,
Ctrl-C and line editing are the business of the cage's pty, but for the Ctrl-Z that it drops (`stop_key.py`). Whatever
happens, the user's terminal is put back.
"""

from __future__ import annotations

import os
import select
import termios
import tty

from pysandbox.cli.stop_key import stop_key, stop_our_group, typed_to_stop
from pysandbox.exit_codes import BROKEN_PIPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pysandbox.cli.attend import Attendance
    from pysandbox.shapes import Any, Self

CHUNK = 65536
END_OF_INPUT = b"\x04"  # Ctrl-D: what a pty has for an end of file


class RawMode:
    """The terminal `fd` in raw mode while entered; nothing at all when it is not a terminal."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._saved: list[Any] | None = None

    def __enter__(self) -> Self:
        if os.isatty(self._fd):
            self._enter(termios.TCSAFLUSH)
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def leave(self, when: int = termios.TCSADRAIN) -> None:
        if self._saved is not None:
            termios.tcsetattr(self._fd, when, self._saved)
        self._saved = None

    @property
    def stop_key(self) -> bytes:
        """By the user's own settings."""
        return b"\0" if self._saved is None else stop_key(self._saved)

    def again(self) -> bool:
        """Raw once more, where it may be: in the background the terminal is another job's. Whether it is."""
        if self._saved is None and _is_in_front(self._fd):
            self._enter(termios.TCSADRAIN)  # what was typed meanwhile is the command's
        return self._saved is not None

    def _enter(self, when: int) -> None:
        self._saved = termios.tcgetattr(self._fd)
        tty.setraw(self._fd, when)


def _is_in_front(fd: int) -> bool:
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:  # ENOTTY: it is not the terminal of our session, which knows of no foreground there
        return os.isatty(fd)


def copy_size(screen: int, pty: int) -> None:
    if os.isatty(screen):
        termios.tcsetwinsize(pty, termios.tcgetwinsize(screen))


class TerminalRelay:
    """Copies keyboard to pty and pty to screen, and the size of the screen to the pty."""

    def __init__(self, attendance: Attendance, raw: RawMode, pty: int, *, keyboard: int = 0, screen: int = 1) -> None:
        self._attendance, self._raw = attendance, raw
        self._pty, self._keyboard, self._screen = pty, keyboard, screen
        self._typed = b""  # read, and not yet taken by the pty
        self._input_ended = False
        self._is_left = False  # the keyboard, for a stop of ours
        os.set_blocking(pty, False)  # a command that does not read must not stop us from showing what it writes
        attendance.resized = self._resize
        self._resize()
        self._listen()

    def drain(self) -> None:
        """Show what the command had written before it ended."""
        while self._show():
            pass

    def _resize(self) -> None:
        copy_size(self._screen, self._pty)

    def _stop(self) -> None:
        self._is_left = True
        self._raw.leave(termios.TCSAFLUSH)  # what was typed and not read yet is nobody's, the shell's least of all
        stop_our_group()
        self._attendance.awaited = self._comes_back  # the shell does not tell
        self._listen()

    def _comes_back(self) -> bool:
        """Who reads from the background is stopped: keys are asked for in front."""
        if self._raw.again():
            self._is_left = False
            self._listen()
        return not self._is_left

    def _listen(self) -> None:
        """Ask for keys only when the last ones are gone: what is typed ahead stays with the terminal."""
        wanted = select.POLLIN | (select.POLLOUT if self._typed else 0)
        self._attendance.watch(self._pty, wanted, self._on_pty)
        if self._typed or self._input_ended or self._is_left:
            self._attendance.forget(self._keyboard)
        else:
            self._attendance.watch(self._keyboard, select.POLLIN, self._on_key)

    def _on_key(self, events: int) -> None:
        try:
            keys = os.read(self._keyboard, CHUNK)
        except OSError:  # EIO: the terminal has hung up
            keys = b""
        self._input_ended = not keys
        self._typed = keys or END_OF_INPUT
        stop = typed_to_stop(self._pty, keys, self._raw.stop_key)
        stop = stop if stop and self._attendance.may_stop() else 0
        self._typed = self._typed[: stop or None]  # what was typed behind it is nobody's
        self._send()
        if stop:
            self._attendance.stop_by_key(self._stop)

    def _send(self) -> None:
        try:
            self._typed = self._typed[os.write(self._pty, self._typed) :]
        except BlockingIOError:
            pass
        except OSError:  # EIO: nobody has the other side open
            self._typed = b""
        self._listen()

    def _on_pty(self, events: int) -> None:
        if events & select.POLLOUT:
            self._send()
        if events & ~select.POLLOUT and not self._show():
            self._attendance.forget(self._pty)
            self._attendance.forget(self._keyboard)

    def _show(self) -> bool:
        """One piece from the pty to the screen; False when there is none or its other side is closed."""
        try:
            left = piece = os.read(self._pty, CHUNK)
        except OSError:
            return False
        try:
            while left:
                left = left[os.write(self._screen, left) :]
        except OSError:  # whoever watched has gone, as for any program that writes to a closed pipe
            self._attendance.stop(BROKEN_PIPE)
            return False
        return bool(piece)
