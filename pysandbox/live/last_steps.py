"""What is done when cage-init is gone: all of it, once, whatever is raised meanwhile."""

from __future__ import annotations

from _thread import RLock  # threading's, without its imports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class LastSteps:
    """The steps of one end. A service may raise, and Ctrl-C comes at any time: the steps behind it are done all the
    same. Without the lock of the cage, as one may take seconds and calls the user, who may ask the cage something."""

    def __init__(self) -> None:
        self._ending = RLock()  # other threads wait for the end
        self._is_ending = False
        self._left: list[Callable[[], object]] = []  # the last first

    def __bool__(self) -> bool:
        return bool(self._left)

    def plan(self, *steps: Callable[[], object]) -> None:
        self._left = list(reversed(steps))

    def take(self, collect: Callable[[], bool]) -> bool:
        """All that `collect` has planned, where it says that cage-init is gone; whether it is. A thread that is in the
        middle of them, called by what it ends, has nothing to wait for. What an exception leaves undone is taken by the
        next call."""
        with self._ending:
            if self._is_ending:
                return True
            if not collect():
                return False
            self._is_ending = True
            try:
                self._finish()
            finally:
                self._is_ending = False
        return True

    def _finish(self) -> None:
        while self._left:
            try:
                self._left[-1]()
            finally:
                del self._left[-1]
                self._finish()


def remove_scratch(path: str) -> None:
    from pysandbox.launch.removal import remove_tree

    remove_tree(path)
