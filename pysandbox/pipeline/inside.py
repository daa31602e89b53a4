"""What runs in a cage to answer one call: it waits, unpickles, calls, and tells what came of it.

The interpreter in the cage is given it (`booted`), with `calls` and `codec`: the standard library alone. A
worker of a template (`worker`) answers by it, too. What it needs is imported while it waits, not by the call.
"""

from __future__ import annotations

import _pickle as pickle  # `pickle`, `socket` and `traceback` bring a dozen modules, for nothing that is used here
import importlib
import marshal
import mmap
import os
import select
import struct
import sys
import types
from _socket import CMSG_SPACE, MSG_CMSG_CLOEXEC

from pysandbox.pipeline import calls, codec
from pysandbox.pipeline.calls import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Mapping
    from typing import Any

    Names = Mapping[str, Any]  # what a function sees beside what its own source defines

SOON = 50  # ms
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
        except OSError as error:  # its output is full
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
        return made(sock)
    except BaseException as error:
        _send(sock, calls.RAISED, 0, codec.encode(told(error)))
        return False


def made(sock: socket) -> bool:
    """Makes the next call and answers nothing; False where the host has gone. Raises whatever the function does."""
    record, fds = receive(sock)
    if record is not None:
        _called(_pieces(record, fds), {})
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
    for module, (source, code) in sources.items():  # first: the arguments may be of its module's classes
        _place(module, source, marshal.loads(code), around)
    function, arguments, named = pickle.loads(pieces[1], buffers=pieces[2:])
    if name is not None:
        function = _named(*name)
    return [function(*each) for each in arguments] if many else function(*arguments, **named)


def _named(module: str, name: str) -> Any:
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return getattr(found, "__wrapped__", found)


def _place(name: str, source: str, code: types.CodeType, around: Names) -> None:
    """The part of a module's source that is needed, as that module."""
    _place_packages(name)
    found = sys.modules[name] = types.ModuleType(name)
    found.__dict__["__loader__"] = _SourceOf(source)
    found.__dict__.update({each: around[each] for each in _mentioned(code) if each in around})
    exec(code, found.__dict__)


class _SourceOf:
    """Where a traceback finds the lines (linecache(3))."""

    def __init__(self, source: str) -> None:
        self._source = source

    def get_source(self, _: str) -> str:
        return self._source


def _mentioned(code: types.CodeType) -> set[str]:
    """Every name that it, and what is defined in it, looks up."""
    nested = (_mentioned(each) for each in code.co_consts if isinstance(each, types.CodeType))
    return set(code.co_names).union(*nested)


def _place_packages(name: str) -> None:
    """Those that the module is in, for whoever imports it by its name: the real ones, where the cage sees them."""
    for end in [at for at, letter in enumerate(name) if letter == "."]:
        try:
            importlib.import_module(name[:end])
        except ImportError:
            sys.modules[name[:end]] = types.ModuleType(name[:end])
            sys.modules[name[:end]].__path__ = []


def told(error: BaseException) -> tuple[str, str, str]:
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be told)"
    return name, message[:MOST_TEXT], _trace(error)[-MOST_TEXT:]


def _trace(error: BaseException) -> str:
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_globals is globals():  # those of this file say nothing
        frames = frames.tb_next
    try:
        import traceback

        return "".join(traceback.format_exception(type(error), error, frames))
    except Exception:  # it may have used up what an import needs
        return ""


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
