"""What a Cage was told about run-time decisions: the callback, what it watches, and how long it may take.

The supervisor itself is imported only for a plan that needs one, so that a cage without run-time rules pays nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from pysandbox.errors import PolicyError, StartError

if TYPE_CHECKING:
    from pysandbox.launch.live import LiveInit
    from pysandbox.launch.runtime import Prepared, Runtime
    from pysandbox.supervise.policy_fn import PolicyFn

CATEGORIES = ("exec", "network", "file")
WATCHED = ("exec", "network")  # unless asked otherwise: files cost nothing until somebody wants to hear of them
LONGEST_DEADLINE = 86_400.0  # seconds


class Decide(NamedTuple):
    """Checked arguments of Cage."""

    policy_fn: PolicyFn | None
    watch: frozenset[str]
    deadline: float
    record: IO[str] | None
    loop: Any  # the event loop in which the Cage was made, None when there was none

    @classmethod
    def of(
        cls,
        policy_fn: PolicyFn | None,
        watch: Sequence[str] | None,
        deadline: float,
        record: IO[str] | None,
        caged: bool,
    ) -> Decide:
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
        return cls(policy_fn, frozenset(asked), float(deadline), record, _running_loop())

    def supervise(self, runtime: Runtime, live: LiveInit, prepared: Prepared) -> None:
        """Starts deciding the calls of a cage that has not run anything yet. Raises StartError; the cage ends then."""
        from pysandbox.supervise.policy_fn import Caller
        from pysandbox.supervise.record import Recorder
        from pysandbox.supervise.supervision import Supervision
        from pysandbox.supervise.supervisor import supervisor_of

        try:
            live.supervision = Supervision(
                supervisor_of(runtime), live, prepared.plan, prepared.policy,
                caller=Caller(self.policy_fn, self.loop) if self.policy_fn is not None else None,
                deadline=self.deadline, recorder=Recorder(self.record) if self.record is not None else None,
                restrict_memory=partial(runtime.restrict_memory, live, prepared.plan),
            )  # fmt: skip
        except OSError as error:
            runtime.collect(live)
            raise StartError(
                "listener", error.errno or 0, None, "the supervisor could not take the cage over"
            ) from error


def _running_loop() -> Any:
    """The loop of the caller, without importing asyncio for those who have none."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio.get_running_loop() if asyncio is not None else None
    except RuntimeError:
        return None
