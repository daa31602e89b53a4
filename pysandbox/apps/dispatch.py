"""The one way from an instruction to an effect: capability, scope, owner, kind, and then, and only then, the kernel.

`gates` turns a grant and the rows of `opcodes.py` into a Gate for each opcode, once; `decide` is pure; `Dispatch.step`
is the only caller of a wrapper. Whoever speaks for an app, the machine or a port, comes here with operands that it does
not interpret.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence

from pysandbox.apps.denials import CAPABILITY, KIND, OWNER, SCOPE, DenialLog, DeniedInstruction, summary
from pysandbox.apps.handles import SideTable
from pysandbox.apps.kernel.owned import WrapperDenied
from pysandbox.apps.opcodes import EFFECTS, HANDLE, PEER, SCOPED, Opcode
from pysandbox.apps.scope import Check, Scopes, checks_of, pair_allowed
from pysandbox.errors import AppError
from pysandbox.shapes import Any, NamedTuple, Protocol

OK, FAILED = "ok", "failed"
MOST_HANDLES = 64
_KINDS = {text: kind for kind, text in HANDLE.items()}


class Rights(Protocol):
    """What dispatch has to know of a grant."""

    @property
    def app_id(self) -> str: ...
    @property
    def capabilities(self) -> tuple[str, ...]: ...
    @property
    def scopes(self) -> Scopes: ...


class Calls(Protocol):
    """What dispatch calls: a Kernel, or a journal that is replayed."""

    @property
    def table(self) -> SideTable: ...
    def call(self, name: str, owner: str, args: Sequence[Any]) -> Any: ...


class Gate(NamedTuple):
    """What is asked of one opcode under one grant. `scoped` and `handles` begin with the place of the operand."""

    opcode: Opcode
    allowed: bool
    scoped: tuple[tuple[int, Check], ...]
    pair: Callable[[Sequence[Any]], bool] | None
    handles: tuple[tuple[int, str], ...]


class EffectReply(NamedTuple):
    """`status`: ok, failed, or one of the four reasons. `value` of what failed is the name of an error (errno(3))."""

    status: str
    value: Any = None


DONE = EffectReply(OK)


def gates(rights: Rights) -> dict[str, Gate]:
    checks = checks_of(rights.scopes)
    return {name: _gate(row, rights, checks) for name, row in EFFECTS.items()}


def _gate(row: Opcode, rights: Rights, checks: Mapping[str, Check]) -> Gate:
    scoped = tuple((place, checks[kind]) for place, kind in enumerate(row.args) if kind in SCOPED)
    handles = tuple((place, _KINDS[kind]) for place, kind in enumerate(row.args) if kind in _KINDS)
    peers = [place for place, kind in enumerate(row.args) if kind == PEER]
    pair = None
    if peers:
        first, second = peers
        pair = lambda args: pair_allowed(rights.scopes, args[first], args[second])  # noqa: E731
    return Gate(row, any(each in rights.capabilities for each in row.capabilities), scoped, pair, handles)


def decide(gate: Gate, table: SideTable, owner: str, args: Sequence[Any]) -> str | None:
    """The reason for which an instruction is denied, None for none."""
    _, allowed, scoped, pair, handles = gate
    if not allowed:
        return CAPABILITY
    for place, check in scoped:
        if not check(args[place]):
            return SCOPE
    if pair is not None and not pair(args):
        return SCOPE
    for place, kind in handles:
        entry = table.find(args[place])
        if entry is None or entry.owner != owner:
            return OWNER
        if entry.kind != kind:
            return KIND
    return None


def performable(row: Opcode, args: Sequence[Any]) -> bool:
    """Whether a wrapper could be asked at all for what is only reported: what no scope could hold is for no wrapper."""
    return all(kind not in SCOPED or (isinstance(value, str) and "\0" not in value)
               for kind, value in zip(row.args, args, strict=True))  # fmt: skip


class Dispatch:
    """The instructions of one run of one app. `report_only`: what is denied is in the log, and done if it can be."""

    def __init__(
        self, rights: Rights, calls: Calls, log: DenialLog, *, report_only: bool = False,
        most_handles: int = MOST_HANDLES,
        on_denied: Callable[[DeniedInstruction], None] | None = None,
    ) -> None:  # fmt: skip
        self.gates = gates(rights)
        self.log = log
        self._owner, self._granted = rights.app_id, tuple(sorted(rights.capabilities))
        self._call, self._table = calls.call, calls.table
        self._report_only, self._most_handles = report_only, most_handles
        self._held: set[int] = set()
        self._on_denied = on_denied

    def step(self, tick: int, gate: Gate, args: Sequence[Any]) -> EffectReply:
        """Raises LogFull, AppError for a kernel that breaks its word."""
        reason = decide(gate, self._table, self._owner, args)
        if reason is not None:
            self._deny(tick, gate, args, reason)
            if not self._report_only:
                return EffectReply(reason)
            if not performable(gate.opcode, args):
                return EffectReply(FAILED, "EINVAL")
        reply = self._perform(gate, args)
        if reply is not DONE and reason is None and reply.status not in (OK, FAILED):
            self._deny(tick, gate, args, reply.status)
        return reply

    def _perform(self, gate: Gate, args: Sequence[Any]) -> EffectReply:
        row = gate.opcode
        if row.makes and len(self._held) >= self._most_handles:
            return EffectReply(FAILED, "EMFILE")
        try:
            value = self._call(row.call, self._owner, args)
        except WrapperDenied as denied:
            return EffectReply(denied.reason)
        except OSError as error:
            return EffectReply(FAILED, errno.errorcode.get(error.errno or 0, "EIO"))
        if row.makes:
            self._hold(value, row.makes)
        if row.frees:
            self._table.free(args[0])
            self._held.discard(args[0])
        return EffectReply(OK, value) if row.gives else DONE

    def _hold(self, number: Any, kind: str) -> None:
        if type(number) is not int or not self._table.hold(number, self._owner, kind):
            raise AppError(f"the kernel gave {self._owner} a handle that is none or is another's", "report it")
        self._held.add(number)

    def _deny(self, tick: int, gate: Gate, args: Sequence[Any], reason: str) -> None:
        row = gate.opcode
        text = summary(row.args, args)
        record = DeniedInstruction(tick, self._owner, row.name, text, reason, row.required, self._granted)
        if self._on_denied is not None:
            self._on_denied(record)
        self.log.add(record)
