"""What a cage writes where this very program imports from is not imported in the place of another module.

Python looks for a module first where the program's script lies. Where a cage may write there, the next module that is
not loaded yet (of the standard library, for us or for whoever imported us) could be one that the cage has put there a
moment ago, and would run outside. So from the first such cage on, a file that is newer than that cage is passed over
for the module of that name which there is elsewhere. A name that is nowhere else is not there for this package, nor for
what is installed and says it in an import statement: these ask for what may be missing (`nt`, `brotli`). For others it
is imported as ever: what the program asks a cage to write is its own affair.
"""

from __future__ import annotations

import os
import sys
import time
from _frozen_importlib_external import PathFinder  # importlib.machinery's, which a finder cannot import
from _imp import is_frozen
from collections.abc import Sequence

from pysandbox.policy.below import covers
from pysandbox.probe.guards import real_place
from pysandbox.shapes import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import FrameType

COARSE = 5  # CLOCK_REALTIME_COARSE, the clock that files are stamped by
OURS = __name__.partition(".")[0]
INSTALLED = ("/site-packages/", "/dist-packages/")
MACHINERY = ("importlib", "_frozen_importlib", "_frozen_importlib_external")  # between who imports and a finder


def keep_imports_apart(written: Sequence[str]) -> None:
    """`written`: the directories (real paths) that a cage may write as soon as this returns."""
    if not written:
        return
    places = [real for _, real in _places()]
    wanted = [tree for tree in written if any(covers(tree, real) for real in places)]
    if not wanted:
        return
    known = [finder for finder in sys.meta_path if isinstance(finder, _Apart)]
    finder = known[0] if known else _Apart()
    for tree in wanted:
        finder.since.setdefault(tree, time.clock_gettime_ns(COARSE))
    if not known:
        sys.meta_path.insert(0, finder)


def _places() -> list[tuple[str, str]]:
    """Each directory that is imported from, and where it really lies."""
    return [(place, real_place(place)) for place in sys.path if isinstance(place, str)]


class _Apart:
    """A finder in front of all others (importlib.abc.MetaPathFinder)."""

    def __init__(self) -> None:
        self.since: dict[str, int] = {}  # tree to the time of its first cage, in ns

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        if path is not None or name in sys.builtin_module_names or is_frozen(name):
            return None  # of a package that was found already, or in no directory
        places = [(place, self._written_since(real)) for place, real in _places()]
        times = [since for _, since in places if since is not None]
        found = PathFinder.find_spec(name, [place for place, since in places if since is not None]) if times else None
        if found is None or not _is_newer(found, min(times)):
            return None
        elsewhere = PathFinder.find_spec(name, [place for place, since in places if since is None])
        if elsewhere is None and _may_be_missing(name):
            where = found.origin or name
            raise ModuleNotFoundError(f"{where!r} is not imported: a cage could have written it", name=name)
        return elsewhere

    def _written_since(self, real: str) -> int | None:
        times = [since for tree, since in self.since.items() if covers(tree, real)]
        return min(times) if times else None


def _may_be_missing(name: str) -> bool:
    """Whether whoever imports this now can do without it: a module of this package, or an import statement of one that
    is installed. What is imported by a name in a variable (a plugin, a test) is the program's choice."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _top_name(frame) in MACHINERY:
        frame = frame.f_back
    if frame is None or _top_name(frame) == OURS:
        return frame is not None
    is_installed = _top_name(frame) in sys.stdlib_module_names or any(
        place in frame.f_code.co_filename for place in INSTALLED
    )
    return is_installed and any(each.partition(".")[0] == name for each in frame.f_code.co_names)


def _top_name(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _is_newer(found: ModuleSpec, since: int) -> bool:
    """Any of what would be run, or a link or a directory on the way to it. What a package without a file (a namespace)
    holds is not known yet, so of that its directories count."""
    directories = list(found.submodule_search_locations or ())
    files = [found.origin] if found.origin and found.has_location else []
    try:
        times = [look(path).st_ctime_ns for path in (*files, *directories) for look in (os.stat, os.lstat)]
        if found.cached and os.path.lexists(found.cached):
            times.append(os.lstat(found.cached).st_ctime_ns)
    except OSError:
        return True
    return not times or max(times) >= since
