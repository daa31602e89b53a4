"""The placeholders of one cage: there before it is made, removed when it is gone."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from pysandbox.launch.placeholder import Placeholder
from pysandbox.live.services import CageService


class Placeholders(CageService):
    """Holds each of the absolute `paths`. Raises StartError; then it holds none."""

    def __init__(self, paths: Iterable[str]) -> None:
        with ExitStack() as undo:
            self._held: list[Placeholder] = []
            for path in paths:
                self._held.append(Placeholder.hold(path))
                undo.callback(self._held[-1].release)
            undo.pop_all()

    @property
    def leaves_files(self) -> bool:
        return True

    @property
    def is_awaited(self) -> bool:
        return True  # the names are the user's again when the command is over

    @property
    def covers(self) -> bool:
        """What is removed under its name is uncovered in the cage."""
        return all(each.is_there() for each in self._held)

    def end(self) -> None:
        for each in self._held:
            each.release()

    def after_fork_in_child(self) -> None:
        for each in self._held:
            each.abandon()
