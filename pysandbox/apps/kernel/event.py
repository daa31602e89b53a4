"""Events: what an app emits to a domain goes to whoever listens on the host, and is kept nowhere."""

from __future__ import annotations

from collections.abc import Callable

from pysandbox.shapes import NamedTuple


class Emitted(NamedTuple):
    owner: str
    domain: str
    value: int | str | bytes


Listener = Callable[[Emitted], None]


class EventWrappers:
    def __init__(self, listener: Listener | None = None) -> None:
        self._listener = listener

    def emit(self, owner: str, domain: str, value: int | str | bytes) -> None:
        if self._listener is not None:
            self._listener(Emitted(owner, domain, value))
