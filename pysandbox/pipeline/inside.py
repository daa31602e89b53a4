"""What runs in a cage to answer one call: it waits, unpickles, calls, and tells what came of it.

The interpreter in the cage is given it (`booted`), with `calls` and `codec`: the standard library alone. A
worker of a template (`worker`) answers by it, too. What it needs is imported while it waits, not by the call.
"""

from __future__ import annotations

import _pickle as pickle  # `pickle`, `socket` and `traceback` bring a dozen modules, for nothing that is used here
import importlib
import mmap
import os
import select
import struct
import sys
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC

from pysandbox.pipeline import calls, codec, placing
from pysandbox.pipeline.calls import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Mapping
    from typing import Any

    Names = Mapping[str, Any]  # what a function sees beside what its own source defines

SOON = 50  # ms
OURS = ("<pysandbox ", "<frozen ")  # files
MOST_TEXT = 16_000  # letters of a traceback that are told


def answer_call(sock: socket, around: Names) -> None:
    """Waits for one CALL and answers it. Returns when the host has gone, too."""
    record, fds = receive(sock)
    if record is None:
        return
    kind, answer = _outcome(record, fds, around)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            kind, answer = calls.RAISED, codec.encode(told(error))
        except (ValueError, AttributeError):  # the function has closed it, or put something else there
            pass
    _send(sock, kind, record.call, answer)


def receive(sock: socket) -> tuple[Record | None, list[int]]:
    data, ancillary, _, _ = sock.recvmsg(calls.LONGEST, CMSG_SPACE(4 * 4), MSG_CMSG_CLOEXEC)
    fds = [fd for _, _, sent in ancillary for fd in struct.unpack(f"{len(sent) // 4}i", sent)]
    return (calls.parse(data) if data else None), fds


def _outcome(record: Record, fds: list[int], around: Names) -> tuple[int, list[Any]]:
    try:
        pieces = _pieces(record, fds)
        for fd in fds:  # where its output goes
            os.dup2(fd, 1)
            os.dup2(fd, 2)
            os.close(fd)
        return calls.RETURNED, codec.encode(_called(pieces, around))
    except codec.CannotReturn as error:
        return calls.UNFIT, codec.encode(str(error))
    except BaseException as error:
        return calls.RAISED, codec.encode(told(error))


def prepared(sock: socket) -> bool:
    """Makes the call that comes first, whose answer nobody waits for; that it failed is told, and the end of all."""
    try:
        return made(sock, {})
    except BaseException as error:
        _send(sock, calls.RAISED, 0, codec.encode(told(error)))
        return False


def made(sock: socket, around: Names) -> bool:
    """Makes the next call and answers nothing; False where the host has gone. Raises whatever the function does."""
    record, fds = receive(sock)
    if record is not None:
        _called(_pieces(record, fds), around)
    return record is not None


def _pieces(record: Record, fds: list[int]) -> list[memoryview]:
    """Takes the descriptor that they are in from those that came along."""
    if record.inline or not sum(record.sizes):
        return calls.split(record.inline, record.sizes)
    offsets, size = calls.places(record.sizes)
    memory = fds.pop(0)
    whole = memoryview(mmap.mmap(memory, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE))
    os.close(memory)
    return [whole[begin : begin + each] for begin, each in zip(offsets, record.sizes, strict=True)]


def _called(pieces: list[memoryview], around: Names) -> Any:
    """As `packing` has it."""
    name, many, sources = pickle.loads(pieces[0])
    placing.place(sources, around)  # first: the arguments may be of its modules' classes
    function, arguments, named = pickle.loads(pieces[1], buffers=pieces[2:])
    if name is not None:
        function = _named(*name)
    return [function(*each) for each in arguments] if many else function(*arguments, **named)


def _named(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found.__wrapped__ if type(found).__name__ == "SandboxedFunction" else found


def told(error: BaseException) -> tuple[str, str, str]:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be told)"
    failed = getattr(error, placing.FAILED, "")
    message = f"{message[:MOST_TEXT]} ({failed})" if failed else message[:MOST_TEXT]
    return name, message, _trace(error)[-MOST_TEXT:]


def _trace(error: BaseException) -> str:
    frames = error.__traceback__
    while frames is not None and _says_nothing(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    try:
        import traceback

        return "".join(traceback.format_exception(type(error), error, frames))
    except Exception:  # it may have used up what an import needs
        return ""


def _says_nothing(file: str) -> bool:
    """Frames between us and what failed."""
    return file.startswith(OURS) or file == importlib.__file__


def _send(sock: socket, kind: int, call: int, pieces: list[Any]) -> None:
    sizes = tuple(len(each) for each in pieces)
    if sum(sizes) <= calls.INLINE and len(sizes) <= calls.MOST_PIECES:
        sock.sendall(calls.encode(Record(kind, call, sizes, b"".join(pieces))))
        return
    if len(sizes) > calls.MOST_PIECES:
        _send(sock, calls.UNFIT, call, codec.encode(f"cannot return {len(sizes)} large buffers"))
        return
    offsets, _ = calls.places(sizes)
    sock.sendall(calls.encode(Record(calls.ASK, call, sizes)))
    record, fds = receive(sock)
    if record is None or record.kind != calls.ROOM or not fds:
        return
    for begin, each in zip(offsets, pieces, strict=True):
        calls.write_at(fds[0], each, begin)
    os.close(fds[0])
    sock.sendall(calls.encode(Record(kind, call, sizes)))


def main() -> None:
    """argv: the socket's descriptor, and how many calls prepare it. What the function leaves running ends with the
    cage."""
    from _socket import socket

    sock = socket(fileno=int(sys.argv[1]))
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # it may end without a word
    if all(prepared(sock) for _ in range(int(sys.argv[2]))):
        sock.sendall(calls.encode(Record(calls.READY, 0)))
        warm_up(sock)
        answer_call(sock, {})
    os._exit(0)


def warm_up(sock: socket) -> None:
    """Where nobody is in a hurry, what many functions import anyway; one that is called at once is spared."""
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    if not poller.poll(SOON):
        for name in ("dataclasses", "enum", "re", "traceback"):
            importlib.import_module(name)
