"""The run-time decisions of one cage: its rules as they are now, its callback, and the ledger of what was refused.

`handle` is the whole path of a call from the event of the C half to the answer. It runs in a follower of the
Supervisor; several calls of a cage are decided at once, and a slow callback delays only its own call.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from errno import EACCES, ENETUNREACH, ENOENT, EPERM, ESTALE
from functools import partial

from pysandbox.compile.plan import Plan
from pysandbox.denial import Denial
from pysandbox.errors import CageClosedError, StartError
from pysandbox.handlers.address import ip_address
from pysandbox.handlers.call import NETWORK, Call
from pysandbox.handlers.decide import decide
from pysandbox.handlers.verdict import Errno, Execute, OnBehalf, Verdict
from pysandbox.live.init import CageInit
from pysandbox.live.services import CageService
from pysandbox.policy.endpoint import Endpoint
from pysandbox.policy.model import Policy
from pysandbox.shapes import TYPE_CHECKING, replace
from pysandbox.supervise import files, opening, programs, wire
from pysandbox.supervise.consultation import Consultation
from pysandbox.supervise.context import Context
from pysandbox.supervise.images import Judged, image_of
from pysandbox.supervise.notes import Notes
from pysandbox.supervise.policy_fn import Caller, words_of
from pysandbox.supervise.record import VerdictWriter
from pysandbox.supervise.refusals import RefusalLedger
from pysandbox.supervise.renames import answer_rename
from pysandbox.supervise.rules_in_force import RulesInForce
from pysandbox.supervise.sockets import hold
from pysandbox.supervise.turns import BoundedTasks

if TYPE_CHECKING:
    from pysandbox.supervise.supervisor import Supervisor

CALLBACKS = 16  # of one cage at once, or calls that wait for the gatekeeper; further ones wait, or for their deadline
KINDS_KEPT = 256  # of refusals in the ledger
REFUSED_EXECS = 64  # the last ones, for the error of a command that never ran
REFUSED_EXEC = {EPERM: "changed while it was decided", EACCES: "cannot be traced"}
CATEGORY = {**dict.fromkeys(NETWORK, "network"), "EXEC": "exec", "OPEN": "file"}


class Supervision(CageService):
    """The decisions of one cage: made when it is open, before its first command; `end` is called when it is gone."""

    def __init__(
        self,
        supervisor: Supervisor,
        live: CageInit,
        plan: Plan,
        policy: Policy,
        *,
        caller: Caller | None = None,
        deadline: float = 5.0,
        recorder: VerdictWriter | None = None,
        restrict_memory: Callable[[int], None],
    ) -> None:
        """`restrict_memory` takes MiB and raises OSError."""
        assert plan.notify is not None
        self.live = live
        self._plan, self._supervisor, self._recorder = plan, supervisor, recorder
        self.rules = RulesInForce(
            live, plan, policy, self._replace_table, deadline=deadline, recorded=recorder is not None
        )
        self._ledger = RefusalLedger(live, plan, policy, supervisor.sink, lambda: self.rules.now.source)
        self.context = Context(live, plan, policy, self.rules, supervisor.sink, restrict_memory)
        self._callback = Consultation(live, caller, self.context, deadline, self._ledger, supervisor.sink)
        self._final: wire.Refusals | None = None
        self._turns = BoundedTasks(CALLBACKS, supervisor.complain)
        self._left: set[tuple[int, int]] = set()  # directories that could not be moved (`moving`)
        self._notes = Notes(supervisor.complain)
        self._held = hold(plan.notify.sockets)
        try:
            self._number = supervisor.add(live, self, self.rules.encoded())
        except BaseException:
            self._held.close()
            raise

    def _replace_table(self, encoded: wire.EncodedRules) -> None:
        wire.replace_rules(self._supervisor.notifier, self._number, encoded)

    # ---- as a service of the cage -------------------------------------------------------------------------------

    @property
    def decides_network(self) -> bool:
        return self.rules.watches_network

    def tighten(self, endpoints: tuple[Endpoint, ...]) -> int:
        """What the cage is connected to already is left to whoever stops the cage for that (Context)."""
        if self.rules.watches_network:
            self.rules.narrow(endpoints)
        return 0

    def grant_address(self, synthetic: bytes, real: bytes, first_port: int, last_port: int, seconds: float) -> None:
        """For `seconds`, TCP connections to a synthetic address of the cage go to the real address of its name (both in
        sixteen bytes) by a socket of the host's network. Later, or where the list in force lacks the real address,
        they go into the cage's own network. Raises OSError."""
        ports = first_port, last_port
        wire.grant_address(self._supervisor.notifier, self._number, synthetic, real, ports, max(0, int(seconds * 1000)))

    def open_door(self, address: bytes, port: int, sink: int) -> bool:
        wire.open_door(self._supervisor.notifier, self._number, address, port, os.dup(sink))
        return True

    # ---- one call -----------------------------------------------------------------------------------------------

    def handle(self, told: wire.ReportedCall, step_back: Callable[[], None]) -> None:
        """Decides and answers one call. `step_back` lets another thread wait for the next call before this one may take
        long."""
        call = wire.call_of(told)
        if told.serial:
            self._notes.bring(int(told.serial), self._note_of(told, call))
        elif told.kind == wire.NOT_REPLACEABLE:
            self._turns.run(partial(self._carry, int(told.pending), call), step_back)
        elif call.kind in ("OPEN", "PATH") and self.rules.actions[call.kind] == "TELL":
            self._turns.run(partial(self._look_at_paths, int(told.pending), call), step_back)
        elif call.kind == "RENAME":
            self._turns.run(partial(self._rename, int(told.pending), call, list(told.args)), step_back)
        elif call.kind == "EXEC" and self.rules.actions["EXEC"] == "TELL":
            self._turns.run(partial(self._resolve_exec, int(told.pending), call, list(told.args)), step_back)
        else:
            self._decide_soon(int(told.pending), call, list(told.args), step_back)

    def _note_of(self, told: wire.ReportedCall, call: Call) -> Callable[[], None]:
        """What is to be recorded of a call that has its answer, without `told`, which is used again."""
        if told.kind == wire.PASSED:
            described = replace(call, path=wire.text_of(told))
            return partial(self._ledger.note_exec, described, int(told.asked), int(told.session))
        if told.kind == wire.MISSED:
            missed, session = wire.missed_of(told), int(told.session)
            return partial(self._ledger.note_missed, call, missed, int(told.asked), session)
        if told.kind == wire.REFUSED:
            return partial(self._ledger.note_refusal, call, int(told.session))
        return partial(self._callback.note_late, call)

    def _look_at_paths(self, pending: int, call: Call) -> None:
        """Looks where the C half may not, at the paths of a call that is only watched; it goes on when they are
        recorded."""
        assert self._plan.notify is not None
        try:
            for missed in wire.WaitingCaller(self._supervisor.notifier, pending).look_at_paths(
                self._plan.notify.on_host
            ):
                self._ledger.note_missed(call, missed)
        finally:
            wire.answer(self._supervisor.notifier, pending, "PASS")

    def _rename(self, pending: int, call: Call, args: list[int]) -> None:
        """Notes the paths first, where they are watched."""
        try:
            if self._plan.notify is not None and self._plan.notify.watches_paths:
                for missed in wire.WaitingCaller(self._supervisor.notifier, pending).look_at_paths(False):
                    self._ledger.note_missed(call, missed)
        finally:
            answer_rename(self._supervisor.notifier, pending, call, args, self._plan, self.live.user, self._left)

    def _decide_soon(self, pending: int, call: Call, args: list[int], step_back: Callable[[], None]) -> None:
        task = partial(self._decide, pending, call, args)
        if not self._callback.asks:
            task()
        else:
            self._turns.run(task, step_back)

    def _resolve_exec(self, pending: int, call: Call, args: list[int]) -> None:
        """Reads the path of an exec that is only recorded; the call continues when it is in the ledger."""
        caller = wire.WaitingCaller(self._supervisor.notifier, pending)
        try:
            asked, path = self._trace(call, args, caller)
            caller.require()
            self._ledger.note_exec(replace(call, path=path), wire.digest(asked))
        except (OSError, CageClosedError, programs.NoProgram):
            pass  # it runs nothing, or cannot be read
        finally:
            wire.answer(self._supervisor.notifier, pending, "PASS")

    def _trace(self, call: Call, args: list[int], caller: wire.WaitingCaller) -> tuple[bytes, str]:
        """The path of an exec as it was given, and its real path. Raises what `programs.trace` does."""
        asked = caller.read_exec().split(b"\0", 1)[0]
        directory = files.register_int(args[0]) if call.syscall == "execveat" else files.AT_FDCWD
        return asked, programs.trace(self.live, call.pid, directory, os.fsdecode(asked))

    def _decide(self, pending: int, call: Call, args: list[int]) -> None:
        try:
            self._judge(pending, call, args)
        except BaseException:  # of a sink or a recording, which are the user's
            wire.answer(self._supervisor.notifier, pending, "ERRNO", EPERM)
            raise

    def _judge(self, pending: int, call: Call, args: list[int]) -> None:
        caller = wire.WaitingCaller(self._supervisor.notifier, pending)
        if not caller.waits():
            return  # its deadline passed in the backlog
        try:
            call, judged = self._complete(call, args, caller)
            if not caller.waits():
                return  # what was found by its number may be of whoever has that now
            rules = self.rules.now
            verdict = decide(call, rules)
            if self._recorder is not None:
                self._recorder.write(call, rules, verdict)
            if self._callback.asks and not isinstance(verdict, Errno):
                verdict = self._callback.consult(call, verdict)
        except FileNotFoundError:
            verdict, judged = Errno(ENOENT), None  # as the kernel would say
        except programs.NoProgram as none:
            call, verdict = self._without_program(call, args, none.number, caller)
            judged = None
        except OSError as error:  # what cannot be read is refused
            verdict, judged = Errno((error.errno or EPERM) if call.kind == "OPEN" else EPERM, "unreadable"), None
        except Exception as error:
            self._callback.fail(call, words_of(error))
            verdict, judged = Errno(EPERM, "supervisor"), None
        self._apply(pending, call, verdict, judged)

    def _complete(self, call: Call, args: list[int], caller: wire.WaitingCaller) -> tuple[Call, Judged | None]:
        """The call with what C has not read for it. Raises OSError."""
        if call.kind == "EXEC":
            raw = caller.read_exec()
            path, *argv = (os.fsdecode(each) for each in raw.split(b"\0")[:-1])
            directory = files.register_int(args[0]) if call.syscall == "execveat" else files.AT_FDCWD
            program = programs.find(self.live, call.pid, directory, path)  # a shell tries every directory of PATH
            call = replace(call, path=program.path, argv=tuple(argv))
            return call, Judged(raw, directory, program.device, program.inode)
        if call.kind == "OPEN":
            return files.complete(call, args, caller), None
        return replace(call, marks=self.rules.marks_of(call.pid)), None

    def _without_program(
        self, call: Call, args: list[int], number: int, caller: wire.WaitingCaller
    ) -> tuple[Call, Errno]:
        """Where no program was found the kernel's own error; a path through a process of /proc is refused."""
        try:
            path = self._trace(call, args, caller)[1]
            caller.require()
            return replace(call, path=path), Errno(number, "unreadable")
        except (OSError, CageClosedError, programs.NoProgram):
            return call, Errno(number)

    # ---- answers ------------------------------------------------------------------------------------------------

    def _apply(self, pending: int, call: Call, verdict: Verdict, judged: Judged | None) -> None:
        notifier = self._supervisor.notifier
        if isinstance(verdict, Errno):
            if verdict.rule:
                self._ledger.refuse(call, verdict.rule)
            wire.answer(notifier, pending, "ERRNO", verdict.number)
        elif isinstance(verdict, OnBehalf):
            self._do_on_behalf(pending, call)
        elif isinstance(verdict, Execute):
            assert judged is not None
            self._execute(pending, call, judged)
        else:
            opening.inject(notifier, pending, self.live, self._plan.landlock, call, verdict)

    def _execute(self, pending: int, call: Call, judged: Judged) -> None:
        """What the callback lets pass the kernel may refuse by the list of executables: that is recorded before."""
        notifier = self._supervisor.notifier
        self._ledger.note_exec(replace(call, argv=()), wire.digest(judged.raw.split(b"\0", 1)[0]))
        try:
            image = image_of(self.live, call.pid, judged)
        except OSError as error:
            rule = REFUSED_EXEC[EPERM] if error.errno == ESTALE else "unreadable"
            self._ledger.refuse(call, rule)
            wire.answer(notifier, pending, "ERRNO", EPERM)
            return
        wire.execute(
            notifier, pending, judged.raw, image, lambda number: self._ledger.record(call, REFUSED_EXEC[number])
        )

    def _do_on_behalf(self, pending: int, call: Call) -> None:
        """Emulates the call by the rules as they are now: a callback, or another thread, may have tightened them
        meanwhile. Under the lock, so that a thread that tightens them finds the connection made, or refused."""
        with self.rules.lock:
            verdict = self.rules.decide(call)
            if not isinstance(verdict, Errno):
                wire.answer(self._supervisor.notifier, pending, "BEHALF")
                return
        self._ledger.refuse(call, verdict.rule)
        wire.answer(self._supervisor.notifier, pending, "ERRNO", verdict.number)

    def _carry(self, pending: int, call: Call) -> None:
        """Handles a datagram to a listed address from a socket that cannot be replaced by one of the host's network:
        the gatekeeper listens at that address in the cage's network before the datagram is sent."""
        address = ip_address(call.address)
        try:
            if address is None or not self.live.services.carry_datagrams(address.host, address.port):
                raise OSError(ENETUNREACH, "no gatekeeper")
        except Exception as error:
            number = error.errno if isinstance(error, OSError) else None
            if number is None:
                self._callback.fail(call, words_of(error))
            wire.answer(self._supervisor.notifier, pending, "ERRNO", number or ENETUNREACH)
        else:
            wire.answer(self._supervisor.notifier, pending, "RELAYED")

    # ---- the ledger ---------------------------------------------------------------------------------------------

    def wait_idle(self) -> None:
        """Waits until every report so far is in the ledger."""
        self._notes.wait_idle(wire.last_event(self._supervisor.notifier, self._number))

    def denials(self) -> tuple[Denial, ...]:
        """Everything that was refused so far, with counts."""
        if self._final is None:
            self.wait_idle()
        refusals = self._final or wire.denials(self._supervisor.notifier, self._number)
        return self._ledger.table(refusals)

    def explain(self, error: StartError, argv: tuple[str, ...], began: float) -> None:
        self.wait_idle()
        self._callback.explain(error, argv, began)

    def end(self) -> None:
        """Ends the supervision of a cage that is gone."""
        if self._final is None:
            self.wait_idle()
            self._final = wire.denials(self._supervisor.notifier, self._number) or wire.Refusals([], {})
            self._supervisor.remove(self._number)
            self._held.close()
            self._ledger.close()
        self._callback.close()
