"""What was refused to one cage, and how often: counted by kind, target and policy key, told when it is new.

The C half counts most refusals itself; what it tells of the first of each is kept, for it was described while the
process was there. What is kept is bounded: past KINDS_KEPT kinds, further ones are one entry by class. Any thread may
call it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from errno import EACCES, EPERM

from pysandbox.compile.plan import NotifyPlan, Plan
from pysandbox.denial import Denial, further_of, monitor_passes
from pysandbox.events import DENIED, Event, Sink
from pysandbox.handlers.address import unix_path
from pysandbox.handlers.call import Call
from pysandbox.handlers.denial import kind_of, target_of
from pysandbox.handlers.fix import spelled
from pysandbox.live.askers import asker_of, attributed
from pysandbox.live.commands import Asker
from pysandbox.live.init import CageInit
from pysandbox.live.look_credit import LookCredit
from pysandbox.policy.match import may_execute
from pysandbox.policy.model import Policy
from pysandbox.shapes import replace
from pysandbox.supervise import wire
from pysandbox.supervise.fixing import fixing, never_of
from pysandbox.supervise.further import Further
from pysandbox.supervise.missed import Missed
from pysandbox.supervise.paths import PathJudge
from pysandbox.supervise.walks import Walks

TOLD = ("kind", "target", "rule", "fix", "pid", "call", "errno")  # in the event of a new one, with its argv
Key = tuple[str, str, str, int | None, tuple[int, ...]]  # kind, target, rule, and whose it is

KINDS_KEPT = 256  # of refusals in the ledger
NOT_LOOKED_AT = "(further paths, which nobody has looked at)"


class RefusalLedger:
    """What one cage was refused. `source` returns the policy key behind a refusal by address."""

    def __init__(self, live: CageInit, plan: Plan, policy: Policy, sink: Sink, source: Callable[[], str]) -> None:
        assert plan.notify is not None
        self._live, self._plan, self._policy, self._sink, self._source = live, plan, policy, sink, source
        self._notify: NotifyPlan = plan.notify
        self._lock = threading.Lock()
        self._denials: dict[Key, tuple[Denial, Asker]] = {}
        self._further = Further(live.commands)  # what there was no room for
        self._first: dict[tuple[Call, int], tuple[Denial, Asker]] = {}  # of the C half, described at once, by session
        self._walks = Walks()
        self._looks = LookCredit()
        self._paths = PathJudge(plan, policy)
        self._counted: dict[int, Key] = {}  # of the C half's keys, what they are counts of

    def _rule_of(self, call: Call) -> str:
        """The policy key behind a refusal of the C half."""
        if call.kind == "OTHER":
            return "syscalls.deny_extra" if call.syscall in self._policy.deny_syscalls else "syscalls.profile"
        if call.kind == "NEVER":
            return never_of(call.syscall)
        if call.kind == "SENDMSG" and self._notify.refuse_control and not call.address:
            return "syscalls.scm_rights"
        if self._notify.on_host and unix_path(call.address) is not None:
            return "network.unix_sockets"
        return self._source()

    def refuse(
        self, call: Call, rule: str, *, session: int = 0, line: str | None = None, errno: int = 0, tell: bool = True
    ) -> Key:  # fmt: skip
        """Records what was refused; with `tell` an event says so when it is new. Who asked is looked up where that is
        new, or may be of more than one command. `line`: what would allow it, where that is known already. Returns what
        it is counted by."""
        key, new = self._record(call, rule, session, line, errno)
        if tell and new is not None:
            self._tell_denial(new)
        return key

    def record(self, call: Call, rule: str) -> Callable[[], None]:
        """Records it for who may not wait for a sink now; what is returned tells it."""
        _, new = self._record(call, rule)
        return (lambda: None) if new is None else (lambda: self._tell_denial(new))

    def _record(
        self, call: Call, rule: str, session: int = 0, line: str | None = None, errno: int = 0
    ) -> tuple[Key, Denial | None]:
        command, what = self._live.commands.sole(), (kind_of(call), target_of(call), rule)
        key: Key = (*what, command, ())
        if command is not None and self._is_counted(key):
            return key, None
        if self._is_full and (command is not None or not self._looks.is_left):
            return key, self._further_one(what[0])
        asker = self._asker(call, command, session)
        command = command or self._live.commands.of(asker)
        key = (*what, command, asker.leaders if command is None else ())
        if self._is_counted(key):
            return key, None
        return key, self._add(key, self._described(call, rule, asker, command, line, errno), asker)

    def _asker(self, call: Call, command: int | None, session: int = 0) -> Asker:
        """Whose it is need not be looked for where one command alone can have asked (`command`)."""
        ascends = command is None and self._looks.is_left
        with self._looks.spent():
            return asker_of(call.pid, self._live.pid, call.argv, session, ascends=ascends)

    @property
    def _is_full(self) -> bool:
        return len(self._denials) >= KINDS_KEPT

    def _is_counted(self, key: Key) -> bool:
        """Counts one more of what is known."""
        with self._lock:
            before = self._denials.get(key)
            if before is not None:
                self._denials[key] = replace(before[0], count=before[0].count + 1), before[1]
        return before is not None

    def _add(self, key: Key, denial: Denial, asker: Asker) -> Denial | None:
        """What is to be told of it."""
        with self._lock:
            if not self._is_full:
                self._denials[key] = denial, asker
                return denial
        return self._further_one(denial.kind)

    def _further_one(self, kind: str) -> Denial | None:
        """One more for which there was no room; what is to be told of it."""
        further = further_of(kind)
        with self._lock:
            return further if self._further.add(further.kind) else None

    def denial(self, call: Call, rule: str) -> Denial:
        command = self._live.commands.sole()
        return self._described(call, rule, self._asker(call, command), command)

    def _described(
        self, call: Call, rule: str, asker: Asker, command: int | None, line: str | None = None, errno: int = 0
    ) -> Denial:  # fmt: skip
        """Where no descriptor is left to load what knows the fix, without it: it is recorded all the same."""
        denial = Denial(
            kind_of(call), target_of(call), rule, "", asker.pid, asker.argv,
            command=command or self._live.commands.of(asker), call=call.syscall, errno=errno,
        )  # fmt: skip
        try:
            fix = fixing(call, rule, self._policy, self._plan) if line is None else line
            return spelled(replace(denial, fix=fix))
        except (OSError, ImportError):
            return denial

    def _first_of(self, call: Call, session: int) -> tuple[Denial, Asker]:
        """What was refused by the C half, as it is known now."""
        command = self._live.commands.sole()
        asker = self._asker(call, command, session)
        number = EPERM if call.kind == "NEVER" or not self._notify.lenient else 0
        rule = self._rule_of(call)
        return self._described(call, rule, asker, command, errno=number), asker

    def _tell_denial(self, denial: Denial) -> None:
        data: dict[str, object] = {name: getattr(denial, name) for name in TOLD}
        data |= {"invocation_id": self._live.id, "argv": denial.argv}
        if denial.command is not None:
            data["command"] = denial.command
        passed = self._notify.lenient and monitor_passes(denial)
        self._sink(Event(DENIED.name, data | {"monitor": True} if passed else data))

    def note_exec(self, call: Call, asked: int, session: int = 0) -> None:
        """Records an exec that the kernel refuses by the list of executables, and why. `call.path` is the real path."""
        listed = self._notify.programs
        if listed is None or may_execute(listed, call.path):
            return
        if self._walks.begins(call.pid, call.path, asked):
            number = 0 if self._notify.lenient else EACCES
            self.refuse(call, "process.allow_execve", session=session, errno=number)

    def note_refusal(self, call: Call, session: int) -> None:
        first = self._first[replace(call, domain=0), session] = self._first_of(call, session)
        self._tell_denial(first[0])

    def note_missed(self, call: Call, missed: Missed, key: int = 0, session: int = 0) -> None:
        """Records a path that a call was refused, if the cage is why. `key`: the C half counts it from now on."""
        why = self._paths.of(missed)
        if why is None:
            return
        rule, line = why
        file = replace(call, kind="PATH", path=missed.path)
        recorded = self.refuse(file, rule, session=session, line=line, errno=missed.number)
        if key:
            with self._lock:
                self._counted[key] = recorded

    def close(self) -> None:
        self._paths.close()

    def table(self, refusals: wire.Refusals | None) -> tuple[Denial, ...]:
        """Everything, with counts: the refusals of the C half, then the others."""
        with self._lock:
            counted = self._counted_paths(refusals)
            mine = [(replace(each, count=each.count + counted.get(key, 0)), asker)
                    for key, (each, asker) in self._denials.items()]  # fmt: skip
            further = self._further_of(refusals)
        table = []
        for call, session, count in refusals.calls if refusals is not None else ():
            first = self._first.get((call, session)) or self._first_of(call, session)
            table.append((replace(first[0], count=count), first[1]))
        return (*attributed((*table, *mine), self._live.commands), *further)

    def _further_of(self, refusals: wire.Refusals | None) -> tuple[Denial, ...]:
        """Called under the lock."""
        for name, total in refusals.lost.items() if refusals is not None else ():
            self._further.came_to(name, total, kind_of(Call(name, "", 0)))
        if refusals is not None:
            self._further.came_to("paths", refusals.paths_lost, "file", NOT_LOOKED_AT)
        return self._further.denials()

    def _counted_paths(self, refusals: wire.Refusals | None) -> dict[Key, int]:
        """How often each was seen again after the C half had told it."""
        again: dict[Key, int] = {}
        for key, of in self._counted.items():
            again[of] = again.get(of, 0) + (refusals.paths.get(key, 1) if refusals is not None else 1) - 1
        return again
