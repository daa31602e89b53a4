"""The lists in force for the calls of one cage, which only ever get narrower, and their copy in the C half.

Any thread narrows them. Whoever acts on a call by them does it under `lock`, so that whoever narrows them finds what
was let through, or that it was refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from pysandbox.compile.plan import NotifyPlan, Plan
from pysandbox.errors import UnsupportedError
from pysandbox.handlers.call import Call
from pysandbox.handlers.decide import decide
from pysandbox.handlers.network_rules import NetworkRules, both, whole
from pysandbox.handlers.rules import CallRules
from pysandbox.handlers.verdict import Verdict
from pysandbox.live.init import CageInit
from pysandbox.policy.endpoint import SYNTHETIC, Endpoint
from pysandbox.policy.model import Policy
from pysandbox.shapes import TYPE_CHECKING, replace
from pysandbox.supervise import wire
from pysandbox.supervise.marks import LAST, Mark, Marks, mark_of, set_mark

if TYPE_CHECKING:
    from pysandbox.supervise.wire import EncodedRules


class RulesInForce:
    """The rules of one cage. `replace_table` gives the C half a new copy; `recorded`: Python makes every decision and
    writes it down."""

    def __init__(
        self, live: CageInit, plan: Plan, policy: Policy, replace_table: Callable[[EncodedRules], None], *,
        deadline: float, recorded: bool,
    ) -> None:  # fmt: skip
        notify = plan.notify
        assert notify is not None
        self.actions = _actions_of(notify)
        self.lock = threading.Lock()
        self._live, self._notify, self._has_net = live, notify, plan.net is not None
        self._replace_table, self._deadline, self._recorded = replace_table, deadline, recorded
        source = "network.allow_ips" if policy.allow_ips else "network.egress"
        self._rules = CallRules(network_of(plan), source=source)
        self._marks = Marks(mark_of(live.pid) or LAST)

    @property
    def now(self) -> CallRules:
        return self._rules

    def marks_of(self, pid: int) -> frozenset[int]:
        """The marks of the lists that bind a process."""
        return self._marks.binding(pid, self._rules.by_mark)

    def decide(self, call: Call) -> Verdict:
        """By the rules as they are now, and the lists that bind the caller."""
        return decide(replace(call, marks=self.marks_of(call.pid)), self._rules)

    @property
    def watches_network(self) -> bool:
        return "CONNECT" in dict(self._notify.actions)

    def encoded(self) -> EncodedRules:
        """The rules for the C half. Lists of single processes, and recordings, are left to Python."""
        notify, actions = self._notify, dict(self.actions)
        if self._rules.by_mark or self._recorded:
            actions = {name: "ASK" if action == "LIST" else action for name, action in actions.items()}
        return wire.encode_rules(
            actions, self._rules.network, init_pid=self._live.pid, deadline=self._deadline,
            no_external_reach=notify.no_external_reach, abstract=notify.abstract,
            refuse_control=notify.refuse_control, leads_out=notify.leads_out,
            landlock_denies_bind=notify.landlock_denies_bind, on_host=notify.on_host, keeps_ports=notify.keeps_ports,
            doors=notify.doors, sockets=notify.sockets, verdicts=notify.verdicts, user=self._live.user,
            watches_paths=notify.watches_paths, moves="RENAME" in actions,
        )  # fmt: skip

    def narrow(self, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """Narrows the rules to what is in both lists; returns that. Where something is left the doors stay open: the
        gatekeeper decides where they lead."""
        doors = (SYNTHETIC,) if endpoints and self._has_net else ()
        with self.lock:
            self._rules = self._rules.narrowed((*endpoints, *doors), "policy_fn")
            self._replace_table(self.encoded())
            return self._rules.network.local

    def narrow_pids(self, pids: Sequence[int], endpoints: tuple[Endpoint, ...]) -> set[Mark]:
        """Binds processes of a stopped cage, and all they will ever start, to the list; one that is bound already, to
        what is in both lists. Returns the marks that they bear from now on. Raises UnsupportedError."""
        if not self._marks.are_told_apart:
            raise UnsupportedError(
                "no process of this cage can be told from another: its hard limits RLIMIT_LOCKS and RLIMIT_RSS are 0",
                feature="rlimit_locks", fix="start your program with a hard limit above 0 (ulimit -Hm), or use "
                "restrict_network, which holds for the whole cage",
            )  # fmt: skip
        with self.lock:
            before: dict[Mark, list[int]] = {}
            for pid in pids:
                before.setdefault(mark_of(pid) or LAST, []).append(pid)
            made = {self._bind(mark, marked, endpoints) for mark, marked in before.items()}
            self._replace_table(self.encoded())
        return made

    def _bind(self, mark: Mark, pids: Sequence[int], endpoints: tuple[Endpoint, ...]) -> Mark:
        held = self._rules.by_mark.get(self._marks.number_of(mark), self._rules.network.local)
        number, made = self._marks.inside(mark)
        self._rules = replace(self._rules, by_mark={**self._rules.by_mark, number: both(held, endpoints)})
        for pid in pids:
            set_mark(pid, made)
        return made


def network_of(plan: Plan) -> NetworkRules:
    """What calls of the cage may reach. An address of this host's is granted where a line of the policy names it."""
    assert plan.notify is not None
    own = whole(plan.net.endpoints) if plan.net is not None else ()
    return NetworkRules(plan.notify.endpoints, plan.notify.grants, plan.notify.named, own)


def _actions_of(notify: NotifyPlan) -> dict[str, str]:
    """The plan's actions. Without a list of executables an exec that is allowed is not reported."""
    actions = dict(notify.actions)
    if actions.get("EXEC") == "TELL" and notify.programs is None:
        actions["EXEC"] = "PASS"
    return actions
