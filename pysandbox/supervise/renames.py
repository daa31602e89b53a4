"""The part of the supervisor in a cage of which nothing but renames of directories is decided (`moving`): what most
copy-on-write cages have, and never call on.

It is made at the start of each, so it holds no more than a call needs: no lists, no callback, no ledger, since nothing
is refused. The C half has no thread for such a cage before its first call (csrc/host/notify/asleep.c).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from errno import EPERM

from pysandbox.compile.plan import Plan
from pysandbox.handlers.call import Call
from pysandbox.handlers.network_rules import NetworkRules
from pysandbox.live.init import CageInit
from pysandbox.live.services import CageService
from pysandbox.shapes import TYPE_CHECKING
from pysandbox.supervise import wire
from pysandbox.supervise.turns import BoundedTasks

if TYPE_CHECKING:
    from pysandbox.supervise.supervisor import Supervisor

MOVES_AT_ONCE = 16  # of one cage; further ones wait, or for their deadline
ONLY = (("RENAME", "TELL"),)
NOWHERE = NetworkRules()


def only_moves(plan: Plan) -> bool:
    """Whether nothing else of a cage of this plan is decided at run time."""
    return plan.notify is not None and plan.notify.actions == ONLY and not plan.notify.watches_paths


class Renames(CageService):
    """Made when a cage is open, before its first command; `end` is called when it is gone."""

    def __init__(self, supervisor: Supervisor, live: CageInit, plan: Plan, deadline: float) -> None:
        """Raises OSError."""
        self.live = live
        self._plan, self._supervisor = plan, supervisor
        self._turns: BoundedTasks | None = None
        self._left: set[tuple[int, int]] = set()
        self._number = supervisor.add(live, self, _encoded(live, plan, deadline))

    def handle(self, told: wire.ReportedCall, step_back: Callable[[], None]) -> None:
        """Answers one call. `step_back` lets another thread wait for the next one before this one may take long."""
        if self._turns is None:
            self._turns = BoundedTasks(MOVES_AT_ONCE, self._supervisor.complain)
        call, pending, args = wire.call_of(told), int(told.pending), list(told.args)
        task = functools.partial(
            answer_rename, self._supervisor.notifier, pending, call, args, self._plan, self.live.user, self._left
        )
        self._turns.run(task, step_back)

    def end(self) -> None:
        number, self._number = self._number, 0
        if number:
            self._supervisor.remove(number)


def answer_rename(
    notifier: wire.Notifier, pending: int, call: Call, args: list[int], plan: Plan, user: int,
    left: set[tuple[int, int]],
) -> None:  # fmt: skip
    """Does the rename of a directory that an overlay would refuse (EXDEV); the kernel goes on with any other. `left`:
    directories of this cage that could not be moved."""
    from pysandbox.supervise.moving import NotMoved, move

    kind, number = "PASS", 0
    try:
        move(call, args, plan, user, wire.WaitingCaller(notifier, pending), left)
        kind = "RETURN"
    except NotMoved:
        pass
    except OSError as error:
        kind, number = "ERRNO", error.errno or EPERM
    finally:
        wire.answer(notifier, pending, kind, number)


def _encoded(live: CageInit, plan: Plan, deadline: float) -> wire.EncodedRules:
    notify = plan.notify
    assert notify is not None
    return _of_any(notify.no_external_reach, notify.abstract, deadline).of_cage(live.pid, live.user)


@functools.lru_cache(maxsize=32)
def _of_any(no_external_reach: bool, abstract: bool, deadline: float) -> wire.EncodedRules:
    return wire.encode_rules(
        dict(ONLY), NOWHERE, init_pid=0, deadline=deadline, no_external_reach=no_external_reach, abstract=abstract,
        refuse_control=False, moves=True,
    )  # fmt: skip
