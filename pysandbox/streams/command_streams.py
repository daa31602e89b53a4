"""The host's ends of a command's descriptors: its output read up to a cap, its input written, without ever blocking.

The command may close its ends, stall, flood, or leave background processes that hold them open. Output beyond the cap
is read and dropped, so a flood neither blocks the command nor fills the host's memory. Who waits for what is ready is
`exchange`, with poll(2), or `aio`, with its event loop.
"""

from __future__ import annotations

import errno
import io
import os
from contextlib import suppress

from pysandbox.command import input_bytes
from pysandbox.shapes import IO, TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pysandbox.command import TextCoding
    from pysandbox.launch.stdio import Stdio
    from pysandbox.streams.line_listener import LineFunction, LineListener
    from pysandbox.streams.text_streams import Unread

READ_SIZE = 65536
MOST_LEFT = 64  # reads of what is left in a pipe at the end: more is being written by what still runs


class OutputReader:
    """One output pipe being read up to a cap."""

    def __init__(self, fd: int, cap: int) -> None:
        self.fd = fd
        self.cap = cap
        self.data = bytearray()
        self.truncated = False
        self.open = True
        self.listener: LineListener | None = None
        self.failure: OSError | None = None  # it could not be read: what was would pass for all of it

    def read(self) -> bool:
        """Takes what one read gives; False when nothing is there now, or ever again. See `failure`."""
        try:
            chunk = os.read(self.fd, READ_SIZE)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # EIO: the other end of a terminal is gone
                self.failure = error
            chunk = b""
        if self.listener is not None:
            self.listener.add(chunk)
        if not chunk:
            self.open = False
            return False
        room = self.cap - len(self.data)
        self.data += chunk[:room] if room < len(chunk) else chunk
        self.truncated = self.truncated or room < len(chunk)
        return True

    def read_available(self) -> None:
        """Takes what is still in the pipe, without waiting for writers that may never close it, or never pause."""
        for _ in range(MOST_LEFT):
            if not self.open or not self.read():
                return


class InputWriter:
    """The command's stdin being written."""

    def __init__(self, fd: int, data: bytes | None) -> None:
        self.fd = fd
        self.rest = memoryview(data or b"")

    def write(self) -> bool:
        """Writes what fits; False when all is written or nobody reads."""
        try:
            self.rest = self.rest[os.write(self.fd, self.rest[:READ_SIZE]) :]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return bool(self.rest)


class PipeFile(io.FileIO):
    """One that its Process owns. Where both are forgotten in a circle, a collection may meet the file first, and warn
    of what the Process is about to close."""

    def __del__(self) -> None:
        with suppress(Exception):
            self.close()


class CommandStreams:
    """The host's ends of a command's descriptors, and what was captured from them so far, up to `cap` bytes each."""

    def __init__(self, stdio: Stdio, cap: int, coding: TextCoding | None = None) -> None:
        self.stdio = stdio
        self.cap = cap
        self.coding = coding  # of text; None is bytes
        self.captured: dict[str, bytes] = {}
        self.unread: dict[str, Unread] = {}  # what whoever reads them has read ahead, before `captured`
        self.listeners: dict[str, LineListener] = {}
        self.truncated = False
        self._files: dict[str, IO[Any]] = {}

    def file(self, name: str, mode: Literal["rb", "wb"]) -> IO[Any] | None:
        """A file for the caller, which then owns the descriptor."""
        fd = getattr(self.stdio, name)
        if fd < 0:
            return None
        if name not in self._files:
            file: IO[Any] = PipeFile(fd, mode)
            self._files[name] = file if self.coding is None else self._as_text(name, file, self.coding)
        return self._files[name]

    def _as_text(self, name: str, file: IO[bytes], coding: TextCoding) -> Any:
        from pysandbox.streams.text_streams import TextReader, TextWriter

        if name == "stdin":
            return TextWriter(file, coding)
        reader = TextReader(file, coding)
        self.unread[name] = reader.unread
        return reader

    def output(self, name: str) -> Any:
        """What was captured, as the caller wants it; None where nothing was to be."""
        data = self.captured.get(name)
        if data is None:
            return None
        if name in self.unread:
            return self.unread[name].followed_by(data)
        return data if self.coding is None else self.coding.decode(data)

    def outputs(self) -> tuple[Any, Any]:
        """Both, empty where nothing was captured."""
        nothing: Any = b"" if self.coding is None else ""
        stdout, stderr = self.output("stdout"), self.output("stderr")
        return (nothing if stdout is None else stdout), (nothing if stderr is None else stderr)

    def input(self, given: object) -> bytes | None:
        """What stdin is fed. Raises TypeError."""
        return input_bytes(given, self.coding)

    def readers(self) -> dict[str, OutputReader]:
        """A reader for each output pipe, with as much room as earlier ones have left."""
        ends = {"stdout": self.stdio.stdout, "stderr": self.stdio.stderr}
        readers = {}
        for name, fd in ends.items():
            if fd >= 0:
                os.set_blocking(fd, False)
                readers[name] = OutputReader(fd, self.cap - len(self.captured.get(name, b"")))
                readers[name].listener = self.listeners.get(name)
        return readers

    def writer(self, data: bytes | None) -> InputWriter | None:
        """What writes `data` to stdin; without any it is closed at once."""
        fd = self.stdio.stdin
        if fd < 0:
            return None
        if data:
            os.set_blocking(fd, False)
            return InputWriter(fd, data)
        self.close_stdin()
        return None

    def store(self, readers: dict[str, OutputReader]) -> None:
        """Keeps what was read, and what is still in the pipes. Raises OSError when one was not readable."""
        for name, reader in readers.items():
            reader.read_available()
            self.captured[name] = self.captured.get(name, b"") + bytes(reader.data)
            self.truncated = self.truncated or reader.truncated or reader.failure is not None
        for reader in readers.values():
            if reader.failure is not None:
                raise reader.failure

    def listen(self, name: str, function: LineFunction | None) -> None:
        """Has it called with each line of an output."""
        if function is not None:
            from pysandbox.streams.line_listener import LineListener

            self.listeners[name] = LineListener(function, self.coding)

    def silence(self, readers: dict[str, OutputReader]) -> None:
        """Nobody is called any more."""
        self.listeners.clear()
        for reader in readers.values():
            reader.listener = None

    def take(self, name: Literal["stdin", "stdout"]) -> int:
        """The host's end of a pipe that nobody has opened as a file; it is the caller's from now on."""
        fd = int(getattr(self.stdio, name))
        setattr(self.stdio, name, -1)
        return fd

    def close_stdin(self) -> None:
        file = self._files.pop("stdin", None)
        fd, self.stdio.stdin = self.stdio.stdin, -1
        with suppress(OSError):
            if file is not None:
                file.close()
            elif fd >= 0:
                os.close(fd)

    def close(self) -> None:
        for name, file in self._files.items():
            setattr(self.stdio, name, -1)  # the file owns the descriptor
            with suppress(OSError):  # a pipe that nobody reads any more
                file.close()
        self.stdio.close()
