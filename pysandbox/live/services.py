"""What serves one cage while it lives: the seam at which a cage gets more than processes.

A CageService is made for a cage that waits for its first command, and added to `CageInit.services`. From then on the
cage calls it and knows no more of it than this. The supervisor decides calls (supervise/), the gatekeeper serves doors
and the routed back end keeps an interface (gate/). Whatever else is to begin and end with a cage, or is to be asked
what it has refused, is one more of these.
"""

from __future__ import annotations

from collections.abc import Mapping

from pysandbox.shapes import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from pysandbox.denial import Denial
    from pysandbox.errors import StartError
    from pysandbox.policy.endpoint import Endpoint


class CageService(Protocol):
    """To be derived from; what a service has no part in, it leaves as it is here. Any thread may call any method."""

    @property
    def decides_network(self) -> bool:
        """Whether `tighten` has an effect."""
        return False

    @property
    def leaves_files(self) -> bool:
        """Whether something stays on the host when this process ends without a call of `end`."""
        return False

    @property
    def is_awaited(self) -> bool:
        """Whether whoever ends the cage waits for `end`; otherwise a thread may do that later."""
        return False

    @property
    def covers(self) -> bool:
        """Whether what it keeps covered in the cage still is. Asked of what was added by `add_cover`. Raises
        StartError."""
        return True

    @property
    def uncovered(self) -> str:
        """What of that is not any more, if it can be said."""
        return ""

    def denials(self) -> tuple[Denial, ...]:
        """Everything it has refused so far."""
        return ()

    def counts(self) -> Mapping[str, int]:
        """What it has let through and refused, by type of event."""
        return {}

    def explain(self, error: StartError, argv: tuple[str, ...], began: float) -> None:
        """Says in the error of a command, which never ran, that this service has refused it."""
        return

    def tighten(self, endpoints: tuple[Endpoint, ...]) -> int:
        """Only these addresses from now on, out of what was allowed; how many connections of its own it has cut. When
        it returns, it lets nothing else through any more."""
        return 0

    def grant_address(self, synthetic: bytes, real: bytes, first_port: int, last_port: int, seconds: float) -> None:
        """For so long, an address of the cage that stands for a name leads to the real one. Raises OSError."""
        return

    def open_door(self, address: bytes, port: int, sink: int) -> bool:
        """Whether, in a cage without a network namespace, a TCP connect to this address (sixteen bytes) is handed over
        through `sink` from now on; a duplicate is kept. Raises OSError."""
        return False

    def carry_datagrams(self, host: str, port: int) -> bool:
        """Whether somebody listens at that address in the cage's network, when this returns, who passes on what is sent
        there. Raises OSError, StartError, CageClosedError, RuntimeError."""
        return False

    def command_ended(self, *, well: bool) -> None:
        """A command of the cage is over, by itself: not because its session was closed."""
        return

    def let_go(self) -> None:
        """Nobody asks whether it covers for now, and the cage may end: what keeps a part of it alive lets go, until it
        is asked again. Told to what was added by `add_cover`."""
        return

    def end(self) -> None:
        """The cage is gone."""
        return

    def after_fork_in_child(self) -> None:
        """This is a forked copy of the host: the cage is the original's, and so is all that serves it."""
        return


S = TypeVar("S", bound=CageService)
