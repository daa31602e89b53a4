"""What the kernel's own side knows of each handle: its owner, kind and object. The second of the two checks of a handle
(APP-10): a wrapper asks here, whatever the runtime has found before."""

from __future__ import annotations

from pysandbox.apps.denials import KIND, OWNER
from pysandbox.apps.handles import Numbers
from pysandbox.shapes import NamedTuple, Protocol


class WrapperDenied(Exception):
    """A wrapper refuses what the runtime let pass; `reason` is one of the four."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Resource(Protocol):
    def close(self) -> None: ...


class _HeldResource(NamedTuple):
    kind: str
    resource: Resource


class OwnedHandles:
    def __init__(self, key: bytes | None = None) -> None:
        self._numbers = Numbers(key)
        self._held: dict[tuple[str, int], _HeldResource] = {}

    def issue(self, owner: str, kind: str, resource: Resource) -> int:
        number = self._numbers.next()
        self._held[owner, number] = _HeldResource(kind, resource)
        return number

    def find(self, owner: str, number: object, kind: str) -> Resource:
        """Raises WrapperDenied."""
        held = self._held.get((owner, number)) if type(number) is int else None
        if held is None:
            raise WrapperDenied(OWNER)
        if held.kind != kind:
            raise WrapperDenied(KIND)
        return held.resource

    def close(self, owner: str, number: int, kind: str) -> None:
        self.find(owner, number, kind).close()
        del self._held[owner, number]

    def close_all(self, owner: str) -> None:
        for key in [key for key in self._held if key[0] == owner]:
            self._held.pop(key).resource.close()
