"""Asking the host's callback about one call of a cage, and what is told of its answer or of its failure."""

from __future__ import annotations

import time
from collections import deque
from errno import EPERM

from pysandbox.denial import Denial
from pysandbox.errors import StartError
from pysandbox.events import CALLBACK_FAILED, FLAGGED, Event, Sink
from pysandbox.handlers.address import PROTOCOL_NAMES, ip_address
from pysandbox.handlers.call import NETWORK, Call
from pysandbox.handlers.denial import kind_of, target_of
from pysandbox.handlers.verdict import Errno, Verdict
from pysandbox.live.init import CageInit
from pysandbox.live.processes import family_of
from pysandbox.shapes import NamedTuple
from pysandbox.supervise import files
from pysandbox.supervise.context import Context
from pysandbox.supervise.policy_fn import Caller, CallEvent, read_answer, words_of
from pysandbox.supervise.refusals import RefusalLedger

REFUSED_EXECS = 64  # the last ones, for the error of a command that never ran
CATEGORY = {**dict.fromkeys(NETWORK, "network"), "EXEC": "exec", "OPEN": "file"}


class _RefusedExec(NamedTuple):
    """A refused exec, kept for the error of the command that it should have become. `argv` is empty where it could not
    be read in time."""

    when: float
    argv: tuple[str, ...]
    reason: str
    denial: Denial


class Consultation:
    """The callback of one cage. Without one (`caller`) nothing is asked; failures and late calls are reported still."""

    def __init__(
        self,
        live: CageInit,
        caller: Caller | None,
        context: Context,
        deadline: float,
        ledger: RefusalLedger,
        sink: Sink,
    ) -> None:
        self._live, self._caller, self._context, self._deadline = live, caller, context, deadline
        self._ledger, self._sink = ledger, sink
        self._refused_execs: deque[_RefusedExec] = deque(maxlen=REFUSED_EXECS)

    @property
    def asks(self) -> bool:
        return self._caller is not None

    def consult(self, call: Call, verdict: Verdict) -> Verdict:
        assert self._caller is not None
        try:
            number, flag = read_answer(self._caller(self._event(call), self._context, self._deadline))
        except BaseException as error:  # whatever a callback does that is no answer, it refuses
            reason = words_of(error)
            self._note_refused_exec(call, f"policy_fn failed, which refuses: {reason}")
            self.fail(call, reason)
            return Errno(EPERM, "policy_fn")
        if number:
            self._note_refused_exec(call, "policy_fn refused it")
        if flag:
            data = {"kind": kind_of(call), "target": target_of(call), "pid": call.pid}
            self._sink(Event(FLAGGED.name, {"invocation_id": self._live.id, **data}))
        return Errno(number, "policy_fn") if number else verdict

    def _event(self, call: Call) -> CallEvent:
        address = ip_address(call.address)
        group, parent = family_of(call.pid)
        return CallEvent(
            syscall=call.syscall,
            category=CATEGORY[call.kind],
            pid=group,
            ppid=parent,
            time=time.time(),
            host=address.host if address else "",
            port=address.port if address else 0,
            protocol=PROTOCOL_NAMES.get(call.protocol, "") if address else "",
            argv=call.argv,
            path=call.path,
            write=call.kind == "OPEN" and files.writes(call.flags),
        )

    def _note_refused_exec(self, call: Call, reason: str) -> None:
        if call.kind == "EXEC":
            refused = _RefusedExec(time.monotonic(), call.argv, reason, self._ledger.denial(call, "policy_fn"))
            self._refused_execs.append(refused)

    def note_late(self, call: Call) -> None:
        who = "gatekeeper" if self._caller is None else "callback"
        reason = f"the {who} took longer than {self._deadline:g} s"
        self._note_refused_exec(call, reason)
        self._ledger.refuse(call, "policy_fn", tell=False)
        self.fail(call, reason)

    def explain(self, error: StartError, argv: tuple[str, ...], began: float) -> None:
        """Says in the error of a command that never ran that the callback has refused it."""
        for refused in reversed(self._refused_execs):
            if error.step == "exec" and refused.when >= began and refused.argv in (argv, ()):
                error.hint, error.denials = refused.reason, (refused.denial,)
                return

    def fail(self, call: Call, reason: str) -> None:
        data = {"invocation_id": self._live.id, "syscall": call.syscall, "pid": call.pid, "reason": reason}
        self._sink(Event(CALLBACK_FAILED.name, data))

    def close(self) -> None:
        if self._caller is not None:
            self._caller.close()
