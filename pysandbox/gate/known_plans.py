"""The plans that the inspector knows, each for as long as somebody may need it.

A plan is needed from when a cage of it is on its way (`expect`) until the last cage that was given its file is gone
(`PlanHold`), one that waits in a pool included. What nobody needs is forgotten, but for the most recently used: one run
of a policy after the other has the same authority, and a host that makes a policy for each conversation does not grow.

No number is used twice, and so no file: a cage that was given one is never served by the authority of another plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from errno import ESHUTDOWN

from pysandbox.errors import StartError
from pysandbox.gate.trusted import KnownPlan, TrustFiles, plan_of
from pysandbox.live.services import CageService
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from pysandbox.compile.plan import NetPlan

KEPT = 16  # of those that nobody needs, the most recently used


class KnownPlans:
    """Belongs to an inspector, and is used under its lock."""

    def __init__(self) -> None:
        self.files = TrustFiles()
        self._plans: dict[object, KnownPlan] = {}  # by what it is made of; the least recently used first
        self._expected: dict[object, int] = {}  # cages on their way

    def __iter__(self) -> Iterator[KnownPlan]:
        return iter(self._plans.values())

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def is_expecting(self) -> bool:
        return bool(self._expected)

    def expect(self, net: NetPlan, cages: int) -> None:
        """So many more, or fewer, cages of it are on their way."""
        key = _key(net)
        expected = self._expected.pop(key, 0) + cages
        if expected:
            self._expected[key] = expected

    def find(self, net: NetPlan) -> KnownPlan | None:
        return self._plans.get(_key(net))

    def use(self, net: NetPlan, number: Callable[[], int]) -> KnownPlan:
        """The plan, which is the most recently used from now on; a new one has a new number. Raises OSError."""
        key = _key(net)
        known = self._plans.get(key) or plan_of(net, number())
        self._use(key, known)
        return known

    def _use(self, key: object, known: KnownPlan) -> None:
        self._plans.pop(key, None)
        self._plans[key] = known

    def hold(self, path: str) -> KnownPlan | None:
        """Counts one more cage that was given this file; None where the plan is forgotten."""
        known = next((each for each in self if each.file == path), None)
        if known is not None:
            known.cages += 1
        return known

    def let_go(self, known: KnownPlan) -> None:
        """One of these cages is gone."""
        known.cages -= 1
        key = next((key for key, each in self._plans.items() if each is known), None)
        if key is not None:
            self._use(key, known)

    def forget_unneeded(self, taught: int) -> list[KnownPlan]:
        """Forgets what nobody needs, beyond KEPT, and removes its file; returns what the inspector has to forget. One
        whose authority the inspector still has to tell is left for later."""
        if len(self._plans) <= KEPT:
            return []
        unneeded = [key for key, each in self._plans.items() if not each.cages and key not in self._expected]
        forgotten = []
        for key in unneeded[:-KEPT]:
            known = self._plans[key]
            if known.path or known.taught != taught:
                del self._plans[key]
                self.files.drop(known.file)
                forgotten.append(known)
        return [each for each in forgotten if each.taught == taught]

    def forget_all(self) -> None:
        self._plans = {}
        self.files.remove()


class PlanHold(CageService):
    """What a cage has that is given the file: the plan is needed until the cage is gone. `forget` is called then, under
    the lock."""

    def __init__(
        self, plans: KnownPlans, path: str, lock: AbstractContextManager[object], forget: Callable[[], object]
    ) -> None:
        """Raises StartError where the plan is forgotten."""
        self._plans, self._lock, self._forget = plans, lock, forget
        with lock:
            self._known = plans.hold(path)
        if self._known is None:
            raise StartError("network", ESHUTDOWN, path, "what looks into the TLS of its hosts has forgotten its plan")

    def end(self) -> None:
        """Idempotent."""
        with self._lock:
            known, self._known = self._known, None
            if known is not None:
                self._plans.let_go(known)
                self._forget()


def _key(net: NetPlan) -> object:
    """All that the inspector is told of it."""
    return net.hosts, net.inspection
