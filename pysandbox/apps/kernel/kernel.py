"""Kernel: what the apps of one host share, and the one way into it. Only `apps.dispatch` calls a wrapper.

with Kernel(workspace="/home/me/notes", on_event=print) as kernel: ...
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence

from pysandbox.apps.handles import SideTable
from pysandbox.apps.kernel.chan import QUEUE_BYTES, ChannelWrappers
from pysandbox.apps.kernel.event import EventWrappers, Listener
from pysandbox.apps.kernel.fs import WRITTEN, FileWrappers
from pysandbox.apps.kernel.owned import OwnedHandles
from pysandbox.apps.kernel.tree import WorkspaceTree
from pysandbox.apps.kernel.win import Observer, WindowWrappers
from pysandbox.probe.kept import own_directories
from pysandbox.probe.state import apps_directory
from pysandbox.shapes import Any, Self


class Kernel:
    """Thread-safe. Without a `workspace` every opcode of files fails with ENODEV; `on_event` and `on_window` are told
    of what apps emit and of what becomes of their windows. `key` makes the numbers of handles repeatable."""

    def __init__(
        self,
        workspace: str | os.PathLike[str] | None = None,
        *,
        on_event: Listener | None = None,
        on_window: Observer | None = None,
        queue_bytes: int = QUEUE_BYTES,
        written_bytes: int = WRITTEN,
        key: bytes | None = None,
    ) -> None:
        self.workspace = os.path.abspath(workspace) if workspace is not None else None
        self.table = SideTable()
        self._owned = OwnedHandles(key)
        self._running: set[str] = set()
        self._tree = WorkspaceTree(workspace) if workspace is not None else None
        try:
            self.keep_out(own_directories(), apps_directory())
        except BaseException:
            self.close()
            raise
        self._files = FileWrappers(self._owned, self._tree, written_bytes)
        self.windows = WindowWrappers(self._owned, on_window)
        self._rooms: dict[str, object] = {
            "fs": self._files,
            "chan": ChannelWrappers(self._owned, queue_bytes),
            "win": self.windows,
            "event": EventWrappers(on_event),
        }
        self._wrappers: dict[str, Callable[..., Any]] = {}
        self._lock = threading.RLock()

    def keep_out(self, directories: Iterable[str], store: str) -> None:
        """No app's path leads into these. Raises PolicyError where the workspace is in one, but for the files of an app
        in `store`."""
        if self._tree is not None:
            self._tree.keep_out(map(os.path.realpath, directories), os.path.realpath(store))

    def begin(self, owner: str) -> None:
        """One run at a time: its handles are the app's. Raises ValueError."""
        with self._lock:
            if owner in self._running:
                raise ValueError(f"{owner} runs in this kernel already: wait for it, or give it a kernel of its own")
            self._running.add(owner)
            self._files.begin(owner)

    def end(self, owner: str) -> None:
        """Closes all that the app still holds. Idempotent."""
        with self._lock:
            self._running.discard(owner)
            self._owned.close_all(owner)
            self.table.forget(owner)

    def call(self, name: str, owner: str, args: Sequence[Any]) -> Any:
        """A value, a new handle or None. Raises OSError, WrapperDenied."""
        wrapper = self._wrappers.get(name) or self._find(name)
        with self._lock:
            return wrapper(owner, *args)

    def _find(self, name: str) -> Callable[..., Any]:
        room, _, method = name.partition(".")
        found: Callable[..., Any] = getattr(self._rooms[room], method)
        self._wrappers[name] = found
        return found

    def close(self) -> None:
        for owner in list(self._running):
            self.end(owner)
        if self._tree is not None:
            self._tree.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
