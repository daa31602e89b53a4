"""All that serves one cage, asked as one (live/services.py says what each is). Cheap to import: every cage has one."""

from __future__ import annotations

from operator import attrgetter

TYPE_CHECKING = False  # as typing's own: the command line starts without it
if TYPE_CHECKING:
    from collections.abc import Iterator

    from pysandbox.denial import Denial
    from pysandbox.errors import StartError
    from pysandbox.live.services import CageService, S
    from pysandbox.policy.endpoint import Endpoint

COVERS = attrgetter("covers")  # asked before every command


class CageServices:
    """None for most cages. Each method asks every one of them, in the order in which they were added."""

    def __init__(self) -> None:
        self._all: tuple[CageService, ...] = ()
        self._covers: tuple[CageService, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._all)

    def __iter__(self) -> Iterator[CageService]:
        return iter(self._all)

    def add(self, service: CageService) -> None:
        """From now on it belongs to the cage. Before its first command."""
        self._all = (*self._all, service)

    def add_cover(self, service: CageService) -> None:
        """Asked whether it covers; of what commands do it hears nothing, unless it was added as well. It ends with the
        cage."""
        self._covers = (*self._covers, service)

    def find(self, kind: type[S]) -> S | None:
        """The one that is of this class."""
        return next((each for each in self._all if isinstance(each, kind)), None)

    @property
    def cover(self) -> bool:
        """Whether nothing that was covered in the cage shows. Raises StartError."""
        return all(map(COVERS, self._covers))

    @property
    def uncovered(self) -> str:
        """A path that shows, where one has a name; "" else."""
        return next((each.uncovered for each in self._covers if each.uncovered), "")

    def denials(self) -> tuple[Denial, ...]:
        return tuple(denial for each in self._all for denial in each.denials())

    def counts(self) -> dict[str, int]:
        return {name: count for each in self._all for name, count in each.counts().items()}

    def explain(self, error: StartError, argv: tuple[str, ...], began: float) -> None:
        for each in self._all:
            each.explain(error, argv, began)

    def tighten(self, endpoints: tuple[Endpoint, ...]) -> int:
        return sum(each.tighten(endpoints) for each in self._all)

    def grant_address(self, synthetic: bytes, real: bytes, first_port: int, last_port: int, seconds: float) -> None:
        for each in self._all:
            each.grant_address(synthetic, real, first_port, last_port, seconds)

    def open_door(self, address: bytes, port: int, sink: int) -> bool:
        """Whether one of them has opened it."""
        return any(each.open_door(address, port, sink) for each in self._all)

    def carry_datagrams(self, host: str, port: int) -> bool:
        """Whether one of them does."""
        return any(each.carry_datagrams(host, port) for each in self._all)

    def command_ended(self, *, well: bool) -> None:
        for each in self._all:
            each.command_ended(well=well)

    def let_go(self) -> None:
        for each in self._covers:
            each.let_go()

    def end(self) -> None:
        """Ends all of them, whatever goes wrong with one."""
        ended = self._each
        if len(ended) > 1:
            from contextlib import ExitStack

            with ExitStack() as ending:
                for each in reversed(ended):
                    ending.callback(each.end)
        elif ended:
            ended[0].end()

    @property
    def _each(self) -> tuple[CageService, ...]:
        return tuple(dict.fromkeys((*self._all, *self._covers)))

    def after_fork_in_child(self) -> None:
        for each in self._each:
            each.after_fork_in_child()
