"""The commands of a pipeline as a list in which each stands before the one that reads its output. Pure data."""

from __future__ import annotations

from pysandbox.shapes import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from pysandbox.command import Command, TextCoding
    from pysandbox.launch.stdio import File
    from pysandbox.live.init import CageInit
    from pysandbox.process import Process


class Reserved(Protocol):
    """What is to run a command that has not started (`pysandbox.open_cage.ReservedCage`)."""

    @property
    def command(self) -> Command: ...
    @property
    def live(self) -> CageInit: ...
    def give_back(self) -> None: ...


ReservedByIt = TypeVar("ReservedByIt", bound=Reserved)


class StartsCommands(Protocol[ReservedByIt]):
    """What a stage needs of its cage (`pysandbox.cage.Cage`), which starts what it has reserved itself."""

    def reserve(self, command: Command) -> ReservedByIt: ...
    def start(
        self, command: Command, files: tuple[File, File, File], *, pass_fds: Sequence[int] = (),
        coding: TextCoding | None = None, quiet: bool = False, reserved: ReservedByIt | None = None,
    ) -> Process[Any]: ...  # fmt: skip
    def require_answer(self) -> None: ...
    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None: ...


class Placed(NamedTuple):
    """A command and where its output goes: to the one at `feeds`, as its standard input or, with `name`, as the
    descriptor whose number that variable has there; None: to the caller."""

    cage: StartsCommands[Any]
    command: Command
    feeds: int | None = None
    name: str | None = None


class Streams(NamedTuple):
    """The ends of a pipeline: what its first command reads, what its last one writes, where errors of all go."""

    stdin: File
    stdout: File
    stderr: File
    coding: TextCoding | None
