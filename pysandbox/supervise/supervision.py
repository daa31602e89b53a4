"""The run-time decisions of one cage: its rules as they are now, its callback, and the ledger of what was refused.

`handle` is the whole path of a call from what C has told to the answer. It runs in a follower of the Supervisor;
several calls of a cage are decided at once, and one that its callback keeps waiting keeps nobody else.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from errno import EACCES, ENETUNREACH, ENOENT, EPERM, ESTALE
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from pysandbox.compile.plan import NotifyPlan, Plan
from pysandbox.errors import CageClosedError, StartError
from pysandbox.events import CALLBACK_FAILED, DENIED, FLAGGED, Event
from pysandbox.handlers.address import PROTOCOL_NAMES, ip_address, unix_path
from pysandbox.handlers.call import NETWORK, Call
from pysandbox.handlers.decide import decide
from pysandbox.handlers.denial import Denial, further_of, kind_of, monitor_passes, target_of
from pysandbox.handlers.rules import Rules, both
from pysandbox.handlers.verdict import Errno, Execute, InjectFd, Kill, OnBehalf, Return, Verdict
from pysandbox.launch.live import LiveInit
from pysandbox.policy.endpoint import SYNTHETIC, WHOLE, Endpoint
from pysandbox.policy.match import may_execute
from pysandbox.policy.model import Policy
from pysandbox.supervise import files, opening, programs, wire
from pysandbox.supervise.context import Context
from pysandbox.supervise.fixing import fixing, never_of
from pysandbox.supervise.images import Judged, image_of
from pysandbox.supervise.marks import LAST, Mark, Marks, mark_of, set_mark
from pysandbox.supervise.notes import Notes
from pysandbox.supervise.policy_fn import Caller, CallEvent, read_answer, words_of
from pysandbox.supervise.record import Recorder
from pysandbox.supervise.sockets import hold
from pysandbox.supervise.tasks import command_line, family_of, group_of
from pysandbox.supervise.turns import Turns
from pysandbox.supervise.walks import Walks

if TYPE_CHECKING:
    from pysandbox.supervise.supervisor import Supervisor

CALLBACKS = 16  # of one cage at once, or calls that wait for the gatekeeper; further ones wait, or for their deadline
KINDS_KEPT = 256  # of refusals in the ledger
REFUSED_EXECS = 64  # the last ones, for the error of a command that never ran
REFUSED_EXEC = {EPERM: "changed while it was decided", EACCES: "cannot be traced"}
CATEGORY = {**dict.fromkeys(NETWORK, "network"), "EXEC": "exec", "OPEN": "file"}


class _RefusedExec(NamedTuple):
    """For the error of a command whose own exec it was. `argv` is empty where it was not read in time."""

    when: float
    argv: tuple[str, ...]
    reason: str
    denial: Denial


class Supervision:
    """Made for an open cage before its first command; `end` is called when the cage is gone."""

    def __init__(
        self,
        supervisor: Supervisor,
        live: LiveInit,
        plan: Plan,
        policy: Policy,
        *,
        caller: Caller | None = None,
        deadline: float = 5.0,
        recorder: Recorder | None = None,
        restrict_memory: Callable[[int], None],
    ) -> None:
        assert plan.notify is not None
        self.restrict_memory = restrict_memory  # MiB; raises OSError
        self.live, self.plan, self.sink = live, plan, supervisor.sink
        self.context = Context(self)
        self._supervisor = supervisor
        self._notify = plan.notify
        self._actions = _told_apart(plan.notify)
        self._caller = caller
        self._deadline = deadline
        self._recorder = recorder
        source = "network.allow_ips" if policy.allow_ips else "network.egress"
        self._rules = Rules(plan.notify.endpoints, {}, source, plan.notify.grants, plan.notify.named)
        # An address of this host is granted where it was listed whole; narrowed to it, a range does not name it.
        self._own = tuple(each for each in plan.notify.grants if each.prefix == WHOLE)
        self._lock = threading.Lock()
        self._denials: dict[tuple[str, str, str], Denial] = {}
        self._further: dict[str, Denial] = {}  # by kind: what there was no room for, counted
        self._first: dict[Call, Denial] = {}  # refusals of the C half, described while the process was there
        self._marks = Marks(mark_of(live.pid) or LAST)
        self._final: wire.Refusals | None = None
        self._policy = policy
        self._turns = Turns(CALLBACKS, supervisor.complain)
        self._notes = Notes(supervisor.complain)
        self._walks = Walks()
        self._refused_execs: deque[_RefusedExec] = deque(maxlen=REFUSED_EXECS)
        self._held = hold(plan.notify.sockets)
        try:
            self._number = supervisor.add(live, self, self._encoded())
        except BaseException:
            self._held.close()
            raise

    # ---- rules in force -----------------------------------------------------------------------------------------

    @property
    def watches_network(self) -> bool:
        return "CONNECT" in dict(self._notify.actions)

    def _encoded(self) -> Any:
        """The rules for the C half. Lists of single processes and recordings are Python's to hold a call against."""
        notify, actions = self._notify, dict(self._actions)
        if self._rules.by_mark or self._recorder is not None:
            actions = {name: "ASK" if action == "LIST" else action for name, action in actions.items()}
        return wire.encode_rules(
            actions, self._rules.endpoints, init_pid=self.live.pid, deadline=self._deadline, sealed=notify.sealed,
            abstract=notify.abstract, refuse_control=notify.refuse_control,
            grants=self._rules.grants if notify.leads_out else None, named=self._rules.named, own=self._own,
            walled=notify.walled, on_host=notify.on_host, keeps_ports=notify.keeps_ports, sockets=notify.sockets,
            verdicts=notify.verdicts,
            user=self.live.user,
        )  # fmt: skip

    def narrow(self, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """Leaves what is in both lists; returns it. With something left the doors stay open: what they lead to is the
        gatekeeper's to decide."""
        doors = (SYNTHETIC,) if endpoints and self.plan.net is not None else ()
        with self._lock:
            self._rules = self._rules.narrowed((*endpoints, *doors), "policy_fn")
            self._own = both(self._own, endpoints)
            wire.replace_rules(self._supervisor.notifier, self._number, self._encoded())
            return self._rules.endpoints

    def grant_address(self, synthetic: bytes, real: bytes, first_port: int, last_port: int, seconds: float) -> None:
        """For so long, connections over TCP to the address of the cage that stands for a name (both in sixteen bytes)
        go to the real one, by a socket of the host's network; later, or where the list in force does not hold the real
        address, into the cage's own network. Raises OSError."""
        ports = first_port, last_port
        wire.grant_address(self._supervisor.notifier, self._number, synthetic, real, ports, max(0, int(seconds * 1000)))

    def narrow_pids(self, pids: Sequence[int], endpoints: tuple[Endpoint, ...]) -> set[Mark]:
        """Binds processes of a cage that is stopped, and all they will ever start, to the list; one that is bound
        already to what is in both. Returns the marks that they bear from now on."""
        with self._lock:
            before: dict[Mark, list[int]] = {}
            for pid in pids:
                before.setdefault(mark_of(pid) or LAST, []).append(pid)
            made = {self._bind(mark, marked, endpoints) for mark, marked in before.items()}
            wire.replace_rules(self._supervisor.notifier, self._number, self._encoded())
        return made

    def _bind(self, mark: Mark, pids: Sequence[int], endpoints: tuple[Endpoint, ...]) -> Mark:
        held = self._rules.by_mark.get(self._marks.number_of(mark), self._rules.endpoints)
        number, made = self._marks.inside(mark)
        self._rules = replace(self._rules, by_mark={**self._rules.by_mark, number: both(held, endpoints)})
        for pid in pids:
            set_mark(pid, made)
        return made

    # ---- one call -----------------------------------------------------------------------------------------------

    def handle(self, told: Any, step_back: Callable[[], None]) -> None:
        """`step_back` has somebody else wait for the next call, before this one may take long."""
        call = wire.call_of(told)
        if told.serial:
            self._notes.bring(int(told.serial), self._note_of(told, call))
        elif told.kind == wire.STRANDED:
            self._turns.take(partial(self._carry, int(told.ticket), call), step_back)
        elif call.kind == "EXEC" and self._actions["EXEC"] == "TELL":
            self._turns.take(partial(self._look_up, int(told.ticket), call, list(told.args)), step_back)
        else:
            self._decide_soon(int(told.ticket), call, list(told.args), step_back)

    def _note_of(self, told: Any, call: Call) -> Callable[[], None]:
        """What is to be written of a call that has its answer; `told` itself is used again."""
        if told.kind == wire.PASSED:
            return partial(self._note_exec, replace(call, path=wire.text_of(told)), int(told.asked))
        if told.kind == wire.REFUSED:
            return partial(self._note_refusal, call)
        return partial(self._note_late, call)

    def _decide_soon(self, ticket: int, call: Call, args: list[int], step_back: Callable[[], None]) -> None:
        task = partial(self._decide, ticket, call, args)
        if self._caller is None:
            task()
        else:
            self._turns.take(task, step_back)

    def _look_up(self, ticket: int, call: Call, args: list[int]) -> None:
        """An exec that is only told of, and whose path was not at hand: it goes on when it is in the ledger."""
        try:
            asked, path = self._trace(call, args)
            self._note_exec(replace(call, path=path), wire.digest(asked))
        except (OSError, CageClosedError, programs.NoProgram):
            pass  # it runs nothing, or cannot be read
        finally:
            wire.answer(self._supervisor.notifier, ticket, "PASS")

    def _trace(self, call: Call, args: list[int]) -> tuple[bytes, str]:
        """The path of an exec as it was written, and the real one. Raises what `programs.trace` does."""
        asked = wire.read_exec(call.pid, wire.number_of(call.syscall), args).split(b"\0", 1)[0]
        directory = files.register_int(args[0]) if call.syscall == "execveat" else files.AT_FDCWD
        return asked, programs.trace(self.live, call.pid, directory, os.fsdecode(asked))

    def _decide(self, ticket: int, call: Call, args: list[int]) -> None:
        try:
            self._judge(ticket, call, args)
        except BaseException:  # of a sink or a recording, which are the user's
            wire.answer(self._supervisor.notifier, ticket, "ERRNO", EPERM)
            raise

    def _judge(self, ticket: int, call: Call, args: list[int]) -> None:
        if not wire.waits(self._supervisor.notifier, ticket):
            return  # its deadline passed in the backlog
        try:
            call, judged = self._complete(call, args)
            rules = self._rules
            verdict = decide(call, rules)
            if self._recorder is not None:
                self._recorder.write(call, rules, verdict)
            if self._caller is not None and not isinstance(verdict, (Errno, Kill)):
                verdict = self._consult(call, verdict)
        except FileNotFoundError:
            verdict, judged = Errno(ENOENT), None  # as the kernel would say
        except programs.NoProgram as none:
            call, verdict = self._without_program(call, args, none.number)
            judged = None
        except OSError as error:  # what cannot be read is refused
            verdict, judged = Errno((error.errno or EPERM) if call.kind == "OPEN" else EPERM, "unreadable"), None
        except Exception as error:
            self._fail(call, words_of(error))
            verdict, judged = Errno(EPERM, "supervisor"), None
        self._apply(ticket, call, verdict, judged)

    def _complete(self, call: Call, args: list[int]) -> tuple[Call, Judged | None]:
        """The call with what C has not read for it. Raises OSError."""
        if call.kind == "EXEC":
            raw = wire.read_exec(call.pid, wire.number_of(call.syscall), args)
            path, *argv = (os.fsdecode(each) for each in raw.split(b"\0")[:-1])
            directory = files.register_int(args[0]) if call.syscall == "execveat" else files.AT_FDCWD
            program = programs.find(self.live, call.pid, directory, path)  # a shell tries every directory of PATH
            call = replace(call, path=program.path, argv=tuple(argv))
            return call, Judged(raw, directory, program.device, program.inode)
        if call.kind == "OPEN":
            return files.complete(call, args), None
        return replace(call, marks=self._marks.binding(call.pid, self._rules.by_mark)), None

    def _without_program(self, call: Call, args: list[int], number: int) -> tuple[Call, Errno]:
        """Where nothing is there the kernel would say so; what is reached through a process of /proc is refused."""
        try:
            return replace(call, path=self._trace(call, args)[1]), Errno(number, "unreadable")
        except (OSError, CageClosedError, programs.NoProgram):
            return call, Errno(number)

    # ---- the callback -------------------------------------------------------------------------------------------

    def _consult(self, call: Call, verdict: Verdict) -> Verdict:
        assert self._caller is not None
        try:
            number, flag = read_answer(self._caller(self._event(call), self.context, self._deadline))
        except BaseException as error:  # whatever a callback does that is no answer, it refuses
            reason = words_of(error)
            self._note_refused_exec(call, f"policy_fn failed, which refuses: {reason}")
            self._fail(call, reason)
            return Errno(EPERM, "policy_fn")
        if number:
            self._note_refused_exec(call, "policy_fn refused it")
        if flag:
            data = {"kind": kind_of(call), "target": target_of(call), "pid": call.pid}
            self.sink(Event(FLAGGED.name, {"invocation_id": self.live.id, **data}))
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
            refused = _RefusedExec(time.monotonic(), call.argv, reason, self._denial(call, "policy_fn"))
            self._refused_execs.append(refused)

    def explain(self, error: StartError, argv: tuple[str, ...], began: float) -> None:
        """Says in the error of a command that never ran that its callback has refused it."""
        self.settle()
        for refused in reversed(self._refused_execs):
            if error.step == "exec" and refused.when >= began and refused.argv in (argv, ()):
                error.hint, error.denials = refused.reason, (refused.denial,)
                return

    def _fail(self, call: Call, reason: str) -> None:
        data = {"invocation_id": self.live.id, "syscall": call.syscall, "pid": call.pid, "reason": reason}
        self.sink(Event(CALLBACK_FAILED.name, data))

    # ---- answers ------------------------------------------------------------------------------------------------

    def _apply(self, ticket: int, call: Call, verdict: Verdict, judged: Judged | None) -> None:
        notifier = self._supervisor.notifier
        if isinstance(verdict, Errno):
            if verdict.rule:
                self._remember(self._denial(call, verdict.rule), tell=True)
            wire.answer(notifier, ticket, "ERRNO", verdict.number)
        elif isinstance(verdict, OnBehalf):
            self._do_on_behalf(ticket, call)
        elif isinstance(verdict, Execute):
            assert judged is not None
            self._execute(ticket, call, judged)
        elif isinstance(verdict, InjectFd):
            opening.inject(notifier, ticket, self.live, self.plan.landlock, call, verdict)
        elif isinstance(verdict, Return):
            wire.answer(notifier, ticket, "RETURN", verdict.value)
        else:
            self._remember(self._denial(call, verdict.rule), tell=True)
            self.live.kill_process(group_of(call.pid))
            wire.answer(notifier, ticket, "ERRNO", EPERM)

    def _execute(self, ticket: int, call: Call, judged: Judged) -> None:
        notifier = self._supervisor.notifier
        try:
            image = image_of(self.live, call.pid, judged)
        except OSError as error:
            rule = REFUSED_EXEC[EPERM] if error.errno == ESTALE else "unreadable"
            self._remember(self._denial(call, rule), tell=True)
            wire.answer(notifier, ticket, "ERRNO", EPERM)
            return
        changed = REFUSED_EXEC.get(wire.execute(notifier, ticket, judged.raw, image))
        if changed:
            self._remember(self._denial(call, changed), tell=True)

    def _do_on_behalf(self, ticket: int, call: Call) -> None:
        """By the rules as they are now: a callback may have tightened them, or another thread while it ran. Under the
        lock, so that who tightens them finds the connection made, or refused."""
        with self._lock:
            verdict = decide(replace(call, marks=self._marks.binding(call.pid, self._rules.by_mark)), self._rules)
            if not isinstance(verdict, Errno):
                wire.answer(self._supervisor.notifier, ticket, "BEHALF")
                return
        self._remember(self._denial(call, verdict.rule), tell=True)
        wire.answer(self._supervisor.notifier, ticket, "ERRNO", verdict.number)

    def _carry(self, ticket: int, call: Call) -> None:
        """A datagram to a listed address, of a socket that cannot be exchanged for one of the host's network: before it
        is sent the gatekeeper listens there, in the cage's."""
        address, admission = ip_address(call.address), self.live.admission
        try:
            if address is None or admission is None:
                raise OSError(ENETUNREACH, "no gatekeeper")
            admission.carry_datagrams(address.host, address.port)
        except Exception as error:
            number = error.errno if isinstance(error, OSError) else None
            if number is None:
                self._fail(call, words_of(error))
            wire.answer(self._supervisor.notifier, ticket, "ERRNO", number or ENETUNREACH)
        else:
            wire.answer(self._supervisor.notifier, ticket, "CARRIED")

    # ---- the ledger ---------------------------------------------------------------------------------------------

    def _rule_of(self, call: Call) -> str:
        """The policy key behind a refusal of the C half."""
        if call.kind == "OTHER":
            return "syscalls.profile"
        if call.kind == "NEVER":
            return never_of(call.syscall)
        if call.kind == "SENDMSG" and self._notify.refuse_control and not call.address:
            return "syscalls.scm_rights"
        if self._notify.on_host and unix_path(call.address) is not None:
            return "network.unix_sockets"
        return self._rules.source

    def _denial(self, call: Call, rule: str) -> Denial:
        argv = call.argv or command_line(call.pid)
        return Denial(kind_of(call), target_of(call), rule, self._fix_of(call, rule), group_of(call.pid), argv)

    def _fix_of(self, call: Call, rule: str) -> str:
        return fixing(call, rule, self._policy, self.plan)

    def _remember(self, denial: Denial, *, tell: bool = False) -> None:
        key = denial.kind, denial.target, denial.rule
        with self._lock:
            before = self._denials.get(key)
            if before is not None:
                self._denials[key] = replace(before, count=before.count + 1)
                return
            if len(self._denials) < KINDS_KEPT:
                self._denials[key] = denial
            else:
                denial = self._further.get(denial.kind) or further_of(denial.kind)
                self._further[denial.kind] = replace(denial, count=denial.count + 1)
                tell = tell and not denial.count
        if tell:
            self._tell_denial(denial)

    def _tell_denial(self, denial: Denial) -> None:
        data: dict[str, object] = {name: getattr(denial, name) for name in ("kind", "target", "rule", "fix", "pid")}
        data |= {"invocation_id": self.live.id, "argv": denial.argv}
        passed = self._notify.lenient and monitor_passes(denial)
        self.sink(Event(DENIED.name, data | {"monitor": True} if passed else data))

    def _note_exec(self, call: Call, asked: int) -> None:
        """The kernel enforces the list of executables; this says what it refuses, and why. `call.path` is real."""
        listed = self._notify.programs
        if listed is None or may_execute(listed, call.path):
            return
        if self._walks.begins(call.pid, call.path, asked):
            self._remember(self._denial(call, "process.allow_execve"), tell=True)

    def _note_refusal(self, call: Call) -> None:
        denial = self._first[replace(call, domain=0)] = self._denial(call, self._rule_of(call))
        self._tell_denial(denial)

    def _note_late(self, call: Call) -> None:
        who = "gatekeeper" if self._caller is None else "callback"
        reason = f"the {who} took longer than {self._deadline:g} s"
        self._note_refused_exec(call, reason)
        self._remember(self._denial(call, "policy_fn"))
        self._fail(call, reason)

    def settle(self) -> None:
        """Waits until all that was told so far is in the ledger."""
        self._notes.settle(wire.last_told(self._supervisor.notifier, self._number))

    def denials(self) -> tuple[Denial, ...]:
        """Everything that was refused so far, with counts."""
        if self._final is None:
            self.settle()
        refusals = self._final or wire.denials(self._supervisor.notifier, self._number)
        with self._lock:
            mine = [*self._denials.values(), *self._further.values()]
        table = []
        for call, count in refusals.calls if refusals is not None else ():
            table.append(replace(self._first.get(call) or self._denial(call, self._rule_of(call)), count=count))
        for kind, count in refusals.lost.items() if refusals is not None else ():
            table.append(further_of(kind_of(Call(kind, "", 0)), count))
        return (*table, *mine)

    def end(self) -> None:
        """The cage is gone."""
        if self._final is None:
            self.settle()
            self._final = wire.denials(self._supervisor.notifier, self._number) or wire.Refusals([], {})
            self._supervisor.remove(self._number)
            self._held.close()
        if self._caller is not None:
            self._caller.close()


def _told_apart(notify: NotifyPlan) -> dict[str, str]:
    """The plan's actions. Without a list of executables there is nothing to tell of an exec that goes on anyway."""
    actions = dict(notify.actions)
    if actions.get("EXEC") == "TELL" and notify.programs is None:
        actions["EXEC"] = "PASS"
    return actions
