"""Windows as a model: which there are, whose, in which order, which has the focus. Nothing is drawn here; an observer
is told of each change and may draw it."""

from __future__ import annotations

import errno
from collections.abc import Callable

from pysandbox.apps.kernel.owned import OwnedHandles
from pysandbox.shapes import NamedTuple, cast

KIND = "window"
SIDES = ("left", "right", "top", "bottom", "full", "none")
LONGEST_TITLE = 256


class WindowChange(NamedTuple):
    """`what` is create, focus, raise, snap or close."""

    what: str
    owner: str
    title: str
    side: str


Observer = Callable[[WindowChange], None]


class Window:
    def __init__(self, owner: str, title: str, windows: WindowWrappers) -> None:
        self.owner, self.title, self.side = owner, title, "none"
        self._windows = windows

    def close(self) -> None:
        self._windows.remove(self)


class WindowWrappers:
    def __init__(self, owned: OwnedHandles, observer: Observer | None = None) -> None:
        self._owned, self._observer = owned, observer
        self.order: list[Window] = []  # the highest one last
        self.focused: Window | None = None

    def create(self, owner: str, title: object) -> int:
        if not isinstance(title, str) or len(title) > LONGEST_TITLE or not title.isprintable():
            raise OSError(errno.EINVAL, f"a title is a printable text of at most {LONGEST_TITLE} characters")
        window = Window(owner, title, self)
        self.order.append(window)
        self._tell("create", window)
        return self._owned.issue(owner, KIND, window)

    def focus(self, owner: str, handle: int) -> None:
        self.focused = self._window(owner, handle)
        self._tell("focus", self.focused)

    def raise_(self, owner: str, handle: int) -> None:
        window = self._window(owner, handle)
        self.order.remove(window)
        self.order.append(window)
        self._tell("raise", window)

    def snap(self, owner: str, handle: int, side: object) -> None:
        window = self._window(owner, handle)
        if side not in SIDES:
            raise OSError(errno.EINVAL, f"a window is snapped to {', '.join(SIDES)}")
        window.side = str(side)
        self._tell("snap", window)

    def close(self, owner: str, handle: int) -> None:
        self._owned.close(owner, handle, KIND)

    def remove(self, window: Window) -> None:
        self.order.remove(window)
        if self.focused is window:
            self.focused = None
        self._tell("close", window)

    def _window(self, owner: str, handle: int) -> Window:
        return cast(Window, self._owned.find(owner, handle, KIND))

    def _tell(self, what: str, window: Window) -> None:
        if self._observer is not None:
            self._observer(WindowChange(what, window.owner, window.title, window.side))
