"""What an app in a cage has its effects through: the port, as Python sees it. Standard library alone.

    from pysandbox.apps.client import AppPort

    port = AppPort()
    with port.open("docs/today.txt", "w") as file:
        file.write("milk\\n")
    print(port.list("docs"))

A denial is PortDenied, a PermissionError with its `reason`; what failed is an OSError. There is one request at a time:
the threads of a process wait for each other, however many AppPorts they have, and no other process speaks on the same
descriptor, since nobody could tell whose a reply is.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading

from pysandbox.apps import wire

OPCODES = {
    "NOP": 0, "EMIT": 16, "CHAN_OPEN": 17, "CHAN_SEND": 18, "CHAN_RECV": 19, "WIN_CREATE": 20, "WIN_FOCUS": 21,
    "WIN_RAISE": 22, "WIN_SNAP": 23, "FS_LIST": 24, "FS_OPEN": 25, "FS_RENAME": 26, "FS_COPY": 27, "FS_MOVE": 28,
    "FS_DELETE": 29, "FS_RESTORE": 30, "FS_READ": 40, "FS_WRITE": 41, "FS_CLOSE": 42, "CHAN_CLOSE": 43,
    "WIN_CLOSE": 44,
}  # fmt: skip
STATUSES = ("ok", "denied_capability", "denied_scope", "denied_handle_owner", "invalid_handle_kind", "failed")
PIECE = 32 << 10  # bytes of one FS_READ or FS_WRITE


class PortDenied(PermissionError):
    """The app was not granted this; `reason` is one of the four."""

    def __init__(self, reason: str, opcode: str) -> None:
        super().__init__(errno.EACCES, f"{opcode}: {reason}")
        self.reason = reason


class _PortConnection:
    """The descriptor of the port, as one process speaks on it: a request, then its reply. Nobody closes it."""

    def __init__(self, number: int) -> None:
        self._number, self._pid, self._lock, self._lost = number, os.getpid(), threading.Lock(), False
        try:
            fcntl.lockf(number, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of this process: a forked one does not inherit it
        except BlockingIOError as error:
            raise OSError(error.errno, "another process of this app speaks on its port") from None

    @property
    def ours(self) -> bool:
        return self._pid == os.getpid()

    def exchange(self, request: bytes) -> bytes:
        """Raises OSError, EOFError."""
        if not self.ours:
            raise OSError(errno.EPERM, f"the port is that of process {self._pid}, which has opened it")
        with self._lock:
            if self._lost:
                raise OSError(errno.EPROTO, "an exception came while a reply was awaited: the next one may be that one")
            self._lost = True
            try:
                os.write(self._number, request)
            except OSError:
                self._lost = False  # nothing was asked
                raise
            reply = os.read(self._number, wire.LARGEST)
            self._lost = False
        if not reply:
            raise EOFError("the port is closed")
        return reply


_lines: dict[int, _PortConnection] = {}
_opening = threading.Lock()


def _line(number: int) -> _PortConnection:
    with _opening:
        line = _lines.get(number)
        if line is None or not line.ours:
            line = _lines[number] = _PortConnection(number)
        return line


class AppPort:
    """`fd` None: the descriptor that the host passed to this process, which stays open. Raises OSError where another
    process of the app has it already."""

    def __init__(self, fd: int | None = None) -> None:
        if fd is None and wire.VARIABLE not in os.environ:
            raise RuntimeError(f"{wire.VARIABLE} is not set: this is a program for `pysandbox app run`")
        self._line = _line(int(os.environ[wire.VARIABLE]) if fd is None else fd)

    def call(self, opcode: str, *operands: object) -> object:
        """One instruction. Raises PortDenied, OSError, EOFError when the host has ended the app."""
        if opcode not in OPCODES:
            raise ValueError(f"{opcode!r} is no opcode of the port")
        request = wire.record(OPCODES[opcode], operands)
        if len(request) > wire.LARGEST:
            raise OSError(errno.EMSGSIZE, f"{opcode}: the port carries {wire.LARGEST} bytes at a time")
        status, values = wire.parse(self._line.exchange(request))
        value = values[0] if values else None
        if status == 0:
            return value
        if STATUSES[status] != "failed":
            raise PortDenied(STATUSES[status], opcode)
        number = getattr(errno, str(value), errno.EIO)
        raise OSError(number, f"{opcode}: {os.strerror(number)}")

    # ---- files --------------------------------------------------------------------------------------------------

    def open(self, path: str, mode: str = "r") -> PortFile:
        """r, w, a or x; what is read is bytes."""
        return PortFile(self, self.call("FS_OPEN", path, mode))

    def list(self, path: str = ".") -> list[str]:
        """Names, directories with a slash."""
        text = str(self.call("FS_LIST", path))
        return text.split("\n") if text else []

    def read(self, path: str) -> bytes:
        with self.open(path) as file:
            return file.read()

    def write(self, path: str, data: str | bytes) -> None:
        """Replaces what was there."""
        with self.open(path, "w") as file:
            file.write(data)

    def rename(self, old: str, new: str) -> None:
        self.call("FS_RENAME", old, new)

    def copy(self, old: str, new: str) -> None:
        self.call("FS_COPY", old, new)

    def move(self, old: str, new: str) -> None:
        self.call("FS_MOVE", old, new)

    def delete(self, path: str) -> None:
        """Into the trash."""
        self.call("FS_DELETE", path)

    def restore(self, path: str, new: str | None = None) -> None:
        """What was deleted last as `path`, there again or as `new`."""
        self.call("FS_RESTORE", path, path if new is None else new)

    # ---- the others ---------------------------------------------------------------------------------------------

    def emit(self, domain: str, value: int | str | bytes) -> None:
        self.call("EMIT", domain, value)

    def channel(self, own: str, peer: str) -> PortChannel:
        return PortChannel(self, self.call("CHAN_OPEN", own, peer))

    def window(self, title: str) -> PortWindow:
        return PortWindow(self, self.call("WIN_CREATE", title))


class _Handle:
    CLOSE = ""

    def __init__(self, port: AppPort, handle: object) -> None:
        self._port, self._handle, self._closed = port, handle, False

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._port.call(self.CLOSE, self._handle)

    def __exit__(self, raised: object, *_: object) -> None:
        try:
            self.close()
        except OSError:
            if raised is None:  # else what came first is told
                raise


class PortFile(_Handle):
    CLOSE = "FS_CLOSE"

    def __enter__(self) -> PortFile:
        return self

    def read(self, count: int | None = None) -> bytes:
        """At most `count` bytes; None: all that is left."""
        if count is not None:
            return self._piece(count)
        pieces = []
        while piece := self._piece(PIECE):
            pieces.append(piece)
        return b"".join(pieces)

    def _piece(self, count: int) -> bytes:
        piece = self._port.call("FS_READ", self._handle, count)
        assert isinstance(piece, bytes)
        return piece

    def write(self, data: str | bytes) -> int:
        """All of it, in pieces."""
        whole = data.encode() if isinstance(data, str) else bytes(data)
        at = 0
        while at < len(whole):
            written = self._port.call("FS_WRITE", self._handle, whole[at : at + PIECE])
            assert isinstance(written, int)
            at += written
        return at


class PortChannel(_Handle):
    CLOSE = "CHAN_CLOSE"

    def __enter__(self) -> PortChannel:
        return self

    def send(self, value: int | str | bytes) -> None:
        """Raises BlockingIOError where the queue is full."""
        self._port.call("CHAN_SEND", self._handle, value)

    def recv(self) -> object:
        """Raises BlockingIOError where there is no message."""
        return self._port.call("CHAN_RECV", self._handle)


class PortWindow(_Handle):
    CLOSE = "WIN_CLOSE"

    def __enter__(self) -> PortWindow:
        return self

    def focus(self) -> None:
        self._port.call("WIN_FOCUS", self._handle)

    def raise_(self) -> None:
        self._port.call("WIN_RAISE", self._handle)

    def snap(self, side: str) -> None:
        """left, right, top, bottom, full or none."""
        self._port.call("WIN_SNAP", self._handle, side)
