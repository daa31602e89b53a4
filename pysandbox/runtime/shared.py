"""What serves all the cages of a Runtime: made at the first cage that needs it, again when it has retired or died."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pysandbox.shapes import Protocol, TypeVar


class SharedService(Protocol):
    """The supervisor and the gatekeeper are such. Any thread may call any method."""

    @property
    def retired(self) -> bool:
        """Whether it serves nobody any more."""

    def retire(self) -> bool:
        """Ends it unless a cage needs it still; whether it has ended."""

    def after_fork_in_child(self) -> None:
        """This is a forked copy of the host: whatever it serves is the original's."""


S = TypeVar("S", bound=SharedService)
R = TypeVar("R")


class SharedServices:
    """At most one of each class."""

    def __init__(self) -> None:
        self._services: dict[type[SharedService], SharedService] = {}
        self._making = threading.Lock()

    def join(self, kind: type[S], make: Callable[[], S], join: Callable[[S], R]) -> R:
        """What `join` returns, which enters a cage into the one that serves; that is made where there is none. It does
        not retire meanwhile, as one without a cage may at any other moment. Raises what both do."""
        with self._making:
            return join(self._serving(kind, make))

    def _serving(self, kind: type[S], make: Callable[[], S]) -> S:
        found = self.find(kind)
        if found is None or found.retired:
            found = self._services[kind] = make()
        return found

    def find(self, kind: type[S]) -> S | None:
        """The one that was made last; None where there is none, or `retire` has ended it."""
        found = self._services.get(kind)
        return found if isinstance(found, kind) else None

    def retire(self) -> None:
        """Ends those that no cage needs. One of them may serve another: each end is a reason to ask the rest again."""
        with self._making:
            asked = -1
            while len(self._services) != asked:
                asked = len(self._services)
                self._services = {kind: each for kind, each in self._services.items() if not each.retire()}

    def after_fork_in_child(self) -> None:
        self._making = threading.Lock()  # another thread may have held it at the fork
        for each in self._services.values():
            each.after_fork_in_child()
        self._services = {}
