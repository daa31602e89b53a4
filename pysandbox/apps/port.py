"""The second entrance: requests of a process, as bytes, to the one dispatch, and its replies as bytes.

One port is one app: who holds the descriptor is the app, and nothing in a request says otherwise. A request that is no
record, names no opcode, has other operands than the opcode, or a handle where none belongs ends the app: what speaks so
is not the client that it was given. Every request is a tick; what came in goes to the journal before it is looked at.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

from pysandbox.apps import wire
from pysandbox.apps.denials import LogFull
from pysandbox.apps.dispatch import OK, Dispatch, Gate
from pysandbox.apps.handles import Constant
from pysandbox.apps.journal import ASKED, FULL, AppJournal, JournalFull, Recorded, ReplayedCalls, differs
from pysandbox.apps.machine import STATUS, TICKS
from pysandbox.apps.opcodes import HANDLE, OPCODES
from pysandbox.shapes import Any

HANDLE_KINDS = frozenset(HANDLE.values())
SHORT, MOST_KNOWN = 256, 256  # bytes of a request that is kept, and how many are
REPLIES = {status: wire.record(number, ()) for status, number in STATUS.items()}  # without a value


class PortEnded(Exception):
    """The app is ended; says why."""


class RequestDispatch:
    """Answers the requests of one port, one after the other. What a short request says is kept for the next one that is
    the same: an app that reads a file, or waits for a message, asks so over and over."""

    def __init__(self, dispatch: Dispatch, ticks: int = TICKS, journal: AppJournal | None = None) -> None:
        self.tick = 0
        self._step, self._most = dispatch.step, ticks
        self._note = journal.note_request if journal is not None else None
        self._gates = {each.opcode.number: each for each in dispatch.gates.values()}
        self._known: dict[bytes, tuple[Gate | None, Sequence[Any]]] = {}

    def answer(self, request: bytes) -> bytes:
        """Raises PortEnded."""
        if self.tick >= self._most:
            raise PortEnded("ticks")
        try:
            if self._note is not None:
                self._note(request)
            self.tick += 1
            gate, args = self._known.get(request) or self._read(request)
            if gate is None:
                return REPLIES[OK]
            status, value = self._step(self.tick, gate, args)
        except wire.BadPortRecord as error:
            raise PortEnded(f"trap: {error}") from None
        except LogFull:
            raise PortEnded("log full") from None
        except JournalFull:
            raise PortEnded(FULL) from None
        if value is None:
            return REPLIES[status]
        made = wire.HandleNumber(value) if gate.opcode.makes and status == OK else value
        return wire.record(STATUS[status], (made,))

    def _read(self, request: bytes) -> tuple[Gate | None, Sequence[Any]]:
        """None for NOP. Raises PortEnded, BadPortRecord."""
        number, values, handle = wire.read(request)
        gate = self._gates.get(number)
        if gate is None and (number != OPCODES["NOP"].number or values):
            raise PortEnded("trap: no opcode of the port")
        if gate is not None:
            if len(values) != len(gate.opcode.args):
                raise PortEnded(f"trap: {gate.opcode.name} has {len(gate.opcode.args)} operands")
            if handle or gate.handles:
                values = with_handles(gate, values)
        if len(self._known) < MOST_KNOWN and len(request) <= SHORT:
            self._known[request] = gate, values
        return gate, values


def with_handles(gate: Gate, values: Sequence[Any]) -> list[Any]:
    """As dispatch wants them: a handle is a number, and a number that stands where a handle belongs is none."""
    args: list[Any] = []
    for kind, value in zip(gate.opcode.args, values, strict=True):
        if type(value) is wire.HandleNumber:
            if kind not in HANDLE_KINDS:
                raise PortEnded("trap: a handle is no value")
            args.append(int(value))
        else:
            args.append(Constant(value) if type(value) is int and kind in HANDLE_KINDS else value)
    return args


def serve(connection: socket.socket, requests: RequestDispatch) -> str:
    """Answers until the other end is gone, for whatever reason: ""; or why the app is ended. Descriptors that are sent
    along are closed by the kernel, since nothing here makes room for them."""
    receive, send, answer, most, at_once = (
        connection.recv, connection.send, requests.answer, wire.LARGEST + 1, int(socket.MSG_DONTWAIT)
    )  # fmt: skip
    try:
        while request := receive(most):
            send(answer(request), at_once)
    except PortEnded as ended:
        return str(ended)
    except BlockingIOError:
        return "trap: it does not read its replies"
    except (ConnectionError, TimeoutError):
        pass
    return ""


def replay_requests(requests: RequestDispatch, calls: ReplayedCalls, recorded: Recorded) -> str:
    """Answers what was asked once more; how it ended. Raises AppError where the journal has something else."""
    try:
        while calls.left:
            kind, request = calls.take()
            if kind != ASKED or not isinstance(request, bytes):
                raise differs()
            requests.answer(request)
    except PortEnded as ended:
        return str(ended)
    return recorded.ended  # by its process, of which nothing is repeated
