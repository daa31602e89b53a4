"""What a Cage was told about run-time decisions: the callback, what it watches, and how long it may take.

The supervisor itself is imported only for a plan that needs one, so that a cage without run-time rules pays nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

from pysandbox.errors import PolicyError, StartError
from pysandbox.shapes import IO, TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from pysandbox.live.init import CageInit
    from pysandbox.live.services import CageService
    from pysandbox.runtime.prepared import Prepared
    from pysandbox.runtime.runtime import Runtime
    from pysandbox.supervise.policy_fn import PolicyFn
    from pysandbox.supervise.supervisor import Supervisor

CATEGORIES = ("exec", "network", "file")
WATCHED = ("exec", "network")  # unless asked otherwise: files cost nothing until somebody wants to hear of them
DEADLINE, LONGEST_DEADLINE = 5.0, 86_400.0  # seconds


class CallbackOptions(NamedTuple):
    """Checked arguments of Cage."""

    policy_fn: PolicyFn | None
    watch: frozenset[str]
    deadline: float
    record: IO[str] | None
    loop: AbstractEventLoop | None  # in which the Cage was made, for an async policy_fn

    @classmethod
    def of(
        cls,
        policy_fn: PolicyFn | None,
        watch: Sequence[str] | None,
        deadline: float,
        record: IO[str] | None,
        caged: bool,
    ) -> CallbackOptions:
        """Raises TypeError, ValueError, PolicyError."""
        if policy_fn is not None and not callable(policy_fn):
            raise TypeError(f"policy_fn must be a function of (event, ctx), not {type(policy_fn).__name__}")
        if isinstance(watch, str):
            raise TypeError(f"watch must be a list such as [{watch!r}], not one string")
        asked = watch if watch is not None else WATCHED if policy_fn is not None or record is not None else ()
        for name in asked:
            if name not in CATEGORIES:
                raise ValueError(f"watch: {name!r} is not one of {', '.join(CATEGORIES)}")
        if not 0 < deadline <= LONGEST_DEADLINE:
            raise ValueError(f"deadline must be more than 0 and at most {LONGEST_DEADLINE:g} s: {deadline!r}")
        if asked and not caged:
            raise PolicyError("an uncaged command has nobody to ask", key="caged",
                              suggestion="leave policy_fn, watch and record out, or caged")  # fmt: skip
        loop = _running_loop() if policy_fn is not None else None
        return cls(policy_fn, frozenset(asked), float(deadline), record, loop)

    def require_answer(self, *, blocking: bool) -> None:
        """Before a call that holds this thread up: an async callback whose loop is this thread's would never answer,
        and everything be refused after `deadline`. Raises RuntimeError."""
        if self.loop is None or not (blocking or "exec" in self.watch) or self.loop is not _running_loop():
            return
        import inspect

        called = getattr(self.policy_fn, "__call__", None)  # noqa: B004 - of an object that is called
        if inspect.iscoroutinefunction(self.policy_fn) or inspect.iscoroutinefunction(called):
            raise RuntimeError("policy_fn is async and runs in the event loop of this thread, which this call holds "
                               "up: use AsyncCage and await it, or make policy_fn a plain function")  # fmt: skip

    def supervise(self, runtime: Runtime, live: CageInit, prepared: Prepared) -> None:
        """Starts deciding the calls of a cage that has not run anything yet. Raises StartError; the cage ends then."""
        from pysandbox.supervise.renames import Renames, only_moves
        from pysandbox.supervise.supervisor import join_supervisor

        def join(supervisor: Supervisor) -> CageService:
            if only_moves(prepared.plan) and self.policy_fn is None and self.record is None:
                return Renames(supervisor, live, prepared.plan, self.deadline)
            return self._supervision(supervisor, runtime, live, prepared)

        try:
            live.services.add(join_supervisor(runtime, join))
        except OSError as error:
            runtime.collect(live)
            raise StartError(
                "listener", error.errno or 0, None, "the supervisor could not take the cage over"
            ) from error

    def _supervision(self, supervisor: Supervisor, runtime: Runtime, live: CageInit, prepared: Prepared) -> CageService:
        from pysandbox.supervise.policy_fn import Caller
        from pysandbox.supervise.record import VerdictWriter
        from pysandbox.supervise.supervision import Supervision

        return Supervision(
            supervisor, live, prepared.plan, prepared.policy,
            caller=Caller(self.policy_fn, self.loop) if self.policy_fn is not None else None,
            deadline=self.deadline, recorder=VerdictWriter(self.record) if self.record is not None else None,
            restrict_memory=partial(runtime.restrict_memory, live, prepared.plan),
        )  # fmt: skip


NOBODY_ASKED = CallbackOptions(None, frozenset(), DEADLINE, None, None)


def _running_loop() -> AbstractEventLoop | None:
    """The loop of the caller, without importing asyncio for those who have none."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio.get_running_loop() if asyncio is not None else None
    except RuntimeError:
        return None
